"""Describe the rows as Markdown tables and in words."""

from keras_vit.models.variants import (
    BIT_VARIANTS,
    EFFICIENTNETS,
    VARIANTS,
    AnyVariant,
    BiTVariant,
    EfficientNetVariant,
    Variant,
)
from keras_vit.weights.timm_architectures import timm_architectures


def variants_table() -> str:
    """Return the rows as the Markdown tables of docs/zoo.md."""
    lines = [
        "| builder | paper | timm | width | blocks | heads | MLP | patch | parameters, 1000 classes |",
        "|---|---|---|---:|---:|---:|---:|---:|---:|",
    ]
    for row in VARIANTS:
        timm = f"`{_timm_architecture(row)}`" if row.timm_name else "–"
        lines.append(
            f"| `{row.name}` | {row.paper_name} | {timm} | {row.width} | {row.depth} | {row.num_heads} | {row.mlp_dim} "
            f"| {_patch(row)} | {row.parameters.classes_1000:,} |"
        )
    lines += [
        "",
        "| builder | paper | timm | units of each stage | width | parameters, 1000 classes |",
        "|---|---|---|---|---:|---:|",
    ]
    for row in BIT_VARIANTS:
        timm = f"`{row.timm_name}`" if row.timm_name else "–"
        cells = (f"`{row.name}`", row.paper_name, timm, ", ".join(map(str, row.units)), str(row.width_factor))
        lines.append(f"| {' | '.join(cells)} | {row.parameters.classes_1000:,} |")
    lines += [
        "",
        "| builder | paper | timm | width | depth | pixels | parameters, 1000 classes |",
        "|---|---|---|---:|---:|---:|---:|",
    ]
    for row in EFFICIENTNETS:
        cells = (f"`{row.name}`", row.paper_name, f"`{row.timm_name}`", row.width_factor, row.depth_factor)
        lines.append(f"| {' | '.join(map(str, cells))} | {row.image_size} | {row.parameters.classes_1000:,} |")
    return "\n".join(lines)


def _timm_architecture(row) -> str:
    """Return timm's name of a row. The names of DINOv2's models do not state the image size."""
    return row.timm_name if row.timm_name in timm_architectures() else f"{row.timm_name}_{row.image_size}"


def _patch(row) -> str:
    """Return the side of a patch in pixels; for a hybrid, pixels of a cell times cells of a patch."""
    return str(row.patch_size) if row.stem is None else f"{row.stem.stride} × {row.patch_size}"


_BLOCKS = {
    "post_norm": "norms after the branches",
    "parallel": "attention and MLP in parallel",
    "attention_scale": "no LayerScale after the MLPs",
}


def _extras(row: Variant) -> str:
    """Return the parts that a row has in addition to a plain Vision Transformer's, in words."""
    extras = ["LayerScale"] if row.layer_scale is not None else []
    extras += [f"{row.registers} register tokens"] if row.registers else []
    extras += ["a norm before the first block"] if row.pre_norm else []
    extras += ["SwiGLU in the MLPs"] if row.gated_mlp else []
    extras += ["a distillation token"] if row.distillation_token else []
    extras += ["RMSNorm"] if row.norm == "rms" else []
    extras += ["rotary positions"] if row.rope else []
    relative = "decomposed relative positions" if row.relative_bias == "decomposed" else "relative position biases"
    extras += [relative] if row.relative_bias else []
    extras += [f"windows of {row.window} patches in all but {len(row.global_blocks)} blocks"] if row.window else []
    extras += [f"a neck of {row.neck} channels"] if row.neck else []
    extras += ["factorized positions"] if row.positions == "factorized" else []
    extras += ["differential attention"] if row.differential_attention else []
    extras += ["norms of query and key"] if row.qk_norm else []
    extras += [f"{row.heads_per_key} query heads for each key in the middle blocks"] if row.heads_per_key > 1 else []
    extras += [_BLOCKS[row.block]] if row.block != "pre_norm" else []
    extras += ["no final norm"] if not row.final_norm else []
    return f", {' and '.join(extras)}" if extras else ""


def describe_variant(variant: AnyVariant) -> str:
    """Return the sizes of a row in words."""
    if isinstance(variant, BiTVariant):
        kind = f"{'axial ' * variant.axial}{'basic ' * variant.basic}units"
        norm = {"group": "group norms", "batch": "batch norms", "evo": "EvoNorms"}[variant.norm]
        extras = "" if variant.standardized else f", with {norm}{' and a deep stem' * variant.deep_stem}"
        return f"stages of {', '.join(map(str, variant.units))} {kind}, {variant.width_factor} times as wide{extras}"
    if isinstance(variant, EfficientNetVariant):
        units = ", ".join(map(str, variant.units))
        size = f"images of {variant.image_size} pixels"
        wide = "as wide" if variant.width_factor == 1 else f"{variant.width_factor} times as wide"
        return f"{sum(variant.units)} units in stages of {units}, {wide} as B0, and {size}"
    kind = "axial blocks" if variant.axial else "blocks"
    row = f"{variant.depth} {kind} of width {variant.width}, {variant.num_heads} heads, MLP {variant.mlp_dim}"
    if variant.stem is None:
        return f"{row}, patches of {variant.patch_size} pixels{_extras(variant)}"
    units = ", ".join(map(str, getattr(variant.stem, "units", ())))
    stem = f"a ResNet with stages of {units} units" if units else "a convolutional stem"
    return f"{row}, patches of {variant.patch_size} cell{'s' * (variant.patch_size != 1)} on {stem}"
