"""What single layers compute, against plain NumPy and textbook forms."""

import math
from concurrent.futures import ThreadPoolExecutor

import keras
import numpy as np
import parity
import pytest
from support import max_difference

from keras_vit import layers
from keras_vit.layers.mlp import gelu, gelu_tanh


def test_patches_are_cut_row_by_row_and_the_rest_is_dropped():
    images = np.arange(2 * 5 * 7 * 2, dtype="float32").reshape(2, 5, 7, 2)
    patches = layers.PatchExtraction((2, 3))(images)
    assert patches.shape == (2, 2, 2, 12)
    np.testing.assert_array_equal(patches[1, 1, 0], images[1, 2:4, 0:3].reshape(-1))


def test_patch_embedding_is_the_convolution():
    images = np.random.default_rng(0).standard_normal((2, 9, 13, 3)).astype("float32")
    layer = layers.PatchEmbedding(5, (4, 6))
    layer.build(images.shape)
    layer.bias.assign(np.arange(5))
    expected = keras.ops.conv(images, layer.kernel, strides=(4, 6), padding="valid") + layer.bias
    assert max_difference(layer(images), expected) < 1e-5


def test_gelu_forms():
    x = np.linspace(-6, 6, 101).astype("float32")
    exact = np.array([0.5 * v * (1 + math.erf(v / 2**0.5)) for v in x])
    tanh = 0.5 * x * (1 + np.tanh((2 / np.pi) ** 0.5 * (x + 0.044715 * x**3)))
    x = keras.ops.convert_to_tensor(x)
    assert max_difference(gelu(x), exact) < 1e-6
    assert max_difference(gelu_tanh(x), tanh) < 1e-6
    assert max_difference(gelu(x), tanh) > 1e-4


def test_attention_is_softmax_of_scaled_products():
    rng = np.random.default_rng(0)
    tokens = rng.standard_normal((2, 5, 8)).astype("float32")
    layer = layers.MultiHeadSelfAttention(2)
    layer.build(tokens.shape)
    kernel, bias, out, out_bias = (rng.standard_normal(v.shape).astype("float32") for v in layer.weights)
    layer.set_weights([kernel, bias, out, out_bias])
    q, k, v = np.split(tokens @ kernel + bias, 3, axis=-1)
    expected = np.zeros_like(tokens)
    for head in (slice(0, 4), slice(4, 8)):
        scores = q[..., head] @ k[..., head].transpose(0, 2, 1) / 2
        weights = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
        expected[..., head] = weights @ v[..., head]
    assert max_difference(layer(tokens), expected @ out + out_bias) < 1e-4
    assert max_difference(keras.ops.sum(layer.attention_weights(tokens), axis=-1), np.ones((2, 2, 5))) < 1e-6
    assert max_difference(layer.attention_weights(tokens)[:, 1], weights) < 1e-5


@pytest.mark.skipif(keras.backend.backend() == "tensorflow", reason="TensorFlow has no fused attention")
def test_attention_is_the_backends_own_unless_its_weights_are_asked_for(monkeypatch):
    fused, called = keras.ops.dot_product_attention, []
    monkeypatch.setattr(keras.ops, "dot_product_attention", lambda *parts: called.append(parts) or fused(*parts))
    tokens = np.random.default_rng(0).standard_normal((2, 5, 8)).astype("float32")
    layer = layers.MultiHeadSelfAttention(2, attention_dropout_rate=0.5)
    expected = layer(tokens)
    assert len(called) == 1 and called[0][0].shape == (2, 5, 2, 4)
    layer(tokens, training=True)
    with layers.capture_attention([layer]):
        assert max_difference(layer(tokens), expected) < 1e-6
    assert len(called) == 1


def test_attention_pooling_is_keras_attention_from_the_probe():
    rng = np.random.default_rng(1)
    tokens = rng.standard_normal((3, 6, 8)).astype("float32")
    layer = layers.AttentionPooling(num_heads=2, mlp_dim=12)
    layer.build(tokens.shape)
    for variable in layer.weights:
        variable.assign(0.5 * rng.standard_normal(variable.shape))
    peer = keras.layers.MultiHeadAttention(2, 4)
    probe = keras.ops.repeat(layer.probe, 3, axis=0)
    peer.build(probe.shape, tokens.shape)
    kernels = [layer.query.kernel, *keras.ops.split(layer.key_value.kernel, 2, axis=1)]
    biases = [layer.query.bias, *keras.ops.split(layer.key_value.bias, 2)]
    values = []
    for kernel, bias in zip(kernels, biases, strict=True):
        values += [keras.ops.reshape(kernel, (8, 2, 4)), keras.ops.reshape(bias, (2, 4))]
    peer.set_weights([*values, keras.ops.reshape(layer.out.kernel, (2, 4, 8)), layer.out.bias])
    pooled = peer(probe, tokens)
    expected = (pooled + layer.mlp(layer.norm(pooled)))[:, 0]
    assert max_difference(layer(tokens), expected) < 1e-5


