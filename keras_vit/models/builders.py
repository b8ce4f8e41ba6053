"""One builder a row: `ViT_B16()` is `build(B16)` with the signature and meanings of `keras.applications`."""

import inspect

import keras

from keras_vit.models import variants
from keras_vit.models.vit import build


def _builder(variant: variants.Variant):
    def builder(*args, **options) -> keras.Model:
        return build(variant, *args, **options)

    head, body = build.__doc__.split("Args:", 1)
    body = body.split("include_top:", 1)[1]
    row = f"{variant.depth} blocks of width {variant.width}, {variant.num_heads} heads, MLP {variant.mlp_dim}"
    builder.__doc__ = (
        f"{variant.paper_name}: {row}, patches of {variant.patch_size} pixels; "
        f"{variant.parameters.classes_1000:,} parameters with 1000 classes.\n\n"
        f"    Args:\n        include_top:{body}"
    )
    builder.__name__ = builder.__qualname__ = variant.name
    signature = inspect.signature(build)
    builder.__signature__ = signature.replace(parameters=list(signature.parameters.values())[1:])
    return builder


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


def create_model(name: str, **options) -> keras.Model:
    """Build a model by any of its names.

    Args:
        name: `ViT_B16`, `ViT-B/16` or `vit_base_patch16_224`; a weights tag may follow a dot.
        **options: those of `build`.

    Raises:
        ValueError: no model has this name.
    """
    variant, tag = variants.find_variant(name)
    if tag is not None:
        options.setdefault("weights", tag)
    return build(variant, **options)
