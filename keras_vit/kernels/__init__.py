"""Faster implementations of the layers: loops that XLA compiles, oneDNN operations, and gradients for CPUs."""


def by_xla() -> bool:
    """Whether XLA compiles all that TensorFlow computes of a model: on GPUs and TPUs."""
    import tensorflow as tf  # this room is imported on JAX, too

    return any(device.device_type in ("GPU", "TPU") for device in tf.config.list_logical_devices())
