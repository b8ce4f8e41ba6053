"""A file of weights -> the model it is of."""

import os
from dataclasses import fields, replace

import keras

from keras_vit.checks import is_whole
from keras_vit.layers import starting_from
from keras_vit.models.bit import build_bit
from keras_vit.models.ends import published_labels
from keras_vit.models.interface import scales_pixels
from keras_vit.models.variants import BIT_VARIANTS, VARIANTS, BiTVariant, ResNetStem, Variant
from keras_vit.models.vit import build as build_vit
from keras_vit.weights.architecture import Architecture, architecture_of_contents, architecture_of_model, with_config
from keras_vit.weights.contents import read_contents
from keras_vit.weights.convert import Early, apply
from keras_vit.weights.files import open_weights
from keras_vit.weights.keras_file import KerasFile
from keras_vit.weights.resize import require_method
from keras_vit.weights.stated import note_images, stated


def from_pretrained(
    source: str | os.PathLike,
    *,
    num_heads: int | None = None,
    source_grid: tuple[int, int] | None = None,
    position_resize: str = "official",
    strict: bool = True,
    **options,
) -> keras.Model:
    """Build the model that a file holds, and fill it.

    Sizes, patch, heads, stem, representation layer, classes and image grid are read from the shapes and from a
    config beside the file (`NAME.config.json`, else `config.json`), which may name an architecture of timm's. What
    neither states (heads, activation, epsilon, pooling) is assumed, and a printed note says so. A `.keras` file's
    model is returned as it is where there are no options, and is rebuilt with its own rates, preprocessing and dtype
    policy where there are. A model that is built ends in logits unless `classifier_activation` is given.

    Args:
        source: a file, a folder that holds one, or a tag of `list_weights()`.
        num_heads: attention heads, where neither the shapes, a config nor a row of the table says them.
        source_grid: (down, across) of the position embedding, where it is not square.
        position_resize: `official`, `timm`, `timm_npz` or `hf`, where `input_shape` asks for another grid.
        strict: False leaves out heads, decoders and what belongs to training, and prints what it left out; see
            `load_weights`.
        **options: those of `build`, in place of what the file says: `input_shape`, `patch_size`, `classes`, ...

    Returns:
        A `keras.Model`: images (B, H, W, C) -> logits (B, classes), or features where the file has no classifier.

    Raises:
        FileNotFoundError: nothing lies at `source`.
        ValueError: the file does not say what the model is; the message names the option that settles it.
    """
    if num_heads is not None and not is_whole(num_heads):
        raise ValueError(f"num_heads expected a positive int, received {num_heads!r}.")
    require_method(position_resize)
    given = {name for name, value in {**options, "num_heads": num_heads}.items() if value is not None}
    with open_weights(source) as file:
        if isinstance(file, KerasFile) and not options:
            own = (layer.num_heads for layer in file.model.layers if hasattr(layer, "num_heads"))
            _require_said("num_heads", num_heads, next(own, None), file.source)
            _require_said("source_grid", source_grid and tuple(source_grid), file.grid, file.source)
            note_images(file.model, file.source)
            return file.model
        contents = read_contents(file)
        said = stated(file, contents)
        if isinstance(file, KerasFile):
            architecture = architecture_of_model(file.model)
            options = _built_with(file.model) | options
        else:
            architecture = with_config(architecture_of_contents(contents), said, contents.source)
        options.setdefault("name", None)
        options.setdefault("classifier_activation", None)
        options.setdefault("include_top", architecture.classes is not None)
        options.setdefault("classes", architecture.classes or 1000)
        if options["classes"] == architecture.classes:
            options.setdefault("labels", architecture.labels or published_labels(source, architecture.classes))
        early = Early(file, contents)
        with starting_from(early):
            if architecture.family == "bit":
                # The file fits every size, unless it holds relative positions.
                size = architecture.image_size if architecture.axial else (None, None)
                options.setdefault("input_shape", (*size, architecture.channels))
                model = build_bit(_bit_row(architecture), **options)
            else:
                model = _build_vit(architecture, contents.source, num_heads, source_grid, options)
        apply(model, file, contents, strict, position_resize, source_grid, early, given)
    return model


def _require_said(name: str, asked, own, source: str) -> None:
    """Raise a ValueError where an option is given that the file contradicts."""
    if None not in (asked, own) and asked != own:
        raise ValueError(f"{name} expected {own}, as in {source!r}, received {asked}.")


