"""Forms that layers take on JAX for 16-bit numbers, chosen by what XLA makes of them on a GPU.

Where there is one: CUDA_VISIBLE_DEVICES=0 KERAS_BACKEND=jax pytest tests/kernels/test_on_jax.py
"""

import re

import keras
import numpy as np
import pytest

from keras_vit import layers
from keras_vit.kernels import flash
from keras_vit.kernels.xla_16bit import gelu, gelu_tanh, layer_norm
from keras_vit.layers import encoder, mlp

pytestmark = pytest.mark.skipif(
    keras.backend.backend() != "jax", reason="of JAX alone, on which tests/test_architecture.py runs it"
)
HALF = 2**-8  # a unit in the last place of bfloat16


@pytest.fixture
def qkv():
    import jax.numpy as jnp

    return [jnp.asarray(np.random.default_rng(n).standard_normal((3, 5, 2, 8)), "bfloat16") for n in range(3)]


@pytest.fixture
def gpu(monkeypatch):
    """JAX believes that it has a GPU that cuDNN's attention runs on: it can write programs for it, and run none."""
    from jax._src.cudnn import fused_attention_stablehlo as cudnn

    monkeypatch.setattr(flash, "_on_gpu", lambda: True)
    monkeypatch.setattr(cudnn, "check_cudnn_version", lambda: 91000)
    monkeypatch.setattr(cudnn, "check_compute_capability", lambda _: True)
    monkeypatch.setattr(cudnn, "is_cuda_compute_capability_equal", lambda _: False)


def of_gpu(function, *arguments) -> str:
    """The program that JAX writes for a GPU."""
    import jax

    return jax.jit(function).trace(*arguments).lower(lowering_platforms=("cuda",)).as_text()


def relative(found, expected):
    found, expected = (np.asarray(x, "float32") for x in (found, expected))
    return np.linalg.norm(found - expected) / np.linalg.norm(expected)


