"""Windows, decomposed relative positions and the neck of SAM: what files and configs show, and timm's arguments.

timm's class is `VisionTransformerSAM`, transformers' are `SamVisionModel` and `SamModel`.
"""

import re

from keras_vit.weights.timm_arguments import ratio
from keras_vit.weights.transforms import SAME

_TIMM = {"base": (2, 5, 8, 11), "large": (5, 11, 17, 23), "huge": (7, 15, 23, 31)}  # blocks without windows
_WINDOW = 14
_TABLE = re.compile(r"encoder_block_(\d+)/attention/bias/(down|across)$")


def windows_shown(shapes: dict[str, tuple[int, ...]], grid: tuple[int, int] | None) -> dict[str, object]:
    """Return the fields of a row about windows, decomposed positions and the neck that the shapes show, by name.

    Blocks whose tables have the size of the grid attend to all patches. Without a grid, the longest tables do.

    Args:
        shapes: shapes of the variables by path.
        grid: (height, width) in patches; None if unknown.

    Raises:
        ValueError: the tables belong to several sizes of windows.
    """
    shown: dict[str, object] = {}
    if "neck_norm2/gamma" in shapes:
        shown["neck"] = shapes.get("neck_conv1/kernel", (0,))[-1]
    sides = table_sides(shapes)
    if not sides:
        return shown
    shown["relative_bias"] = "decomposed"
    whole = grid or max(sides.values())
    windows = {pair for pair in sides.values() if pair != whole}
    if len(windows) > 1 or any(height != width for height, width in windows):
        raise ValueError(f"source expected tables of relative positions for one size of square windows beside the grid "
                         f"{whole}, received tables for {sorted(windows)}.")  # fmt: skip
    if windows:
        shown["window"] = windows.pop()[0]
        shown["global_blocks"] = tuple(sorted(i for i, pair in sides.items() if pair == whole))
    return shown


def table_sides(shapes: dict[str, tuple[int, ...]]) -> dict[int, tuple[int, int]]:
    """Return the (height, width) in patches that the tables of each block are stored for, by the block's number."""
    lengths: dict[int, dict[str, int]] = {}
    for path, shape in shapes.items():
        if (match := _TABLE.match(path)) and len(shape) == 2:
            lengths.setdefault(int(match[1]), {})[match[2]] = (shape[0] + 1) // 2
    return {i: (pair["down"], pair["across"]) for i, pair in lengths.items() if len(pair) == 2}


def windows_of_timm(config: dict, depth: int) -> dict[str, object]:
    """Return the fields of a row about windows that a config of timm states or its architecture implies, by name.

    Raises:
        ValueError: the config states rotary positions or values that are no block numbers.
    """
    match = re.match(r"samvit_(base|large|huge)_patch16", str(config.get("architecture")))
    arguments = config.get("model_args")
    arguments = arguments if isinstance(arguments, dict) else {}
    if not match:
        return {}
    if arguments.get("use_rope"):
        raise ValueError(
            "the config expected 'model_args.use_rope' to be false in a model with windows, received true."
        )
    small = match[0] + "_224" == config.get("architecture")
    blocks = arguments.get("global_attn_indexes", _TIMM["base" if small else match[1]])
    return _windows(arguments.get("window_size", _WINDOW), blocks, depth)


def windows_of_transformers(config: dict) -> dict[str, object]:
    """Return the fields of a row about windows that a config of transformers' SAM states, by name; see `hub_config`."""
    return _windows(config["window_size"], config["global_attn_indexes"], config["num_hidden_layers"])


def _windows(window, blocks, depth) -> dict[str, object]:
    whole = isinstance(window, int) and window >= 0 and isinstance(depth, int)
    if not whole or not isinstance(blocks, list | tuple) or not all(isinstance(i, int) for i in blocks):
        raise ValueError(f"the config expected a side of windows and numbers of blocks, received {window!r} and "
                         f"{blocks!r}.")  # fmt: skip
    return {"window": window, "global_blocks": tuple(sorted({i for i in blocks if 0 <= i < depth})) if window else ()}


