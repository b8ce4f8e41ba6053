"""What XLA compiles (on TensorFlow and CPUs loops, elsewhere all of a model's pass), and oneDNN's own operations."""

import keras


def by_xla() -> bool:
    """Whether XLA compiles all that TensorFlow computes of a model: on GPUs and TPUs."""
    import tensorflow as tf  # this room is imported on JAX, too

    return any(device.device_type in ("GPU", "TPU") for device in tf.config.list_logical_devices())


def traced_for_cpu(model: keras.Model) -> bool:
    """Whether TensorFlow runs, on a CPU, what Keras traces of a model: neither XLA nor Python does."""
    if keras.backend.backend() != "tensorflow" or model.run_eagerly or model.jit_compile or by_xla():
        return False
    import tensorflow as tf

    return not tf.config.functions_run_eagerly()
