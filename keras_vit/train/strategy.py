"""Which devices train."""

import tensorflow as tf

STRATEGIES = ("auto", "one", "mirrored")


def choose(name: str, batch_size: int) -> tf.distribute.Strategy:
    """The strategy of a name.

    Args:
        name: `one` device, `mirrored` over all GPUs (or all logical CPUs where there is no GPU), or `auto`:
            mirrored where there are several of them.
        batch_size: examples of one update, to be shared out evenly.

    Raises:
        ValueError: the name is unknown, or the batch cannot be shared out.
    """
    if name not in STRATEGIES:
        raise ValueError(f"strategy expected one of {STRATEGIES}, received {name!r}.")
    devices = tf.config.list_logical_devices("GPU") or tf.config.list_logical_devices("CPU")
    if name == "one" or (name == "auto" and len(devices) == 1):
        return tf.distribute.get_strategy()
    if batch_size % len(devices):
        raise ValueError(f"batch_size expected a multiple of the {len(devices)} replicas, received {batch_size}.")
    return tf.distribute.MirroredStrategy([device.name for device in devices])
