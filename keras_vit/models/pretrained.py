"""Build the model of a file of weights, and load the weights."""

import os
from dataclasses import replace
from typing import Any

import keras

from keras_vit.checks import is_whole
from keras_vit.layers import use_initial_values
from keras_vit.models.bit import build_bit
from keras_vit.models.conventions import published_labels
from keras_vit.models.efficientnet import build_efficientnet
from keras_vit.models.model_interface import scales_pixels
from keras_vit.models.rows_from_weights import bit_row, efficientnet_row, require_same, vit_row
from keras_vit.models.vit import build as build_vit
from keras_vit.private import parts_of
from keras_vit.weights.architecture import Architecture, architecture_of_contents, grid_of_config, with_config
from keras_vit.weights.config_fields import config_fields
from keras_vit.weights.contents import read_contents
from keras_vit.weights.files import open_weights
from keras_vit.weights.keras_file import KerasFile
from keras_vit.weights.load import InitialWeights, load_open_file
from keras_vit.weights.model_architecture import architecture_of_model
from keras_vit.weights.notes import print_preprocessing, record_source
from keras_vit.weights.resize import require_method


def from_pretrained(
    source: str | os.PathLike,
    *,
    num_heads: int | None = None,
    source_grid: tuple[int, int] | None = None,
    position_resize: str | None = None,
    strict: bool = True,
    **options: Any,
) -> keras.Model:
    """Build the model of a file, and load the file's weights.

    Sizes, patch, heads, stem, representation layer, classes and image grid are read from the shapes and from a
    config next to the file (`NAME.config.json`, else `config.json`), which may name an architecture of timm. A printed
    note lists what neither states (heads, activation, epsilon, pooling) and which value is assumed. Without options,
    the model of a `.keras` file is returned unchanged. With options, it is rebuilt with its own rates, preprocessing,
    dtype policy and frozen layers. A model that is built ends in logits unless `classifier_activation` is given.

    Args:
        source: a file, a folder that holds one, a tag or a URL of the catalogue (`keras-vit weights find`), or a model
            on the Hugging Face hub: `hf://ORG/NAME`, or `hf://ORG/NAME/FILE@REVISION`.
        num_heads: number of attention heads, if neither the shapes, a config nor a row of the tables states it.
        source_grid: (height, width) of the position embedding, if it is not square.
        position_resize: `official`, `timm`, `timm_npz`, `hf`, `dinov2`, or None for the method of the file's publisher;
            used if `input_shape` requests another grid.
        strict: False ignores heads and training state, and prints what was ignored; see `load_weights`.
        **options: options of `build` that replace the file's: `input_shape`, `patch_size`, `classes` and so on.

    Returns:
        A `keras.Model`: images (B, H, W, C) -> logits (B, classes), or features if the file has no classifier.

    Raises:
        FileNotFoundError: `source` does not exist.
        ValueError: the file does not determine the model; the message names the option to pass.
    """
    if num_heads is not None and not is_whole(num_heads):
        raise ValueError(f"num_heads expected a positive int, received {num_heads!r}.")
    require_method(position_resize)
    chosen = {name for name, value in {**options, "num_heads": num_heads}.items() if value is not None}
    with open_weights(source) as file:
        if isinstance(file, KerasFile) and not options:
            model = _unchanged(file, num_heads, source_grid)
            record_source(model, source)
            return model
        contents = read_contents(file)
        architecture, options = _read(file, contents, source, options)
        initial_weights = InitialWeights(file, contents)
        with use_initial_values(initial_weights):
            model = _BUILDERS[architecture.family](architecture, options, contents.source, num_heads, source_grid)
        load_open_file(model, file, contents, strict, position_resize, source_grid, initial_weights, chosen)
    if isinstance(file, KerasFile):
        _freeze_alike(model, file.model)
    record_source(model, source)
    return model


def _unchanged(file: KerasFile, num_heads, source_grid) -> keras.Model:
    """Return the model of a `.keras` file.

    Raises:
        ValueError: an option contradicts the file.
    """
    heads = (layer.num_heads for layer in file.model.layers if hasattr(layer, "num_heads"))
    require_same("num_heads", num_heads, next(heads, None), file.source)
    require_same("source_grid", source_grid and tuple(source_grid), file.grid, file.source)
    print_preprocessing(file.model, file.source)
    return file.model


