"""Put the classes of a split in another order than the sorted one."""

import dataclasses

import numpy as np
import tensorflow as tf

from keras_vit.data.examples import Examples


def in_order(examples: Examples, classes: tuple[str, ...]) -> Examples:
    """Return a split whose classes are in the given order.

    Raises:
        ValueError: `classes` are not the names of all classes of the split.
    """
    unknown = [name for name in examples.labels if name not in classes]
    missing = [name for name in classes if name not in examples.labels]
    if unknown or missing:
        differing = f"the data has no {', '.join(missing[:5])}" if missing else f"it lacks {', '.join(unknown[:5])}"
        raise ValueError(f"classes expected the names of all classes of the data, received {', '.join(classes)}; "
                         f"{differing}.")  # fmt: skip
    if tuple(examples.labels) == tuple(classes):
        return examples
    position = np.array([classes.index(name) for name in examples.labels], "int64")
    renamed = lambda rows: rows.map(lambda index, image, label: (index, image, tf.gather(position, label)))  # noqa: E731
    select, targets, counts = examples.select, examples.targets, examples.counts
    if targets is not None:
        targets = targets[:, np.argsort(position)] if examples.multi else position[targets]
    return dataclasses.replace(
        examples,
        labels=tuple(classes),
        stream=lambda seed=None: renamed(examples.stream(seed)),
        targets=targets,
        counts=counts and tuple(np.array(counts)[np.argsort(position)].tolist()),
        select=select and (lambda order: renamed(select(order))),
    )
