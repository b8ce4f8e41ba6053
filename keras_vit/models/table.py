"""The rows as a table for people."""

from keras_vit.models.variants import BIT_VARIANTS, VARIANTS


def variants_table() -> str:
    """The rows in Markdown, as the README shows them."""
    lines = [
        "| builder | paper | timm | width | blocks | heads | MLP | patch | parameters, 1000 classes |",
        "|---|---|---|---:|---:|---:|---:|---:|---:|",
    ]
    for row in VARIANTS:
        timm = f"`{row.timm_name}_{row.image_size}`" if row.timm_name else "–"
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
    return "\n".join(lines)


def _patch(row) -> str:
    """Pixels of a patch, a hybrid's on the image as its stem sees it."""
    return str(row.patch_size) if row.stem is None else f"{row.stem.stride} × {row.patch_size}"