def _read(file, contents, source, options: dict) -> tuple[Architecture, dict]:
    """Return the architecture of a file, and `options` with the file's values for the options that are missing."""
    if isinstance(file, KerasFile):
        architecture = architecture_of_model(file.model)
        options = _built_with(file.model) | options
    else:
        fields = config_fields(file, contents)
        shapes = architecture_of_contents(contents, grid_of_config(contents, fields))
        architecture = with_config(shapes, fields, contents.source)
    defaults = {"name": None, "classifier_activation": None, "include_top": architecture.classes is not None}
    options = {**defaults, "classes": architecture.classes or 1000, **options}
    if options["classes"] == architecture.classes:
        options.setdefault("labels", architecture.labels or published_labels(source, architecture.classes))
    return architecture, options


def _built_with(model) -> dict:
    """Return the options of `build` that neither the arrays of a model nor its `Architecture` state."""
    layers = {layer.name: layer for layer in model.layers}
    policy = (layers.get("root") or layers["embedding"]).dtype_policy
    options = {"include_preprocessing": scales_pixels(model), "dtype": policy}
    if None in model.input_shape[1:]:
        options["input_shape"] = model.input_shape[1:]
    blocks = [layer for name, layer in layers.items() if name.startswith("encoder_block_")]
    rates = ("dropout_rate", "attention_dropout_rate", "drop_path_rate") if blocks else ()
    units = [layer for layer in layers.values() if hasattr(layer, "drop_path_rate")]
    if units and not blocks:  # of an EfficientNet; the last unit has n - 1 of n parts of the rate
        options["drop_path_rate"] = units[-1].drop_path_rate * len(units) / (len(units) - 1)
        options["dropout_rate"] = layers["dropout"].rate if "dropout" in layers else 0.0
    return options | {name: getattr(blocks[-1], name) for name in rates}


def _freeze_alike(model, source) -> None:
    """Copy `trainable` from the layers of `source` to the layers of the same name, except to a new classifier."""
    layers = {layer.name: layer for layer in source.layers}
    for layer in model.layers:
        if layer.name in layers and getattr(layer, "units", None) == getattr(layers[layer.name], "units", None):
            _copy_trainable(layer, layers[layer.name])


def _copy_trainable(layer, source) -> None:
    layer.trainable = source.trainable  # also sets it for the inner layers
    inner = {part.name: part for part in parts_of(source)}
    for part in parts_of(layer):
        if part.name in inner:
            _copy_trainable(part, inner[part.name])


def _build_bit(architecture: Architecture, options, *_) -> keras.Model:
    # The file fits every image size, unless it holds relative positions.
    size = architecture.image_size if architecture.axial else (None, None)
    return build_bit(bit_row(architecture), **{"input_shape": (*size, architecture.channels), **options})


_FROM_FILE = ("pooling", "class_token", "norm_after_pooling", "representation_size", "activation", "layer_norm_epsilon")


def _build_vit(architecture: Architecture, options, source, num_heads, source_grid) -> keras.Model:
    row = vit_row(architecture, source, num_heads)
    options = {**{name: getattr(architecture, name) for name in _FROM_FILE}, **options}
    options["patch_size"] = options.get("patch_size") or architecture.patch_size
    if options.get("input_shape") is None:
        options["input_shape"] = _input_shape(architecture, source, source_grid)
    return build_vit(row, **options)


def _build_efficientnet(architecture: Architecture, options, *_) -> keras.Model:
    row = efficientnet_row(architecture)
    return build_efficientnet(row, **{"input_shape": (None, None, architecture.channels), **options})


_BUILDERS = {"vit": _build_vit, "bit": _build_bit, "efficientnet": _build_efficientnet}


def _input_shape(architecture: Architecture, source, source_grid):
    size = replace(architecture, grid=source_grid or architecture.grid).full_size
    if size is None and architecture.positions in ("sincos2d", "none"):
        return (None, None, architecture.channels)  # the file fits every size
    if size is None:
        tokens = architecture.tokens - architecture.prefix_tokens
        raise ValueError(
            f"input_shape expected (height, width, channels), or source_grid (height, width), received neither: "
            f"the {tokens} positions of {source!r} are no square grid."
        )
    return (*size, architecture.channels)
