"""A Keras model's forward pass and training step, compiled, on the backend that Keras runs on.

B batch, S side in pixels, K classes.
"""

import functools

import keras
import numpy as np

from keras_vit.kernels.compiled import compiled

CLASSES = 1000
RATE, DECAY = 1e-4, 0.1  # AdamW's


def batch_of(size: int, batch: int) -> tuple[np.ndarray, np.ndarray]:
    """Random images (B, S, S, 3) in [-1, 1] and labels (B,)."""
    images = np.random.default_rng(0).uniform(-1, 1, (batch, size, size, 3)).astype("float32")
    return images, np.arange(batch, dtype="int32") % CLASSES


def require_device(device: str) -> None:
    """Raise unless Keras's backend computes where it is asked to."""
    if device == "gpu" and _gpu() is None:
        raise ValueError(f"Keras's backend {keras.backend.backend()} finds no GPU")


def device_peak(device: str):
    """A function that tells the bytes held at most: of the GPU, or of the process."""
    from benchmarks.harness.worker import process_peak

    return _gpu() if device == "gpu" else process_peak


def forward(model: keras.Model, images: np.ndarray):
    """A function that computes the model's output and waits for it.

    Args:
        model: of one input.
        images: (B, S, S, 3).
    """
    if keras.backend.backend() == "jax":
        import jax

        answer, images = compiled(model), jax.numpy.asarray(images)
        return lambda: jax.block_until_ready(answer(images))
    import tensorflow as tf

    images = tf.constant(images)
    traced = tf.function(lambda x: model(x, training=False))
    return lambda: traced(images).numpy()


def jax_step(model: keras.Model, images: np.ndarray, labels: np.ndarray):
    """A function that makes one update on JAX, compiled whole, and waits for its loss.

    Args:
        model: gives logits (B, K).
        images: (B, S, S, 3).
        labels: (B,).
    """
    import jax

    optimizer = keras.optimizers.AdamW(RATE, weight_decay=DECAY)
    optimizer.build(model.trainable_variables)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    images, labels = jax.numpy.asarray(images), jax.numpy.asarray(labels)

    def losses(trained, fixed, images, labels):
        logits, fixed = model.stateless_call(trained, fixed, images, training=True)
        return loss(labels, logits), fixed

    @functools.partial(jax.jit, donate_argnums=0)
    def step(state, images, labels):
        trained, fixed, slots = state
        (value, fixed), gradients = jax.value_and_grad(losses, has_aux=True)(trained, fixed, images, labels)
        trained, slots = optimizer.stateless_apply(slots, gradients, trained)
        return [list(trained), list(fixed), list(slots)], value  # as given: of another structure it is compiled again

    parts = (model.trainable_variables, model.non_trainable_variables, optimizer.variables)
    state = [[variable.value for variable in part] for part in parts]

    def call():
        nonlocal state
        state, value = step(state, images, labels)
        return value.block_until_ready()

    return call


def _gpu():
    """A function that tells the GPU's peak in bytes; None without a GPU."""
    if keras.backend.backend() == "jax":
        import jax

        found = [device for device in jax.devices() if device.platform == "gpu"]
        return (lambda: found[0].memory_stats()["peak_bytes_in_use"]) if found else None
    import tensorflow as tf

    if not tf.config.list_physical_devices("GPU"):
        return None
    return lambda: tf.config.experimental.get_memory_info("GPU:0")["peak"]
