"""Names of the variables that only some options of attention, blocks and patches have, all in timm's layout."""

import re

import numpy as np

from keras_vit.weights.name_rows import row_of_cells
from keras_vit.weights.transforms import FIRST, LINEAR_PATCHES, POSITION_GRID, SAME, TORCH_CONV, TRANSPOSED

_OURS, _TIMM = "encoder_block_{i:02d}/attention/", "blocks.{i}.attn."
_NORM_PARTS = (("gamma", "weight"), ("beta", "bias"))
_BATCH_NORM = (*_NORM_PARTS, ("moving_mean", "running_mean"), ("moving_variance", "running_var"))
_STEM = "patch_embed.backbone."
_SAM = "vit.layers.{i}.attn."
_DENSE_PARTS = (("kernel", "weight", TRANSPOSED), ("bias", "bias", SAME))
OPTIONS = (
    # timm's NaFlexVit, which is written by the names above unless its positions are factorized
    row_of_cells("embedding/kernel", {"timm": ("embeds.proj.weight", LINEAR_PATCHES)}),
    row_of_cells("position_embedding/embedding", {"timm": ("embeds.pos_embed", POSITION_GRID)}),
    *(
        row_of_cells(f"position_embedding/{ours}", {"timm": (f"embeds.pos_embed_{axis}", FIRST)})
        for ours, axis in (("across", "x"), ("down", "y"))
    ),
    *(
        row_of_cells(f"{_OURS}{ours}/{part}", {"timm": (f"{_TIMM}{theirs}.{word}", SAME)})
        for ours, theirs in (("query_norm", "q_norm"), ("key_norm", "k_norm"))
        for part, word in _NORM_PARTS
    ),
    *(
        row_of_cells(f"{_OURS}{name}", {"timm": (f"{_TIMM}{name}", SAME)})
        for name in ("lambda_q1", "lambda_k1", "lambda_q2", "lambda_k2")
    ),
    # The convolutions in front of MobileCLIP's patches, of which timm counts the patch embedding as the last.
    *(row_of_cells(f"stem_conv{n}/kernel", {"timm": (f"{_STEM}{n - 1}.conv.weight", TORCH_CONV)}) for n in (1, 2)),
    *(
        row_of_cells(f"stem_norm{n}/{part}", {"timm": (f"{_STEM}{n - 1}.bn.{word}", SAME)})
        for n in (1, 2)
        for part, word in _BATCH_NORM
    ),
    row_of_cells("embedding/kernel", {"timm": (f"{_STEM}2.conv.weight", TORCH_CONV)}),
    row_of_cells("embedding/bias", {"timm": (f"{_STEM}2.conv.bias", SAME)}),
    row_of_cells(f"{_OURS}head_norm/gamma", {"timm": (f"{_TIMM}sub_norm.weight", SAME)}),
    *(
        row_of_cells(f"shared_bias/fc{n}/{part}", {"timm": (f"shared_rel_pos.mlp.fc{n}.{word}", transform)})
        for n in (1, 2)
        for part, word, transform in _DENSE_PARTS
    ),
    # SAM's encoder in timm and transformers; `_SAM` are layers of transformers' blocks
    *(
        row_of_cells(
            f"{_OURS}bias/{ours}", {"timm": (f"{_TIMM}rel_pos_{axis}", SAME), "hf": (f"{_SAM}rel_pos_{axis}", SAME)}
        )
        for ours, axis in (("down", "h"), ("across", "w"))
    ),
    *(
        row_of_cells(
            f"neck_conv{n}/kernel",
            {"timm": (f"neck.{2 * n - 2}.weight", TORCH_CONV), "hf": (f"vit.neck.conv{n}.weight", TORCH_CONV)},
        )
        for n in (1, 2)
    ),
    *(
        row_of_cells(
            f"neck_norm{n}/{part}",
            {"timm": (f"neck.{2 * n - 1}.{word}", SAME), "hf": (f"vit.neck.layer_norm{n}.{word}", SAME)},
        )
        for n in (1, 2)
        for part, word in _NORM_PARTS
    ),
    *(row_of_cells(f"neck_norm2/{part}", {"timm": (f"neck.{word}", SAME)}) for part, word in _NORM_PARTS),
    *(row_of_cells(f"head/{part}", {"timm": (f"head.fc.{word}", transform)}) for part, word, transform in _DENSE_PARTS),
    *(
        row_of_cells(f"{_OURS}qkv/{part}", {"hf": (f"{_SAM}qkv.{word}", transform)})
        for part, word, transform in _DENSE_PARTS
    ),
    row_of_cells("position_embedding/embedding", {"hf": ("vit.pos_embed", POSITION_GRID)}),
)


