"""The activation and the epsilons that the origin of a file uses. Its arrays do not show them."""

from dataclasses import fields, replace

from keras_vit.models.variants import AnyVariant, BiTVariant, EfficientNetVariant
from keras_vit.weights import conventions_of

_OPTIONS = ("activation", "layer_norm_epsilon")


def follow_conventions(weights, variant: AnyVariant) -> tuple[AnyVariant, dict]:
    """Return the row and the options of `build` as the origin of a file computes them.

    Args:
        weights: file, or tag of `list_weights()`; None changes nothing.
        variant: the row. A field that is not at its default stays unchanged unless the file or its config states it.

    Returns:
        The row, and `activation` and `layer_norm_epsilon` for a ViT's file of a known origin.
    """
    if weights is None or isinstance(variant, EfficientNetVariant):
        return variant, {}
    is_bit = isinstance(variant, BiTVariant)
    defaults = {field.name: field.default for field in fields(variant) if field.name in _OPTIONS}
    known = {name: value for name, default in defaults.items() if (value := getattr(variant, name)) != default}
    origin = conventions_of(weights, known)
    resnet = variant if is_bit else variant.stem
    if resnet is not None and is_bit != ("activation" in origin):
        changes = {
            field.name: origin[field.name]
            for field in fields(resnet)
            if field.name in origin and getattr(resnet, field.name) == field.default
        }
        resnet = replace(resnet, **changes)
    row = resnet if is_bit else replace(variant, stem=resnet)
    return row, {name: origin[name] for name in _OPTIONS if origin.get(name) is not None}
