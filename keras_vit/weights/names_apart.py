"""Variables that are other arrays in some files: query, key and value; a gate and its values; two classifiers; others.

The rows are read only, except those that `apart_cell` returns.
"""

import re

from keras_vit.weights.name_rows import Cell, Row, row_of_cells
from keras_vit.weights.transforms import (
    HALF_BIASES,
    HALVES,
    JOINED,
    MASKED,
    MEAN_BIAS,
    MEAN_KERNEL,
    TORCH_QKV,
    TRANSPOSED,
)

_QKV = "encoder_block_{i:02d}/attention/qkv/"
_FC1 = "encoder_block_{i:02d}/mlp/fc1/"
APART = tuple(
    Row(ours, {layout: Cell(tuple(f"{name}.{word}" for name in names), transform) for layout, names in files.items()})
    for layer, files, kernel, bias in (
        (
            _FC1,
            {
                "timm": ("blocks.{i}.mlp.fc1_g", "blocks.{i}.mlp.fc1_x"),
                "hf": ("vit.encoder.layer.{i}.mlp.gate", "vit.encoder.layer.{i}.mlp.value"),
            },
            HALVES,
            HALF_BIASES,
        ),
        (
            "head/",
            {"timm": ("head_class", "head_dist"), "hf": ("cls_classifier", "distillation_classifier")},
            MEAN_KERNEL,
            MEAN_BIAS,
        ),
    )
    for ours, word, transform in ((f"{layer}kernel", "weight", kernel), (f"{layer}bias", "bias", bias))
) + (
    # EVA-02, the official BEiT-3 and Sapiens2 name the three matrices; they are written for grouped queries alone.
    row_of_cells(f"{_QKV}kernel", {"timm": ("blocks.{i}.attn.?_proj.weight", TORCH_QKV)}),
    row_of_cells(f"{_QKV}bias", {"timm": ("blocks.{i}.attn.?_proj.bias", JOINED)}),
    Row(
        f"{_QKV}bias",
        {"timm": Cell(("blocks.{i}.attn.qkv.masked_bias", "blocks.{i}.attn.qkv.bias_mask"), MASKED)},
    ),
    # CLIP's projections, which have no bias
    Row("head/kernel", {"timm": Cell(("proj",))}),
    Row("head/kernel", {"timm": Cell(("visual.head.proj.weight",), TRANSPOSED)}),
    Row("head/kernel", {"hf": Cell(("visual_projection.weight",), TRANSPOSED)}),
)
# (sign, pattern, instead): beside a name that matches `sign`, `instead` replaces what matches `pattern` in names.
BESIDE = tuple(
    (re.compile(sign), re.compile(pattern), instead)
    for sign, pattern, instead in (
        (r"^head_dist\.", r"^head\.", "head_class."),
        (r"\.mlp\.gate_proj\.", r"\.mlp\.up_proj\.", ".mlp.value_proj."),  # transformers' DINOv3
        (r"\.attn\.rel_pos_h$|^neck\.\d\.", r"^pos_embed$", "embeds.pos_embed"),  # SAM's positions are a grid
        (r"\.qkv\.bias_mask$", r"\.attn\.qkv\.bias$", ".attn.qkv.masked_bias"),  # Meta's DINOv3
    )
)


def apart_cell(row: Row, layout: str, options: dict) -> Cell | None:
    """Return the cell by which a layout's library writes a row's variable in several arrays, or None.

    timm has gates apart where all norms are RMSNorm (AIMv2), or where the MLP of its class `Eva` has an inner norm
    (EVA-02), and packed elsewhere (DINOv2, Sapiens2).

    Args:
        row: a row of the table of names.
        layout: name of the layout.
        options: fields of the model's row, by name.
    """
    if layout == "hf" and row.ours.startswith(_FC1):  # transformers' DINOv3 and AIMv2
        gated = options.get("gated_mlp") and (options.get("norm") == "rms" or options.get("rope"))
        return next((other.cells["hf"] for other in APART if other.ours == row.ours), None) if gated else None
    eva02 = (options.get("rope") or options.get("qkv_bias") == "qv") and options.get("mlp_inner_norm")
    gates = options.get("gated_mlp") and (eva02 or options.get("norm") == "rms" and not options.get("rope"))
    apart = options.get("distillation_token") if row.ours.startswith("head/") else gates
    if row.ours.startswith(_QKV):
        apart = options.get("heads_per_key", 1) > 1
    found = (other.cells.get(layout) for other in APART if apart and other.ours == row.ours)
    return next((cell for cell in found if cell), None)