def attention_options_shown(shapes: dict[str, tuple[int, ...]]) -> dict[str, object]:
    """Return the fields of a row about attention that the shapes of its variables show, by name."""
    first, shown = "encoder_block_00/attention/", {}
    if f"{first}query_norm/gamma" in shapes:
        shown["qk_norm"] = True
    if f"{first}lambda_q1" in shapes:
        shown["differential_attention"] = True
    if "shared_bias/fc1/kernel" in shapes:
        shown |= {"relative_bias": "shared_mlp", "relative_bias_dim": shapes["shared_bias/fc1/kernel"][-1]}
    kernels = sorted((path, shapes[path]) for path in shapes if path.endswith("/attention/qkv/kernel"))
    groups = [2 * shape[0] // (shape[-1] - shape[0]) if shape[-1] > shape[0] else 1 for _, shape in kernels]
    return shown | grouped_queries(groups)


def grouped_queries(groups: list[int]) -> dict[str, int]:
    """Return the fields of a row about grouped queries, by the number of queries that share a key in each block."""
    if not groups or max(groups) == 1:
        return {}
    return {"heads_per_key": max(groups), "full_attention_blocks": groups.index(max(groups))}


# Names in timm's parallel blocks -> names of the same arrays in its other blocks.
_PARALLEL = (
    (r"\.attn\.(lambda_[qk]\d|sub_norm\.)", r".\1"),
    (r"\.norm1\.", ".in_norm."),
    (r"\.ls1\.", ".ls."),
)
_FUSED = re.compile(r"^(?:.*\.)?blocks\.(\d{1,3})\.(in_proj|out_proj)\.(weight|bias)$")


def fused_parts(shapes: dict[str, tuple[int, ...]]) -> dict[str, tuple[str, tuple[int, ...], bool]]:
    """Return our variables in the fused matrices of timm's parallel blocks.

    The rows of `in_proj` are those of the MLP, then query, key and value. The columns of `out_proj` are those of
    attention, then the MLP; its one bias is the MLP's.

    Args:
        shapes: shapes of the file's arrays by name.

    Returns:
        Path of a variable -> (name of the part of an array, shape of the part, whether it is a matrix).
    """
    found = {}
    for name, shape in shapes.items():
        match = _FUSED.match(name)
        matrix = shapes.get(name.rpartition(".")[0] + ".weight", ())
        if not match or len(matrix) != 2 or len(shape) != 1 + (match[3] == "weight"):
            continue
        block, kind = f"encoder_block_{int(match[1]):02d}", "kernel" if match[3] == "weight" else "bias"
        if match[2] == "in_proj":
            middle = matrix[0] - 3 * matrix[1]
            places = (("mlp/fc1", 0, middle), ("attention/qkv", middle, matrix[0]))
        else:
            places = (("attention/out", 0, matrix[0]), ("mlp/fc2", matrix[0], matrix[1]))
            if kind == "bias":
                found[f"{block}/mlp/fc2/bias"] = (f"{name}[0:{matrix[0]}]", shape, False)
                continue
        columns = match[2] == "out_proj"
        for ours, start, stop in places:
            part = (matrix[0], stop - start) if columns else (stop - start, *shape[1:])
            found[f"{block}/{ours}/{kind}"] = (f"{name}[{':,' * columns}{start}:{stop}]", part, kind == "kernel")
    return found


def parallel_names(arrays: dict, read) -> dict:
    """Return the arrays of a file by the names of timm's parallel blocks.

    Args:
        arrays: the arrays by the names of timm's other blocks, as `weights.write` has them.
        read: a function of an entry of `arrays` that returns its array.
    """
    renamed, fused = {}, {}
    one_bias = not any(name.endswith(".attn.proj.bias") for name in arrays)
    places = {"mlp.fc1": ("in_proj", 0), "attn.qkv": ("in_proj", 1)}
    places |= {"attn.proj": ("out_proj", 0), "mlp.fc2": ("out_proj", 1)} if one_bias else {}
    for name, entry in arrays.items():
        match = re.match(r"^(blocks\.\d+)\.(\w+\.\w+)\.(weight|bias)$", name)
        if match and match[2] in places:
            layer, place = places[match[2]]
            fused.setdefault(f"{match[1]}.{layer}.{match[3]}", {})[place] = entry
            continue
        for pattern, instead in (
            *_PARALLEL,
            (r"\.attn\.proj\.", ".attn_out_proj."),
            (r"\.mlp\.fc2\.", ".mlp_out_proj."),
        ):
            name = re.sub(pattern, instead, name) if name.startswith("blocks.") else name
        renamed[name] = entry

    def joined(parts, axis):
        return np.concatenate([read(*parts[place]) for place in sorted(parts)], axis=axis)

    for name, parts in fused.items():
        axis = 1 if name.endswith("out_proj.weight") else 0
        renamed[name] = (lambda parts=parts, axis=axis: joined(parts, axis), SAME, 0, 1)
    return renamed
