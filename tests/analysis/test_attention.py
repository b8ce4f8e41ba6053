import json
import struct

import keras
import numpy as np
import pytest
from support import GOLDENS, golden_model, randomise, run_python

import keras_vit
from keras_vit import analysis
from keras_vit.export.rollout import attention_layers, rollout
from keras_vit.layers import capture_attention

TINY = keras_vit.Variant("Tiny", width=8, depth=2, mlp_dim=12, num_heads=2, patch_size=2)
RNG = np.random.default_rng(0)


def tiny(pooling="token", shape=(4, 6, 1), **options):
    return randomise(keras_vit.build(TINY, input_shape=shape, pooling=pooling, classes=3, **options))


def pictures(shape=(4, 6, 1), count=3):
    return RNG.uniform(-1, 1, (count, *shape)).astype("float32")


class InNumpy:
    """The forward pass of a ViT in float64, written from the paper."""

    def __init__(self, model, heads):
        self.weights = {v.path: keras.ops.convert_to_numpy(v).astype("float64") for v in model.weights}
        self.heads = heads

    def __getitem__(self, path):
        (value,) = [value for name, value in self.weights.items() if name.endswith(path)]
        return value

    def norm(self, x, name):
        x = x - x.mean(-1, keepdims=True)
        return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6) * self[f"{name}/gamma"] + self[f"{name}/beta"]

    def dense(self, x, name):
        return x @ self[f"{name}/kernel"] + self[f"{name}/bias"]

    def attend(self, query, key):
        """Return the attention weights (B, h, Q, N), computed per head."""
        size = query.shape[-1] // self.heads
        heads = []
        for a in range(self.heads):
            part = slice(a * size, (a + 1) * size)
            scores = np.exp(query[..., part] @ key[..., part].swapaxes(1, 2) / np.sqrt(size))
            heads.append(scores / scores.sum(-1, keepdims=True))
        return np.stack(heads, 1)

    def block(self, x, name):
        """Return the attention and the output of a block."""
        query, key, value = np.split(self.dense(self.norm(x, f"{name}/attention_norm"), f"{name}/attention/qkv"), 3, -1)
        weights = self.attend(query, key)
        attended = [weights[:, a] @ part for a, part in enumerate(np.split(value, self.heads, -1))]
        x = x + self.dense(np.concatenate(attended, -1), f"{name}/attention/out")
        hidden = self.dense(self.norm(x, f"{name}/mlp_norm"), f"{name}/mlp/fc1")
        hidden = 0.5 * hidden * (1 + np.tanh(np.sqrt(2 / np.pi) * (hidden + 0.044715 * hidden**3)))
        return weights, x + self.dense(hidden, f"{name}/mlp/fc2")

    def tokens(self, images, patch):
        b, height, width, _ = images.shape
        x = [
            images[:, i : i + patch, j : j + patch].reshape(b, -1)
            for i in range(0, height - height % patch, patch)
            for j in range(0, width - width % patch, patch)
        ]
        kernel = self["embedding/kernel"].reshape(-1, self["embedding/kernel"].shape[-1])
        return np.stack(x, 1) @ kernel + self["embedding/bias"]


def in_numpy(model, images, pooling):
    """Return the attention weights (L, B, h, N, N), and the probe's for a `map` head."""
    reference = InNumpy(model, TINY.num_heads)
    x = reference.tokens(images.astype("float64"), 2)
    if pooling == "token":
        x = np.concatenate([np.broadcast_to(reference["class_token/token"], (len(x), 1, x.shape[-1])), x], 1)
    x = x + reference["position_embedding/embedding"]
    attentions = []
    for name in ("encoder_block_00", "encoder_block_01"):
        weights, x = reference.block(x, name)
        attentions.append(weights)
    probe = None
    if pooling == "map":
        x = reference.norm(x, "encoder_norm")
        query = reference.dense(reference["pooling/probe"], "pooling/query")
        key = reference.dense(x, "pooling/key_value")[..., : x.shape[-1]]
        probe = reference.attend(np.broadcast_to(query, (len(x), 1, x.shape[-1])), key)
    return np.stack(attentions), None if probe is None else probe[:, :, 0]


