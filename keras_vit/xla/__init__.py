"""What XLA compiles (on TensorFlow and CPUs loops, elsewhere all of a model's pass), and oneDNN's own operations."""


def by_xla() -> bool:
    """Whether XLA compiles all that TensorFlow computes of a model: on GPUs and TPUs."""
    import tensorflow as tf  # this room is imported on JAX, too

    return any(device.device_type in ("GPU", "TPU") for device in tf.config.list_logical_devices())
