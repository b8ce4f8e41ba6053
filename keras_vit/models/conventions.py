"""What the origin of a file implies and its arrays do not show: activation, epsilons, names of classes."""

from dataclasses import fields, replace

from keras_vit.models.variants import AnyVariant, BiTVariant, EfficientNetVariant
from keras_vit.preprocessing.inputs import imagenet_classes
from keras_vit.weights import conventions_of, published_classes

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


def published_labels(weights, classes: int) -> list[str] | None:
    """Return the class names of ImageNet-1k if `weights` is the tag of a classifier of ImageNet-1k, else None."""
    if weights is None or classes != 1000 or published_classes(weights) != classes:
        return None
    return [name for _, name in imagenet_classes()]