def test_a_token_that_nobody_sees_changes_neither_attention_nor_its_gradients(qkv):
    import jax

    wide = [x.astype("float32") for x in qkv]
    weights = np.random.default_rng(9).standard_normal((3, 5, 2, 8)).astype("float32")
    pair = [
        jax.value_and_grad(lambda *qkv, attend=attend: (attend(*qkv) * weights).sum(), argnums=(0, 1, 2))(*wide)
        for attend in (lambda *qkv: flash._padded_attention(*qkv, "xla"), keras.ops.dot_product_attention)
    ]
    for found, expected in zip(*map(jax.tree.leaves, pair), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    assert flash._padded_attention(*qkv, "xla").shape == (3, 5, 2, 8)


def test_of_an_odd_number_of_tokens_flash_attention_has_a_gradient(qkv, gpu):
    import jax

    def loss(*qkv):
        return flash.fused_attention(*qkv).astype("float32").sum()

    step = of_gpu(jax.grad(loss, argnums=(0, 1, 2)), *qkv)
    assert set(re.findall(r"__cudnn\$\w+", step)) == {"__cudnn$fmhaSoftmax", "__cudnn$fmhaSoftmaxBackward"}
    assert "tensor<3x2x5x5x" not in step and "tensor<3x2x6x6x" not in step  # the weights
    forward = of_gpu(loss, *qkv)
    assert "__cudnn$fmhaSoftmax" in forward and "x6x2x8" not in forward  # there no token is put in
    assert "__cudnn" not in of_gpu(jax.grad(loss), *(x.astype("float32") for x in qkv))


def test_where_cudnn_has_no_attention_its_gradient_is_plain_attentions(qkv, monkeypatch):
    import jax

    def gradients():
        return jax.grad(lambda *qkv: (flash.fused_attention(*qkv) ** 2).astype("float32").sum(), argnums=(0, 1, 2))(
            *qkv
        )

    expected = gradients()
    monkeypatch.setattr(flash, "_on_gpu", lambda: True)  # JAX knows better
    for found, plain in zip(gradients(), expected, strict=True):
        np.testing.assert_array_equal(found, plain)


@pytest.mark.parametrize("tokens", [197, 577])
def test_on_a_gpu_flash_attention_and_its_gradients_are_those_of_plain_attention_in_float32(tokens):
    import jax
    import jax.numpy as jnp

    if jax.default_backend() != "gpu":
        pytest.skip("JAX finds no GPU")
    qkv = [jnp.asarray(np.random.default_rng(n).standard_normal((4, tokens, 6, 64)), "bfloat16") for n in range(3)]
    weights = np.random.default_rng(9).standard_normal((4, tokens, 6, 64)).astype("float32")
    wide = [x.astype("float32") for x in qkv]
    attend = jax.jit(flash.fused_attention)
    step = jax.jit(jax.grad(lambda *qkv: (flash.fused_attention(*qkv) * weights).sum(), argnums=(0, 1, 2)))
    assert "__cudnn$fmhaSoftmaxBackward" in step.lower(*qkv).compile().as_text()
    with jax.default_matmul_precision("highest"):
        assert relative(attend(*qkv), attend(*wide)) < 2 * HALF
        for found, expected in zip(step(*qkv), step(*wide), strict=True):
            assert relative(found, expected) < 3 * HALF


@pytest.mark.parametrize(("function", "approximate"), [(gelu_tanh, True), (gelu, False)])
def test_gelu_of_bfloat16_is_computed_in_float32_and_keeps_its_input_alone(function, approximate):
    import jax
    import jax.numpy as jnp

    x = jnp.asarray(np.random.default_rng(0).normal(0, 3, 4096), "bfloat16")
    upstream = jnp.asarray(np.random.default_rng(1).normal(0, 1, 4096), "bfloat16")
    found, backward = jax.vjp(function, x)
    expected, exact = jax.vjp(lambda x: jax.nn.gelu(x, approximate=approximate), x.astype("float32"))
    assert found.dtype == x.dtype and [part.nbytes for part in jax.tree.leaves(backward)] == [x.nbytes]
    assert relative(found, expected) < HALF / 2
    assert relative(backward(upstream)[0], exact(upstream.astype("float32"))[0]) < HALF / 2
    np.testing.assert_allclose(function(x.astype("float32")), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["gelu_tanh", "gelu"])
def test_a_layer_uses_the_formulas_in_16_bits_only(name):
    import jax.numpy as jnp

    x = np.random.default_rng(0).standard_normal((2, 5, 8)).astype("float32")
    formulas = {"gelu_tanh": gelu_tanh, "gelu": gelu}
    for dtype in ("bfloat16", "float32"):
        block, norm = layers.MLPBlock(16, name, dtype=dtype), layers.LayerNorm(dtype=dtype)
        block.build(x.shape), norm.build(x.shape)
        values = jnp.asarray(x, dtype)
        ones, zeros = np.ones(8, "float32"), np.zeros(8, "float32")
        activate = formulas[name] if dtype == "bfloat16" else mlp.ACTIVATIONS[name]
        np.testing.assert_array_equal(block(values), block.fc2(activate(block.fc1(values))))
        normalise = layer_norm if dtype == "bfloat16" else encoder.layer_norm
        np.testing.assert_array_equal(norm(values), normalise(values, ones, zeros, 1e-6).astype(dtype))


def test_layer_norm_of_bfloat16_makes_one_pass_and_the_same_numbers(monkeypatch):
    import jax
    import jax.numpy as jnp

    rng = np.random.default_rng(0)
    x = jnp.asarray(rng.normal(rng.normal(0, 8, (64, 1)), 1, (64, 768)), "bfloat16")
    gamma, beta = (jnp.asarray(rng.normal(size=768), "float32") for _ in range(2))
    mean, averaged = keras.ops.mean, []
    monkeypatch.setattr(keras.ops, "mean", lambda x, **options: averaged.append(x) or mean(x, **options))
    found = layer_norm(x, gamma, beta, 1e-6)
    expected = encoder.layer_norm(x.astype("float32"), gamma, beta, 1e-6)
    assert found.dtype == "float32"
    np.testing.assert_array_equal(averaged[1], averaged[0] * averaged[0])  # which need not wait for the first mean
    np.testing.assert_allclose(found, expected, atol=1e-3)  # bfloat16 has two digits
    slope = [
        jax.grad(lambda x, norm=norm: (norm(x, gamma, beta, 1e-6) ** 2).sum())(x.astype(kind))
        for norm, kind in ((layer_norm, "bfloat16"), (encoder.layer_norm, "float32"))
    ]
    assert relative(*slope) < HALF
    assert np.isfinite(layer_norm(jnp.full((1, 768), 300.0, "bfloat16"), gamma, beta, 1e-6)).all()
