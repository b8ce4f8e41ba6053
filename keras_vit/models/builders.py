"""One builder a row: `ViT_B16()` is `build(B16)` with the signature and meanings of `keras.applications`."""

import inspect

import keras

from keras_vit.models import variants
from keras_vit.models.bit import build_bit
from keras_vit.models.vit import build as build_vit
from keras_vit.weights.catalogue import find_released
from keras_vit.weights.released import Released


def build(variant: variants.Variant | variants.BiTVariant, *args, **options) -> keras.Model:
    """Build any row of the table, or one of your own; the options are those of its kind's builders."""
    if getattr(variant, "axial", False) and len(args) < POOLING_PLACE:
        options.setdefault("pooling", "gap")
    return _build_of(variant)(variant, *args, **options)


build.__doc__ = build_vit.__doc__
build.__signature__ = inspect.signature(build_vit)
POOLING_PLACE = list(build.__signature__.parameters).index("pooling")  # arguments behind the row, pooling included


def _build_of(variant):
    return build_bit if isinstance(variant, variants.BiTVariant) else build_vit


def _builder(variant: variants.Variant | variants.BiTVariant):
    own = _build_of(variant)

    def builder(*args, **options) -> keras.Model:
        return build(variant, *args, **options)

    body = own.__doc__.split("Args:", 1)[1].split("include_top:", 1)[1]
    builder.__doc__ = (
        f"{variant.paper_name}: {describe_variant(variant)}; "
        f"{variant.parameters.classes_1000:,} parameters with 1000 classes.\n\n"
        f"    Args:\n        include_top:{body}"
    )
    builder.__name__ = builder.__qualname__ = variant.name
    parameters = list(inspect.signature(own).parameters.values())[1:]
    if getattr(variant, "axial", False):
        parameters = [p.replace(default="gap") if p.name == "pooling" else p for p in parameters]
    builder.__signature__ = inspect.Signature(parameters, return_annotation=keras.Model)
    return builder


def describe_variant(variant: variants.Variant | variants.BiTVariant) -> str:
    """The sizes of a row in words."""
    if isinstance(variant, variants.BiTVariant):
        kind = "axial units" if variant.axial else "units"
        return f"stages of {', '.join(map(str, variant.units))} {kind}, {variant.width_factor} times as wide"
    kind = "axial blocks" if variant.axial else "blocks"
    row = f"{variant.depth} {kind} of width {variant.width}, {variant.num_heads} heads, MLP {variant.mlp_dim}"
    if variant.stem is None:
        return f"{row}, patches of {variant.patch_size} pixels"
    units = ", ".join(map(str, variant.stem.units)) or "no"
    return f"{row}, patches of {variant.patch_size} cells on a ResNet of stages with {units} units"


ViT_Ti16 = _builder(variants.Ti16)
ViT_S32 = _builder(variants.S32)
ViT_S16 = _builder(variants.S16)
ViT_S8 = _builder(variants.S8)
ViT_B32 = _builder(variants.B32)
ViT_B16 = _builder(variants.B16)
ViT_B8 = _builder(variants.B8)
ViT_L32 = _builder(variants.L32)
ViT_L16 = _builder(variants.L16)
ViT_H16 = _builder(variants.H16)
ViT_H14 = _builder(variants.H14)
ViT_g14 = _builder(variants.g14)
ViT_G14 = _builder(variants.G14)
AxialViT_B16 = _builder(variants.AXIAL_B16)
AxialViT_B32 = _builder(variants.AXIAL_B32)
R_ViT_Ti16 = _builder(variants.R_Ti16)
R26_ViT_S32 = _builder(variants.R26_S32)
R26_ViT_B32 = _builder(variants.R26_B32)
R50_ViT_B16 = _builder(variants.R50_B16)
R50_ViT_B32 = _builder(variants.R50_B32)
R50_ViT_L16 = _builder(variants.R50_L16)
R50_ViT_L32 = _builder(variants.R50_L32)
BiT_R50x1 = _builder(variants.R50x1)
BiT_R50x2 = _builder(variants.R50x2)
BiT_R50x3 = _builder(variants.R50x3)
BiT_R101x1 = _builder(variants.R101x1)
BiT_R101x3 = _builder(variants.R101x3)
BiT_R152x1 = _builder(variants.R152x1)
BiT_R152x2 = _builder(variants.R152x2)
BiT_R152x4 = _builder(variants.R152x4)
BiT_R200x3 = _builder(variants.R200x3)
AxialResNet_R50x1 = _builder(variants.AXIAL_R50)


def released_tag(variant: variants.Variant | variants.BiTVariant, tag: str) -> str:
    """The tag of `list_weights()` that a row and what stands behind its name's dot mean.

    Raises:
        ValueError: nothing was published for the row.
    """
    if variant.timm_name is None:
        raise ValueError(f"weights expected none for {variant.name}, of which none are published, received {tag!r}.")
    size = f"_{variant.image_size}" if isinstance(variant, variants.Variant) else ""
    return f"{variant.timm_name}{size}.{tag}"


def find_named(name: str) -> tuple[variants.Variant | variants.BiTVariant, Released | None]:
    """The row that a model's name means, and the published file that a weights tag behind its dot means.

    Raises:
        ValueError: no model, or no published file, has this name.
    """
    variant, tag = variants.find_variant(name)
    return variant, None if tag is None else find_released(released_tag(variant, tag))


def create_model(name: str, **options) -> keras.Model:
    """Build a model by any of its names.

    Args:
        name: `ViT_B16`, `ViT-B/16` or `vit_base_patch16_224`; a weights tag may follow a dot.
        **options: those of `build`.

    Raises:
        ValueError: no model, or no published file, has this name.
    """
    variant, released = find_named(name)
    if released is not None:
        options.setdefault("weights", released.tag)
        if released.classes is not None:
            options.setdefault("classes", released.classes)
        if released.has_representation and options.get("include_top", True):
            options.setdefault("representation_size", variant.width)
    return build(variant, **options)