def sam_conventions(contents) -> dict[str, object]:
    """Return what the origin of a file of SAM's encoder implies, as fields of `Architecture`; empty for other files.

    Meta's files name the dense layers of the MLPs otherwise than timm's. timm's class has torch's default epsilon.
    """
    if not (contents.layout.name == "timm" and contents.options.get("relative_bias") == "decomposed"):
        return {}
    if is_metas(contents):
        return {"activation": "gelu", "layer_norm_epsilon": 1e-6, "pooling": None}
    return {"activation": "gelu", "layer_norm_epsilon": 1e-5}


def is_metas(contents) -> bool:
    """Return whether a file has the names of Meta's own code of SAM."""
    fc1 = contents.entries.get("encoder_block_00/mlp/fc1/kernel")
    return fc1 is not None and ".mlp.lin1." in "".join(fc1.names)


def is_sam(model) -> bool:
    """Return whether an `Architecture` has the parts of timm's class `VisionTransformerSAM`."""
    options = model.options
    return (
        bool(options.get("window")) or options.get("relative_bias") == "decomposed" or options.get("neck") is not None
    )


def sam_model(model, arguments: dict) -> tuple[str, dict]:
    """Return the architecture of timm and the arguments by which it becomes a model with windows or a neck.

    Args:
        model: the `Architecture`.
        arguments: arguments of timm's `VisionTransformer`.

    Raises:
        ValueError: timm has no such model.
    """
    options = model.options
    usual = {"gated_mlp": False, "dense_bias": True, "norm": "layer", "rope": None, "registers": 0, "patch_norm": False}
    usual |= {"mlp_inner_norm": False, "attention_inner_norm": False, "distillation_token": 0, "block": "pre_norm"}
    usual |= {"heads_per_key": 1, "differential_attention": False, "attention_out_bias": True, "final_norm": True}
    others = [name for name, value in usual.items() if options.get(name, value) != value]
    others += ["qkv_bias"] * (options.get("qkv_bias", "qkv") == "qv") + ["neck=None"] * (options.get("neck") is None)
    others += ["a stem"] * (model.units is not None or "conv_stem" in options)
    others += ["activation"] * (model.activation != "gelu")
    if others or model.class_token:
        raise ValueError("layout 'timm' expected windows or decomposed positions in a model with GELU, a neck and no "
                         f"other parts, received {', '.join(others) or 'a class token'}.")  # fmt: skip
    names = ("img_size", "patch_size", "in_chans", "embed_dim", "depth", "num_heads", "global_pool", "init_values")
    return "samvit_base_patch16", {name: arguments[name] for name in names if name in arguments} | {
        "mlp_ratio": ratio(model.mlp_dim, model.width),
        "qkv_bias": options.get("qkv_bias", "qkv") == "qkv",
        "qk_norm": options.get("qk_norm", False),
        "pre_norm": options.get("pre_norm", False),
        "use_abs_pos": model.positions == "learned",
        "use_rel_pos": options.get("relative_bias") == "decomposed",
        "window_size": options.get("window", 0),
        "global_attn_indexes": list(options.get("global_blocks", ())),
        "neck_chans": options["neck"] or None,
    }


def sam_names(arrays: dict, model) -> dict:
    """Return the arrays of a file, as `weights.write` has them, by the names of timm's `VisionTransformerSAM`."""
    renamed = {}
    for name, entry in arrays.items():
        if name == "pos_embed":
            entry = (_on_grid(entry[0], model.grid), SAME, 0, 1)
        if not model.options["neck"]:
            name = name.replace("neck.3.", "neck.")
        renamed[re.sub(r"^head\.", "head.fc.", name)] = entry
    return renamed


def _on_grid(read, grid: tuple[int, int]):
    """Return a function that reads positions (1, h w, D) as (1, h, w, D)."""

    def positions():
        array = read()
        return array.reshape(1, *grid, array.shape[-1])

    return positions
