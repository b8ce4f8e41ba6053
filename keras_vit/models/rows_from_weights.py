"""Find the row of a model or of a file of weights, or make one from the sizes of its arrays."""

from dataclasses import fields, replace

import keras

from keras_vit.models.variants import (
    BIT_VARIANTS,
    EFFICIENTNETS,
    VARIANTS,
    AnyVariant,
    BiTVariant,
    ConvStem,
    EfficientNetVariant,
    ResNetStem,
    Rope,
    Variant,
)
from keras_vit.weights.architecture import Architecture, architecture_of_contents, with_config
from keras_vit.weights.config_fields import config_fields
from keras_vit.weights.contents import read_contents
from keras_vit.weights.files import open_weights
from keras_vit.weights.keras_file import KerasFile
from keras_vit.weights.model_architecture import architecture_of_model

_SIZES = ("name", "width", "depth", "mlp_dim", "num_heads", "patch_size", "stem", "image_size")
_NOTES = ("paper_name", "timm_name", "parameters", "activation", "layer_norm_epsilon", "pooling")
_NOTES += ("norm_after_pooling", "class_token")
_OPTIONS = [field for field in fields(Variant) if field.name not in (*_SIZES, *_NOTES)]


def row_of(model: keras.Model) -> AnyVariant:
    """Return the row of a model of this package."""
    return _row(architecture_of_model(model), model.name)


def row_of_file(source) -> tuple[AnyVariant, tuple[int, int] | None, str | None]:
    """Return the row of a file of weights, the (height, width) of its images in pixels, and its pooling.

    Size and pooling are None where the file does not state them.

    Raises:
        ValueError: the file holds no model of this package, or does not state its number of heads.
    """
    import keras_vit.models.vision_model  # noqa: F401  registers the classes of a `.keras` file

    with open_weights(source) as file:
        if isinstance(file, KerasFile):
            architecture = architecture_of_model(file.model)
        else:
            contents = read_contents(file)
            architecture = architecture_of_contents(contents)
            architecture = with_config(architecture, config_fields(file, contents), contents.source)
    return _row(architecture, str(source)), architecture.full_size, architecture.pooling


def _row(architecture: Architecture, source: str) -> AnyVariant:
    of_convnet = {"bit": bit_row, "efficientnet": efficientnet_row}.get(architecture.family)
    return vit_row(architecture, source) if of_convnet is None else of_convnet(architecture)


def bit_row(architecture: Architecture) -> BiTVariant:
    """Return the row of the table with a BiT's sizes, or a new row."""
    sizes = {name: getattr(architecture, name) for name in ("units", "width_factor", "axial")} | architecture.options
    same = (row for row in BIT_VARIANTS if all(getattr(row, name) == sizes[name] for name in sizes))
    return replace(next(same, BiTVariant("BiT", **sizes)), weight_epsilon=architecture.weight_epsilon)


def efficientnet_row(architecture: Architecture) -> EfficientNetVariant:
    """Return the row of the table with an EfficientNet's sizes, or a new row.

    Raises:
        ValueError: no width factor with two decimals and no depth factor give the sizes.
    """
    units, widths = architecture.units, architecture.options["widths"]
    depths = [count / one for count, one in zip(units, EfficientNetVariant("B0").units, strict=True)]
    factors = (step / 100 for step in range(1, 2000))
    made = (EfficientNetVariant("EfficientNet", factor, min(depths)) for factor in factors)
    for row in (*EFFICIENTNETS, *made):
        if (row.units, row.widths) == (units, widths):
            return row
    raise ValueError(
        f"source expected an EfficientNet by compound scaling, received units {units} and widths {widths}."
    )


def vit_row(architecture: Architecture, source, num_heads: int | None = None) -> Variant:
    """Return the row of the table with a ViT's sizes, or a new row.

    Args:
        architecture: the sizes.
        source: file or model, for error messages.
        num_heads: number of attention heads if the architecture does not state it.

    Raises:
        ValueError: the number of heads is unknown, or `num_heads` is not the architecture's.
    """
    stem = None
    if architecture.units is not None:
        names = ("units", "width_factor", "group_norm_epsilon", "weight_epsilon", "weight_epsilon_on")
        stem = ResNetStem(**{name: getattr(architecture, name) for name in names})
    if convolutions := architecture.options.get("conv_stem"):
        stem = ConvStem(**convolutions)
    sizes = (architecture.width, architecture.depth, architecture.mlp_dim)
    values = {**architecture.options, **vars(architecture)}
    options = {option.name: values.get(option.name, option.default) for option in _OPTIONS}
    options["distillation_token"] = bool(options["distillation_token"])  # a number of tokens in files and models
    options["rope"] = _rope(options["rope"])
    candidates = [row for row in VARIANTS if (row.width, row.depth, row.mlp_dim) == sizes]
    require_same("num_heads", num_heads, architecture.num_heads, source)
    heads = num_heads or architecture.num_heads or (candidates[0].num_heads if candidates else None)
    if heads is None:
        raise ValueError(
            f"num_heads expected the number of attention heads, which {source!r} does not say "
            f"(width {architecture.width}, {architecture.depth} blocks), received None."
        )
    for row in candidates:
        same_stem = getattr(row.stem, "units", None) == architecture.units and architecture.width_factor == 1
        same_stem = same_stem and (isinstance(stem, ConvStem) and stem) == (isinstance(row.stem, ConvStem) and row.stem)
        same_patch = (row.patch_size, row.patch_size) == architecture.patch_size
        compared = options.keys() - {"positions", "positions_at", "layer_scale"}
        same_blocks = row.num_heads == heads and all(getattr(row, name) == options[name] for name in compared)
        same_blocks = same_blocks and (row.layer_scale is None) == (options["layer_scale"] is None)
        if same_stem and same_patch and same_blocks:
            return replace(row, stem=stem, **options)
    name = "ViT" if stem is None else "R_ViT"
    return Variant(name, *sizes, heads, architecture.patch_size, stem, **options)


def _rope(values: dict | None) -> Rope | None:
    """Return a row's `Rope` from its fields, in which JSON has made lists of tuples."""
    if values is None:
        return None
    reference = values.get("reference_grid")
    return Rope(**{**values, "reference_grid": reference and tuple(reference)})


def require_same(name: str, requested, stated, source: str) -> None:
    """Raise a ValueError if an option contradicts the file."""
    if None not in (requested, stated) and requested != stated:
        raise ValueError(f"{name} expected {stated}, as in {source!r}, received {requested}.")