@pytest.mark.parametrize("pooling", ["token", "gap", "map"])
@pytest.mark.parametrize("shape", [(4, 6, 1), (5, 9, 3)])
def test_attention_equals_a_forward_pass_in_numpy(pooling, shape):
    model, images = tiny(pooling, shape), pictures(shape)
    expected, probe = in_numpy(model, images, pooling)
    attention = analysis.capture(model, images, batch_size=2)
    np.testing.assert_allclose(attention.weights, expected, atol=2e-6)
    assert attention.grid == (shape[0] // 2, shape[1] // 2)
    assert attention.patch_size == (2, 2)
    if pooling == "map":
        np.testing.assert_allclose(attention.probe, probe, atol=2e-6)


def test_attention_equals_transformers():
    """Golden h1 has the attention weights that the ViT of transformers returns."""
    raw = (GOLDENS / "h1.weights.safetensors").read_bytes()
    (size,) = struct.unpack("<Q", raw[:8])
    theirs = {
        name: np.frombuffer(raw[8 + size :][slice(*row["data_offsets"])], "<f4").reshape(row["shape"])
        for name, row in json.loads(raw[8 : 8 + size]).items()
        if name != "__metadata__"
    }
    row = keras_vit.Variant("h1", width=48, depth=3, mlp_dim=112, num_heads=3, patch_size=8)
    model = keras_vit.build(row, input_shape=(32, 32, 3), classes=7, activation="gelu", layer_norm_epsilon=1e-12)
    names = {
        "attention_norm": "layernorm_before",
        "mlp_norm": "layernorm_after",
        "attention/out": "attention.output.dense",
    }
    names |= {"mlp/fc1": "intermediate.dense", "mlp/fc2": "output.dense"}

    def assign(layer, name):
        weight = theirs[f"{name}.weight"]
        for variable, value in zip(layer.weights, (weight.T, theirs[f"{name}.bias"]), strict=True):
            variable.assign(value)

    projection = theirs["vit.embeddings.patch_embeddings.projection.weight"].transpose(2, 3, 1, 0)
    model.get_layer("embedding").kernel.assign(projection)
    model.get_layer("embedding").bias.assign(theirs["vit.embeddings.patch_embeddings.projection.bias"])
    model.get_layer("class_token").token.assign(theirs["vit.embeddings.cls_token"])
    model.get_layer("position_embedding").embedding.assign(theirs["vit.embeddings.position_embeddings"])
    for i in range(3):
        block, prefix = model.get_layer(f"encoder_block_{i:02d}"), f"vit.encoder.layer.{i}"
        for part in (block.attention_norm, block.mlp_norm, block.attention.out, block.mlp.fc1, block.mlp.fc2):
            (name,) = [name for ours, name in names.items() if part.path.endswith(ours)]
            assign(part, f"{prefix}.{name}")
        qkv = [f"{prefix}.attention.attention.{part}" for part in ("query", "key", "value")]
        block.attention.qkv.kernel.assign(np.concatenate([theirs[f"{name}.weight"].T for name in qkv], axis=1))
        block.attention.qkv.bias.assign(np.concatenate([theirs[f"{name}.bias"] for name in qkv]))
    with np.load(GOLDENS / "h1.io.npz") as io:
        np.testing.assert_allclose(analysis.attention_maps(model, io["images"]), io["attentions"], atol=2e-6)


def test_capturing_does_not_change_the_model():
    model, images = tiny(), pictures()
    before, layers = model.predict(images, verbose=0), [layer.name for layer in model.layers]
    analysis.attention_maps(model, images)
    np.testing.assert_array_equal(model.predict(images, verbose=0), before)
    assert [layer.name for layer in model.layers] == layers


def test_attention_times_values_is_the_output_of_the_layer():
    model, images = golden_model("g1"), np.load(GOLDENS / "g1.io.npz")["images"]
    block = model.get_layer("encoder_block_00")
    tokens = keras.Model(model.input, block.input)(images)
    normed = keras.ops.convert_to_numpy(block.attention_norm(tokens))
    weights = analysis.attention_maps(model, images)[0]
    kernel, bias = (keras.ops.convert_to_numpy(v) for v in block.attention.qkv.weights)
    width = normed.shape[-1]
    value = normed @ kernel[:, 2 * width :] + bias[2 * width :]
    size = width // weights.shape[1]
    heads = [weights[:, a] @ value[..., a * size : (a + 1) * size] for a in range(weights.shape[1])]
    expected = np.concatenate(heads, -1) @ keras.ops.convert_to_numpy(block.attention.out.kernel)
    expected += keras.ops.convert_to_numpy(block.attention.out.bias)
    np.testing.assert_allclose(keras.ops.convert_to_numpy(block.attention(normed)), expected, atol=2e-5)


@pytest.mark.parametrize("dtype", ["float32", "mixed_float16", "mixed_bfloat16"])
def test_rows_sum_to_one(dtype):
    weights = analysis.attention_maps(tiny(dtype=dtype), pictures())
    assert weights.shape == (2, 3, 2, 7, 7)
    assert weights.dtype == np.float32
    np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-6 if dtype == "float32" else 2e-2)