def _built_with(model) -> dict:
    """The options of `build` behind a model that its arrays and its `Architecture` do not say."""
    layers = {layer.name: layer for layer in model.layers}
    policy = (layers.get("root") or layers["embedding"]).dtype_policy
    options = {"include_preprocessing": scales_pixels(model), "dtype": policy}
    if None in model.input_shape[1:]:
        options["input_shape"] = model.input_shape[1:]
    blocks = [layer for name, layer in layers.items() if name.startswith("encoder_block_")]
    rates = ("dropout_rate", "attention_dropout_rate", "drop_path_rate") if blocks else ()
    return options | {name: getattr(blocks[-1], name) for name in rates}


def row_of(model: keras.Model) -> Variant | BiTVariant:
    """The row of the table, or one made of its sizes, that a model of this package is of."""
    found = architecture_of_model(model)
    return _bit_row(found) if found.family == "bit" else _row(found, model.name, None)


def _bit_row(architecture: Architecture) -> BiTVariant:
    names = ("units", "width_factor", "axial")
    sizes = {name: getattr(architecture, name) for name in names}
    alike = (row for row in BIT_VARIANTS if all(getattr(row, name) == sizes[name] for name in names))
    return replace(next(alike, BiTVariant("BiT", **sizes)), weight_epsilon=architecture.weight_epsilon)


def _build_vit(found: Architecture, source, num_heads, source_grid, options):
    row = _row(found, source, num_heads)
    patch = options.pop("patch_size", None) or found.patch_size
    if options.get("input_shape") is None:
        options["input_shape"] = _input_shape(found, source, source_grid)
    options.setdefault("pooling", found.pooling)
    options.setdefault("class_token", found.class_token)
    options.setdefault("norm_after_pooling", found.norm_after_pooling)
    options.setdefault("representation_size", found.representation_size)
    options.setdefault("activation", found.activation)
    options.setdefault("layer_norm_epsilon", found.layer_norm_epsilon)
    return build_vit(row, patch_size=patch, **options)


_SIZES = ("name", "width", "depth", "mlp_dim", "num_heads", "patch_size", "stem", "image_size")
_NOTES = ("paper_name", "timm_name", "parameters")
_OPTIONS = [field for field in fields(Variant) if field.name not in (*_SIZES, *_NOTES)]


def _row(found: Architecture, source, num_heads) -> Variant:
    """The table's row of these sizes, else one made of them."""
    stem = None
    if found.units is not None:
        stem = ResNetStem(
            found.units, found.width_factor, found.group_norm_epsilon, found.weight_epsilon, found.weight_epsilon_on
        )
    sizes = (found.width, found.depth, found.mlp_dim)
    shown = {**found.options, **vars(found)}
    more = {option.name: shown.get(option.name, option.default) for option in _OPTIONS}
    alike = [row for row in VARIANTS if (row.width, row.depth, row.mlp_dim) == sizes]
    _require_said("num_heads", num_heads, found.num_heads, source)
    heads = num_heads or found.num_heads or (alike[0].num_heads if alike else None)
    if heads is None:
        raise ValueError(
            f"num_heads expected the number of attention heads, which {source!r} does not say "
            f"(width {found.width}, {found.depth} blocks), received None."
        )
    for row in alike:
        same_stem = (row.stem and row.stem.units) == found.units and found.width_factor == 1
        patch = (row.patch_size, row.patch_size)
        others = more.keys() - {"positions", "positions_at"}
        same_blocks = row.num_heads == heads and all(getattr(row, name) == more[name] for name in others)
        if same_stem and patch == found.patch_size and same_blocks:
            return replace(row, stem=stem, **more)
    name = "ViT" if stem is None else "R_ViT"
    return Variant(name, *sizes, heads, found.patch_size, stem, **more)


def _input_shape(found: Architecture, source, source_grid):
    size = replace(found, grid=source_grid or found.grid).full_size
    if size is None and found.positions == "sincos2d":
        return (None, None, found.channels)  # the file fits every size
    if size is None:
        tokens = found.tokens - found.prefix_tokens
        raise ValueError(
            f"input_shape expected (height, width, channels) or source_grid (down, across): {source!r} holds "
            f"{tokens} positions, which are no square grid."
        )
    return (*size, found.channels)
