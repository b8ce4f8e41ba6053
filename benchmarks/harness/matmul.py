"""How fast the machine multiplies matrices: the rate that a model can reach at most. One function a library."""

SIZES = {"cpu": 2048, "gpu": 8192}  # rows and columns of both factors
LIBRARIES = ("numpy", "tensorflow", "torch", "jax")  # numpy has no bfloat16, and no GPU


def prepare(contestant: dict):
    """A product of two square matrices by the library that stands as `backend`, of `dtype` float32 or bfloat16."""
    return {"numpy": _numpy, "tensorflow": _tensorflow, "torch": _torch, "jax": _jax}[contestant["backend"]](
        SIZES[contestant["device"]], contestant["dtype"], contestant["device"]
    )


def flops(device: str) -> int:
    """Operations of one product, two a multiply-add."""
    return 2 * SIZES[device] ** 3


def _numpy(size, dtype, device):
    import numpy as np

    if dtype != "float32" or device != "cpu":
        raise ValueError(f"numpy multiplies no {dtype} on a {device}")
    x = np.random.default_rng(0).normal(size=(size, size)).astype("float32")
    return lambda: x @ x


def _tensorflow(size, dtype, device):
    import tensorflow as tf

    if device == "gpu" and not tf.config.list_physical_devices("GPU"):
        raise ValueError("TensorFlow finds no GPU")
    x = tf.cast(tf.random.normal((size, size)), dtype)
    product = tf.function(lambda: tf.matmul(x, x))
    return lambda: product()[0, 0].numpy()


def _torch(size, dtype, device):
    import torch

    if device == "gpu" and not torch.cuda.is_available():
        raise ValueError("torch finds no GPU")
    if device == "gpu":
        torch.set_float32_matmul_precision("high")  # TensorFloat-32, which JAX and TensorFlow multiply in by default
    place = "cuda" if device == "gpu" else "cpu"
    x = torch.randn(size, size, device=place).to(getattr(torch, dtype))

    def call():
        with torch.inference_mode():
            return torch.matmul(x, x)[0, 0].item()

    return call


def _jax(size, dtype, device):
    import jax

    if device == "gpu" and jax.default_backend() != "gpu":
        raise ValueError("JAX finds no GPU")
    x = jax.random.normal(jax.random.key(0), (size, size)).astype(dtype)
    product = jax.jit(lambda x: x @ x)
    return lambda: product(x).block_until_ready()
