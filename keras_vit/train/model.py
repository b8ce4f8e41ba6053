"""The model that a recipe trains."""

from dataclasses import replace

import keras

from keras_vit.evaluate.losses import NO_TERMS, ClassTerms
from keras_vit.layers import OrdinalHead, RegressionHead
from keras_vit.models.builders import build
from keras_vit.models.conventions import follow_conventions
from keras_vit.models.features import head_features
from keras_vit.models.model_names import released_tag
from keras_vit.models.variants import ConvNet, EfficientNetVariant, find_variant
from keras_vit.models.vision_model import VisionModel
from keras_vit.preprocessing.image_spec import ImageSpec, preprocessing_of, store_preprocessing
from keras_vit.tasks.masked import build_masked_model
from keras_vit.train.kept_head import load_with_head
from keras_vit.train.recipe import Model, Recipe
from keras_vit.weights import load_weights

_OF_TOKENS = ("patch_size", "representation_size", "dropout_rate", "attention_dropout_rate", "drop_path_rate")


def build_model(recipe: Recipe, labels: tuple[str, ...], terms: ClassTerms = NO_TERMS) -> keras.Model:
    """Return the model of `labels` that a recipe trains: the recipe's weights and a head of zeros.

    Activation and epsilons come from the weights file. Without `keep_head`, the file's head is not loaded, nor is its
    representation layer unless the recipe has one of the same size (section 3.2).

    Raises:
        FileNotFoundError: the weights are absent.
        ValueError: the weights do not fit, or the row does not support a field of the recipe.
    """
    if recipe.masked is not None:
        return build_masked_model(recipe)
    settings = recipe.model
    source = _source(settings)
    if settings.keep_head and source is None:
        raise ValueError("keep_head expected false without weights, received true; set model.weights to a workdir, a "
                         "file or a tag.")  # fmt: skip
    options = {
        "input_shape": settings.input_shape,
        "pooling": settings.pooling,
        "classes": len(labels),
        "classifier_activation": "sigmoid" if recipe.loss.kind == "sigmoid" else "softmax",
        "include_preprocessing": settings.include_preprocessing,
        "labels": labels,
        "dtype": recipe.precision,
    }
    row = settings.row
    if recipe.recompute and isinstance(row, EfficientNetVariant):
        raise ValueError(f"recompute expected false with {row.name}, whose batch norms would be updated twice, "
                         "received true.")  # fmt: skip
    if isinstance(row, ConvNet):
        known = ("dropout_rate", "drop_path_rate") if isinstance(row, EfficientNetVariant) else ()
        options |= {"pooling": "gap", **{field: getattr(settings, field) for field in known}}
        for field in {*_OF_TOKENS, "pooling"}.difference(known):
            default = getattr(Model("ViT_B16"), field)
            if getattr(settings, field) != default and (field, settings.pooling) != ("pooling", "gap"):
                raise ValueError(f"{field} expected {default!r} with {row.name}, which has none, received "
                                 f"{getattr(settings, field)!r}.")  # fmt: skip
    else:
        options |= {field: getattr(settings, field) for field in _OF_TOKENS}
    if source is not None:
        row, origin = follow_conventions(source, row)
        options |= origin
    model = build(row, **options)
    if recipe.loss.kind == "ordinal" or recipe.loss.is_regression:
        model = _with_own_head(model, recipe, labels, terms)
    if source is not None:
        if settings.keep_head:
            load_with_head(model, source, labels)
        else:
            last = "pre_logits" if settings.representation_size else "pooling"
            load_weights(keras.Model(model.inputs, model.get_layer(last).output), source)
        store_preprocessing(model, _preprocessing(preprocessing_of(model), recipe))
    if settings.head_bias and not settings.keep_head:
        bias = model.get_layer("head").bias
        bias.assign(keras.ops.full(bias.shape, settings.head_bias))
    return model


def _with_own_head(model: keras.Model, recipe: Recipe, labels, terms: ClassTerms) -> keras.Model:
    """Return a model with the head of ordered classes or of a regression in place of the classifier."""
    features, dtype = head_features(model), model.get_layer("head").dtype_policy
    if recipe.loss.is_regression:
        head = RegressionHead(len(labels), terms.mean, terms.deviation, labels, name="head", dtype=dtype)
        outputs = head(features.output)
    else:
        logits = OrdinalHead(len(labels) - 1, labels, name="head", dtype=dtype)(features.output)
        outputs = keras.layers.Activation("softmax", name="predictions", dtype="float32")(logits)
    return VisionModel(features.input, outputs, name=model.name)


def _preprocessing(spec: ImageSpec, recipe: Recipe) -> ImageSpec:
    """Return the preprocessing of the trained model: that of its initial weights.

    A recipe that states `data.resize` evaluates by its own rule, which an `ImageSpec` of another image size does not
    state. Its model is used on whole images.
    """
    if recipe.data.resize is None:
        return replace(spec, size=None)
    return ImageSpec(mean=spec.mean, std=spec.std, channel_order=spec.channel_order)


def _source(settings) -> str | None:
    """Return the file or the full tag of the initial weights, or None."""
    if settings.weights is not None or not isinstance(settings.variant, str):
        return settings.weights
    row, tag = find_variant(settings.variant)
    return tag and released_tag(row, tag)
