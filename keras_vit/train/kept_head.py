"""Load the weights of a model with their classifier, for a run on the same classes."""

import sys

import keras
import numpy as np

from keras_vit.weights import classes_of, load_weights

SHOWN = 5  # names of classes in an error


def load_with_head(model: keras.Model, source: str, labels: tuple[str, ...]) -> None:
    """Load all weights of a file, the classifier included, with its classes in the order of `labels`.

    A file that does not name its classes must have as many; a printed note then says that their order was assumed.

    Raises:
        ValueError: the file has no classifier, or other classes.
    """
    count, names = classes_of(source, model)
    if count is None:
        raise ValueError(f"keep_head expected weights with a classifier, received {source!r}, which has none; "
                         "set model.keep_head=false for a new one.")  # fmt: skip
    if names is None and count == len(labels):
        print(f"{source}: the head is kept; the file names no classes, so they are assumed to be in the order of the "
              f"data: {_few(labels)}", file=sys.stderr)  # fmt: skip
    elif names is None or set(names) != set(labels):
        raise ValueError(_differences(source, count, names, labels))
    load_weights(model, source)
    if names is not None and tuple(names) != tuple(labels):
        order = np.array([names.index(label) for label in labels])
        head = model.get_layer("head")
        for variable in (head.kernel, head.bias):  # (D, K) and (K,)
            variable.assign(np.asarray(variable)[..., order])


def _differences(source, count, names, labels) -> str:
    """Return the sentence about other classes."""
    begin = f"keep_head expected weights of the {len(labels):,} classes of the data, received {source!r} of {count:,}"
    advice = "set model.keep_head=false for a new classifier"
    if names is None:
        return f"{begin}, which it does not name; {advice}."
    only = {"the data has": [name for name in labels if name not in set(names)],
            "the weights have": [name for name in names if name not in set(labels)]}  # fmt: skip
    alone = [f"only {owner} {_few(differing)}" for owner, differing in only.items() if differing]
    return f"{begin}: {', and '.join(alone)}; {advice}."


def _few(names) -> str:
    return ", ".join(map(repr, names[:SHOWN])) + f", and {len(names) - SHOWN:,} more" * (len(names) > SHOWN)
