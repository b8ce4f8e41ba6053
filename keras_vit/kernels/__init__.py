"""Faster implementations of the layers: loops that XLA compiles, oneDNN operations, and gradients for CPUs."""


def by_xla() -> bool:
    """Return whether XLA compiles whole functions, as on GPUs and TPUs."""
    import tensorflow as tf  # JAX imports this package without TensorFlow

    return any(device.device_type in ("GPU", "TPU") for device in tf.config.list_logical_devices())