def test_layer_norm_is_keras_own():
    x = 3 + np.random.default_rng(0).standard_normal((2, 5, 8)).astype("float32")
    ours, keras_own = layers.LayerNorm(1e-3), keras.layers.LayerNormalization(epsilon=1e-3)
    assert max_difference(ours(x), keras_own(x)) < 1e-6


def test_layer_norm_keeps_its_scale_in_float32_under_mixed_precision():
    layer = layers.LayerNorm(dtype="mixed_bfloat16")
    layer.build((None, 2))
    layer.beta.assign([1 + 2**-8 - 2**-12, 1])  # bfloat16 rounds the first down to 1, and its sum with gamma as well
    layer.gamma.assign([2**-11, 2**-11])
    assert max_difference(layer(np.array([[1.0, -1.0]])), np.array([[1 + 2**-7, 1.0]])) == 0


def test_stochastic_depth_drops_whole_examples_and_keeps_the_mean():
    x = np.ones((4000, 2, 3), "float32")
    layer = layers.StochasticDepth(0.25, seed=3)
    y = keras.ops.convert_to_numpy(layer(x, training=True))
    assert set(np.unique(y)) == {0.0, np.float32(4 / 3)}
    assert (y.reshape(4000, -1).min(1) == y.reshape(4000, -1).max(1)).all()
    assert abs(y.mean() - 1) < 0.05
    assert max_difference(layer(x), x) == 0


@pytest.mark.parametrize("layer", [layers.GridToTokens(), layers.ClassToken(), layers.PatchExtraction(2)])
def test_a_wrong_rank_gets_one_sentence(layer):
    with pytest.raises(ValueError, match=rf"{layer.name} expected its input to be .*, received shape \(2, 3\)\."):
        layer.build((2, 3))


@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize("kind, last", [(layers.SinCosPositions, 1), (layers.MAEPositions, 0)])
def test_sincos_positions_are_moco_v3s_and_maes(free, kind, last):
    h, w, width = 2, 3, 12
    expected = np.zeros((1 + h * w, width), "float32")
    for row in range(h):
        for column in range(w):
            for k in range(width // 4):
                frequency = 10_000.0 ** (-k / (width // 4 - last))
                values = [np.sin(column * frequency), np.cos(column * frequency)]
                values += [np.sin(row * frequency), np.cos(row * frequency)]
                expected[1 + row * w + column, k :: width // 4] = values
    tokens = np.ones((2, 1 + h * w, width), "float32")
    layer = kind(1 if free else (h, w), prefix_tokens=1)
    found = layer(tokens, np.zeros((2, h, w, 5), "float32")) if free else layer(tokens)
    assert np.allclose(keras.ops.convert_to_numpy(found), 1 + expected, atol=1e-6)
    assert not layer.weights


def test_maes_positions_are_those_of_transformers():
    transformers = parity.transformers()
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    model = transformers.ViTMAEModel(transformers.ViTMAEConfig(**sizes, image_size=12, patch_size=4))
    model.embeddings.patch_embeddings.projection._is_hf_initialized = False  # else the positions stay zero
    model.embeddings.initialize_weights()
    expected = model.embeddings.position_embeddings.detach().numpy()
    found = layers.MAEPositions((3, 3), prefix_tokens=1)(np.zeros((1, 10, 16), "float32"))
    assert np.allclose(keras.ops.convert_to_numpy(found), expected, atol=1e-6)


def test_sincos_positions_refuse_other_widths_and_tokens():
    with pytest.raises(ValueError, match="positions expected a width of 8, 12, 16 and so on, received 6"):
        layers.SinCosPositions((2, 2), name="positions").build((None, 4, 6))
    with pytest.raises(ValueError, match=r"positions expected 5 tokens for its grid \(2, 2\), received 4"):
        layers.SinCosPositions((2, 2), prefix_tokens=1, name="positions").build((None, 4, 8))


def test_position_embedding_refuses_another_number_of_tokens():
    layer = layers.PositionEmbedding((2, 2), prefix_tokens=1, name="positions")
    with pytest.raises(ValueError, match=r"positions expected 5 tokens for its grid \(2, 2\), received 7\."):
        layer.build((None, 7, 4))


def test_attention_is_watched_in_one_thread_alone_and_by_the_innermost():
    tokens = np.random.default_rng(0).standard_normal((2, 5, 8)).astype("float32")
    layer = layers.MultiHeadSelfAttention(2)
    plain = layer(tokens)
    with layers.capture_attention([layer], lambda i, weights: 0 * weights) as seen, ThreadPoolExecutor(1) as other:
        assert max_difference(layer(tokens), plain) > 0.1
        assert max_difference(other.submit(layer, tokens).result(), plain) == 0
        with layers.capture_attention([layer]) as inside:
            assert max_difference(layer(tokens), plain) < 1e-6
        layer(tokens)
    assert (len(seen), len(inside)) == (2, 1)
    assert max_difference(layer(tokens), plain) == 0


def test_a_head_refuses_what_its_config_would_not_keep():
    sentence = r"^Head expected its own arguments, name, trainable and dtype, received \['activation', 'use_bias'\]\.$"
    with pytest.raises(ValueError, match=sentence):
        layers.Head(3, activation="softmax", use_bias=False)