def test_class_attention_is_the_row_of_the_class_token():
    model, images = tiny("token"), pictures()
    weights = analysis.attention_maps(model, images)
    maps = analysis.class_attention(model, images)
    assert maps.shape == (2, 3, 2, 2, 3)
    np.testing.assert_array_equal(maps.reshape(2, 3, 2, 6), weights[:, :, :, 0, 1:])


def test_class_attention_of_a_gap_head_is_the_mean_over_the_queries():
    model, images = tiny("gap"), pictures()
    weights = analysis.attention_maps(model, images)
    maps = analysis.class_attention(model, images)
    np.testing.assert_allclose(maps.reshape(2, 3, 2, 6), weights.mean(axis=3), atol=1e-7)
    np.testing.assert_allclose(maps.sum(axis=(-2, -1)), 1, atol=1e-6)


def test_class_attention_of_a_map_head_is_the_attention_of_the_probe():
    model, images = tiny("map"), pictures()
    maps = analysis.class_attention(model, images)
    assert maps.shape == (1, 3, 2, 2, 3)
    np.testing.assert_allclose(maps[0].reshape(3, 2, 6), in_numpy(model, images, "map")[1], atol=2e-6)


def test_models_with_a_free_size_and_models_without_a_head_have_attention():
    model = tiny(shape=(None, None, 1))
    assert analysis.class_attention(model, pictures((6, 8, 1))).shape == (2, 3, 2, 3, 4)
    tokens = tiny(None, include_top=False)
    assert analysis.capture(tokens, pictures()).pooling == "token"
    features = keras_vit.feature_model(tiny("gap"), ["encoder_block_01"])
    assert analysis.capture(features, pictures()).pooling == "gap"


TWO_BLOCKS = np.array([[[[[0.5, 0.5], [0.0, 1.0]]]], [[[[0.25, 0.75], [1.0, 0.0]]]]])  # (2, 1, 1, 2, 2)


def test_rollout_of_two_blocks_by_hand():
    plain = [[0.25 * 0.5, 0.25 * 0.5 + 0.75], [0.5, 0.5]]  # second @ first
    np.testing.assert_allclose(analysis.rollout(TWO_BLOCKS, residual=False)[0], plain)
    mixed = np.array([[0.625, 0.375], [0.5, 0.5]]) @ np.array([[0.75, 0.25], [0.0, 1.0]])
    np.testing.assert_allclose(analysis.rollout(TWO_BLOCKS)[0], mixed)


def test_rollout_averages_heads_and_its_rows_sum_to_one():
    attentions = RNG.random((4, 2, 3, 5, 5))
    attentions /= attentions.sum(-1, keepdims=True)
    rolled = analysis.rollout(attentions)
    assert rolled.shape == (2, 5, 5)
    np.testing.assert_allclose(rolled.sum(-1), 1)
    np.testing.assert_allclose(analysis.rollout(attentions.mean(2, keepdims=True)), rolled)


@pytest.mark.parametrize("pooling", ["token", "gap", "map"])
@pytest.mark.parametrize("residual", [True, False])
def test_rollout_maps_are_rows_of_the_rollout_per_pooling(pooling, residual):
    model, images = tiny(pooling), pictures()
    rolled = analysis.rollout(analysis.attention_maps(model, images), residual)
    if pooling == "token":
        expected = rolled[:, 0, 1:]
    elif pooling == "gap":
        expected = rolled.mean(1)
    else:
        probe = analysis.class_attention(model, images)[0].mean(1).reshape(3, 1, 6)
        expected = (probe @ rolled)[:, 0]
    maps = analysis.rollout_maps(model, images, residual)
    assert maps.shape == (3, 2, 3)
    np.testing.assert_allclose(maps.reshape(3, 6), expected, atol=1e-6)


