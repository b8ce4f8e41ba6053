"""Frozen layers."""

import fnmatch

import keras

from keras_vit.models.adapt import HEAD, adapted_variables
from keras_vit.models.adapt_settings import Adapt


def head_variables(trained: list) -> list:
    """Return the variables of the head among the trained ones.

    Raises:
        ValueError: the head is frozen.
    """
    variables = [variable for variable in trained if variable.path.split("/")[0] in HEAD]
    if not variables:
        raise ValueError("freeze expected a head that is trained with head_first, received patterns that match it.")
    return variables


def trained_variables(model: keras.Model, frozen: tuple[str, ...], adapt: Adapt | None = None) -> list:
    """Return the trainable variables of a model, except in layers whose names match a shell pattern.

    With `adapt`, only its variables and the classifier. The layers themselves stay trainable in the saved model.

    Raises:
        ValueError: a pattern matches no layer with weights, or nothing is left to train.
    """
    owners = {variable.path.split("/")[0] for variable in model.trainable_variables}
    matched = {pattern: set(fnmatch.filter(owners, pattern)) for pattern in frozen}
    idle = [pattern for pattern, names in matched.items() if not names]
    still = set().union(*matched.values())
    if idle or still == owners:
        names = ", ".join(layer.name for layer in model.layers if layer.name in owners)
        raise ValueError(
            f"freeze expected patterns that match layers with weights, and leave one ({names}), received "
            f"{', '.join(map(repr, idle or frozen))}."
        )
    chosen = model.trainable_variables if adapt is None else adapted_variables(model, adapt.kind)
    return [variable for variable in chosen if variable.path.split("/")[0] not in still]
