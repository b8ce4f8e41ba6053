"""The names of LoRA adapters in files of peft, for transformers' and timm's ViTs."""

import re

from keras_vit.weights.layouts import find_place, format_name

PREFIX = "base_model.model."
CLASSIFIER = "classifier"
BLOCKS = re.compile(r"^(?:\w+\.)??(?:encoder\.layer|layers)\.(?=\d)")  # of ViT, DeiT or DINOv2
# The modules of a block: (place, name in transformers 4, name in transformers 5). The first names are the table's.
_MODULES = (
    ("query", "attention.attention.query", "attention.q_proj"),
    ("key", "attention.attention.key", "attention.k_proj"),
    ("value", "attention.attention.value", "attention.v_proj"),
    ("out", "attention.output.dense", "attention.o_proj"),
    ("mlp", "intermediate.dense", "mlp.fc1"),
    ("mlp", "output.dense", "mlp.fc2"),
)


def module_names(dense: str, transformers: int = 5) -> list[str]:
    """Return transformers' names of a dense layer, three of `qkv`; empty without any.

    Args:
        dense: path of the layer, such as `encoder_block_00/attention/qkv`.
        transformers: major version of transformers, 4 or 5.
    """
    place = find_place("vit", "keras", f"{dense}/kernel")
    cell = place and place.row.cells.get("hf")
    names = [format_name(name, dict(place.indices)).removesuffix(".weight") for name in (cell.names if cell else ())]
    if transformers >= 5:
        names = [_respelt(name, {older: newer for _, older, newer in _MODULES}, "vit.layers.") for name in names]
    return names


def find_dense(module: str) -> tuple[str, int | None] | None:
    """Return the path of the dense layer of a module, and the index of the module's matrix in its kernel.

    The index is None for the whole kernel. Unknown modules return None.
    """
    older = _respelt(module, {newer: older for _, older, newer in _MODULES}, "vit.encoder.layer.")
    for layout, name in (("hf", older), ("timm", module)):
        place = find_place("vit", layout, f"{name}.weight")
        if place is not None and place.ours.startswith("encoder_block_"):
            return place.ours.removesuffix("/kernel"), place.part if len(place.cell.names) > 1 else None
    return None


def target_modules(modules: list[str]) -> dict[str, list[str]]:
    """Return the fields of peft's config that select the modules, by the names of either version of transformers."""
    inside = {BLOCKS.sub("", module).partition(".")[2] for module in modules}
    rows = [row for row in _MODULES if inside & {*row[1:]}]
    fields = {"target_modules": sorted({name for row in rows for name in row[1:]})}
    if "output.dense" in fields["target_modules"] and not inside & {*_MODULES[3]}:
        fields["exclude_modules"] = [_MODULES[3][1]]  # ends in the name of an MLP's last layer, too
    return fields


def _respelt(module: str, spellings: dict[str, str], blocks: str) -> str:
    """Return a module of a block with another spelling; other modules unchanged."""
    inside = BLOCKS.sub("", module)
    index, _, name = inside.partition(".")
    return f"{blocks}{index}.{spellings.get(name, name)}" if inside != module else module
