"""Which devices train."""

import tensorflow as tf

STRATEGIES = ("auto", "one", "mirrored")


def choose(name: str) -> tf.distribute.Strategy:
    """The strategy of a name.

    Args:
        name: `one` device, `mirrored` over all GPUs (or all logical CPUs where there is no GPU), or `auto`:
            mirrored where there are several of them.

    Raises:
        ValueError: the name is unknown.
    """
    if name not in STRATEGIES:
        raise ValueError(f"strategy expected one of {STRATEGIES}, received {name!r}.")
    devices = tf.config.list_logical_devices("GPU") or tf.config.list_logical_devices("CPU")
    if name == "mirrored" or (name == "auto" and len(devices) > 1):
        return tf.distribute.MirroredStrategy([device.name for device in devices])
    return tf.distribute.get_strategy()