def test_mean_pooling_leaves_the_class_token_out():
    model, images = tiny("gap", class_token=True), pictures()
    weights = analysis.attention_maps(model, images)
    assert weights.shape[-1] == 7
    np.testing.assert_allclose(
        analysis.class_attention(model, images).reshape(2, 3, 2, 6), weights[..., 1:, 1:].mean(axis=-2), atol=1e-6
    )
    expected = analysis.rollout(weights)[:, 1:, 1:].mean(axis=1)
    np.testing.assert_allclose(analysis.rollout_maps(model, images).reshape(3, 6), expected, atol=1e-6)
    with capture_attention(attention_layers(model)) as seen:
        model(images)
    exported = keras.ops.convert_to_numpy(rollout(model, seen, (2, 3)))
    np.testing.assert_allclose(exported.reshape(3, 6), expected, atol=1e-6)


@pytest.mark.parametrize("prefix", [0, 1])
def test_uniform_attention_rolls_out_to_a_uniform_map(prefix):
    tokens = 6 + prefix
    weights = np.full((3, 2, 2, tokens, tokens), 1 / tokens, "float32")
    pooling, layout = "token" if prefix else "gap", keras_vit.TokenLayout(("class",) * prefix, (2, 3))
    attention = analysis.Attention(weights, None, layout, pooling, (1, 1))
    maps = attention.rollout()
    np.testing.assert_allclose(maps, maps[0, 0, 0], rtol=1e-6)
    residual = 0.125 if prefix else 0  # share of the class token after three blocks
    np.testing.assert_allclose(maps[0, 0, 0], (1 - residual) / tokens, rtol=1e-5)
    np.testing.assert_allclose(attention.pooled_attention(), 1 / tokens, rtol=1e-6)


def test_a_model_without_encoder_blocks_is_refused():
    model = keras.Sequential([keras.Input((4, 4, 1)), keras.layers.Flatten()], name="flat")
    with pytest.raises(ValueError, match="model expected encoder blocks, received 'flat', with Flatten"):
        analysis.attention_maps(model, pictures((4, 4, 1)))


def test_images_of_another_shape_are_refused():
    for images in (pictures((4, 4, 1)), pictures((4, 6, 3)), pictures()[0], pictures(count=0)):
        with pytest.raises(ValueError, match=r"images expected shape \(batch, 4, 6, 1\), received"):
            analysis.attention_maps(tiny(), images)


def test_pixels_are_refused_by_a_model_that_takes_them_scaled():
    pixels = RNG.integers(0, 256, (2, 4, 6, 1), dtype="uint8")
    received = f"{pixels.min()}..{pixels.max()}"
    for images in (pixels, pixels.astype("float32")):
        sentence = rf"^images expected values in \[-1, 1\], .* received {images.dtype} in {received}\.$"
        with pytest.raises(ValueError, match=sentence):
            analysis.attention_maps(tiny(), images)
        analysis.attention_maps(tiny(include_preprocessing=True), images)
    analysis.attention_maps(tiny(), abs(pictures()))


def test_attentions_that_are_not_square_are_refused():
    with pytest.raises(ValueError, match=r"attentions expected shape .* received \(2, 2\)"):
        analysis.rollout(np.ones((2, 2)))


@pytest.mark.broad
def test_the_room_needs_neither_tensorflow_nor_matplotlib():
    code = (
        "import sys, types; sys.modules['tensorflow'] = sys.modules['matplotlib'] = None\n"
        "import numpy as np, keras_vit\n"
        "from keras_vit import analysis\n"
        "row = keras_vit.Variant('t', width=8, depth=2, mlp_dim=8, num_heads=2, patch_size=2)\n"
        "model = keras_vit.build(row, input_shape=(4, 6, 1), classes=3)\n"
        "print(analysis.class_attention(model, np.zeros((1, 4, 6, 1), 'float32')).shape)\n"
        "try: analysis.plot_attention(np.zeros((1, 4, 6, 1)), np.ones((1, 2, 3)), 'never.png')\n"
        "except ImportError as error: print(error)\n"
    )
    pytest.importorskip("jax", reason="the other Keras backend used here is JAX")
    printed = run_python(code, backend="jax")
    assert "(2, 1, 2, 2, 3)" in printed
    assert "Drawing needs Matplotlib, found none: pip install 'keras-vit-zoo[analysis]'." in printed
