"""Build a model from a row or from a name. `zoo/` has one builder per row."""

from collections.abc import Callable
from typing import Any

import keras

from keras_vit.models.bit import build_bit
from keras_vit.models.efficientnet import build_efficientnet
from keras_vit.models.model_names import find_named
from keras_vit.models.variants import AnyVariant, BiTVariant, ConvNet, EfficientNetVariant, Variant
from keras_vit.models.vit import build as build_vit


def build(
    variant: AnyVariant,
    include_top: bool = True,
    weights: str | None = None,
    input_tensor: Any = None,
    input_shape: tuple | None = None,
    pooling: str | None = "default",
    classes: int = 1000,
    classifier_activation: str | None = "softmax",
    name: str | None = None,
    **options: Any,
) -> keras.Model:
    """Build a row of the tables, or a row of your own.

    Args:
        variant: a row of the tables, or your own `keras_vit.Variant`, `keras_vit.BiTVariant` or
            `keras_vit.EfficientNetVariant`.
        include_top: whether the model ends in the classifier.
        weights: None for initial values, or a tag of `list_weights()`, or the path of a file with the same number of
            classes.
        input_tensor: a Keras tensor of images to use as the input.
        input_shape: (height, width, channels). The sides may differ. A side is None if it is free at run time.
        pooling: `token` (class token), `gap` (mean of the patch tokens, or over a map), `map` (attention
            pooling), or, with `include_top=False`, None for the token sequence or the map. The default is the row's,
            and `gap` for axial rows and convolutional networks, which have no class token.
        classes: number of classes of the classifier.
        classifier_activation: `softmax`, `sigmoid`, or None for logits.
        name: name of the Keras model.
        **options: the other arguments of `keras_vit.ViT_B16`, `keras_vit.BiT_R50x1` or `keras_vit.EfficientNet_B0`:
            patch_size, representation_size, activation, layer_norm_epsilon, attention_dropout_rate, class_token and
            norm_after_pooling of a ViT; dropout_rate and drop_path_rate of a ViT or EfficientNet;
            include_preprocessing, labels and dtype of all.

    Returns:
        A `keras.Model`: images (B, H, W, C) -> (B, classes), or without the top (B, D) or (B, N, D).

    Raises:
        ValueError: an argument is out of range; the message states what was expected and what was received.
    """
    if pooling == "default":
        without_token = isinstance(variant, ConvNet) or getattr(variant, "axial", False)
        pooling = "gap" if without_token else getattr(variant, "pooling", "token")
        if getattr(variant, "norm_after_pooling", False):
            options.setdefault("norm_after_pooling", True)
    positional = (include_top, weights, input_tensor, input_shape, pooling, classes, classifier_activation, name)
    return builder_of(variant)(variant, *positional, **options)


def builder_of(variant: AnyVariant) -> Callable[..., keras.Model]:
    """Return the function that builds rows of the given one's kind. `build_vit` refuses what is no row."""
    kinds: dict[type, Callable[..., keras.Model]] = {BiTVariant: build_bit, EfficientNetVariant: build_efficientnet}
    return next((builder for kind, builder in kinds.items() if isinstance(variant, kind)), build_vit)


def create_model(name: str, **options: Any) -> keras.Model:
    """Build a model by any of its names.

    Args:
        name: `ViT_B16`, `ViT-B/16` or `vit_base_patch16_224`. A weights tag may follow a dot.
        **options: the options of `build`.

    Raises:
        ValueError: no model, or no published file, has this name.
    """
    variant, released = find_named(name)
    if released is not None:
        options.setdefault("weights", released.tag)
        if released.classes is not None:
            options.setdefault("classes", released.classes)
        represents = released.has_representation and options.get("include_top", True)
        if represents and isinstance(variant, Variant):
            options.setdefault("representation_size", variant.width)
    return build(variant, **options)
