"""Determine the architecture of a file from its shapes and its config.

D width, h heads, P patch, N tokens.
"""

import math
import re
from collections import Counter
from dataclasses import dataclass, field, replace

from keras_vit.weights.contents import Contents
from keras_vit.weights.conversions import BIAS_TABLE, prefix_and_grid, table_grid
from keras_vit.weights.efficientnets import widths_of
from keras_vit.weights.layouts import Layout


@dataclass(frozen=True)
class Architecture:
    """The arguments of a builder. A field is None if the file does not state it.

    Args:
        family: `vit`, `bit` or `efficientnet`.
        width: width D of a token.
        depth: number of encoder blocks.
        mlp_dim: hidden width of the MLPs.
        num_heads: number of attention heads.
        patch_size: (height, width) of a patch in pixels, or in cells of the stem's map.
        units: number of units in each stage of the ResNet; None without a ResNet.
        width_factor: width factor of the ResNet.
        channels: number of channels of the image.
        tokens: length of the stored position embedding, prefix tokens included.
        grid: (height, width) in patches; None if unknown.
        positions: `learned`, `factorized`, `sincos2d`, `sincos2d_mae`, `2d`, `relative` or `none`.
        positions_at: `stem`, `layers` or `shared`.
        axial: whether the blocks, or a BiT's units, attend along rows and columns.
        image_size: (height, width) in pixels; None if no config states it.
        representation_size: width of the tanh layer before the classifier.
        classes: number of classes; None without a classifier.
        class_token: whether the model has a class token.
        prefix_tokens: number of tokens in front of the patches.
        pooling: `token`, `gap` or `map`; None for the token sequence.
        norm_after_pooling: whether the pooled vector is normalised instead of the tokens.
        activation: activation of the MLPs.
        layer_norm_epsilon: epsilon of all layer norms.
        group_norm_epsilon: epsilon of the group norms in a hybrid's stem.
        weight_epsilon: epsilon of weight standardisation.
        weight_epsilon_on: `std` or `variance`, to which `weight_epsilon` is added.
        labels: names of the classes.
        options: other fields of the row that the shapes or the layers show, by name.
    """

    family: str
    channels: int
    width: int | None = None
    depth: int = 0
    mlp_dim: int | None = None
    num_heads: int | None = None
    patch_size: tuple[int, int] | None = None
    units: tuple[int, ...] | None = None
    width_factor: float = 1.0
    tokens: int | None = None
    grid: tuple[int, int] | None = None
    positions: str = "learned"
    positions_at: str = "stem"
    axial: bool = False
    image_size: tuple[int, int] | None = None
    representation_size: int | None = None
    classes: int | None = None
    class_token: bool = False
    prefix_tokens: int = 0
    pooling: str | None = "gap"
    norm_after_pooling: bool = False
    activation: str = "gelu_tanh"
    layer_norm_epsilon: float = 1e-6
    group_norm_epsilon: float = 1e-6
    weight_epsilon: float = 1e-5
    weight_epsilon_on: str = "std"
    labels: tuple[str, ...] | None = None
    options: dict[str, object] = field(default_factory=dict)

    @property
    def stride(self) -> int:
        """Return the stride of the stem in pixels; 1 without a stem."""
        if convolutions := self.options.get("conv_stem"):
            return math.prod(convolutions["sizes"])
        return 1 if self.units is None else 4 * 2 ** max(len(self.units) - 1, 0)

    @property
    def full_size(self) -> tuple[int, int] | None:
        """Return the image size of the config, else the size that the grid covers; None if both are unknown."""
        if self.image_size or self.grid is None:
            return self.image_size
        return tuple(cells * patch * self.stride for cells, patch in zip(self.grid, self.patch_size, strict=True))


CONVENTIONS = ("activation", "layer_norm_epsilon", "group_norm_epsilon", "weight_epsilon", "weight_epsilon_on")


def origin(layout: Layout, family: str, stem: bool = True, pre_norm: bool = False, gated: bool = False) -> dict:
    """Return the conventions of a layout's origin, as fields of `Architecture`.

    Args:
        layout: layout of the file.
        family: `vit`, `bit` or `efficientnet`.
        stem: whether a ViT has a ResNet stem.
        pre_norm: whether a ViT has a norm before its first block; CLIP's norms have torch's default epsilon.
        gated: whether a ViT's MLPs have a gate; all known ones are SwiGLU, whose activation is SiLU.
    """
    if family == "efficientnet":
        return {}
    if family == "bit":
        return {"weight_epsilon": layout.bit_weight_epsilon, "weight_epsilon_on": "variance"}
    conventions = {name: getattr(layout, name) for name in (CONVENTIONS if stem else CONVENTIONS[:2])}
    conventions |= {"activation": "silu"} if gated else {}
    return conventions | ({"layer_norm_epsilon": 1e-5} if pre_norm else {})


def origin_of_contents(contents: Contents) -> dict:
    """Return the conventions of a file's origin, as fields of `Architecture`."""
    options = contents.options
    return origin(contents.layout, contents.family, pre_norm="pre_norm" in options, gated="gated_mlp" in options)


def architecture_of_contents(contents: Contents, grid: tuple[int, int] | None = None) -> Architecture:
    """Return the architecture of a file by its shapes, and by the grid of its positions if a config states it.

    Raises:
        ValueError: a required array is missing, or the shapes are not understood.
    """
    shapes = {path: entry.shape for path, entry in contents.entries.items()}
    first = "embedding/kernel" if contents.family == "vit" else "root/kernel"
    if first not in shapes or len(shapes[first]) != 4:
        raise ValueError(f"source expected a whole model, received {contents.source!r} without {first!r}.")
    root = shapes.get("stem_root/kernel", shapes.get("stem_conv1/kernel", shapes[first]))
    if len(root) != 4:
        raise ValueError(f"source expected a kernel of a convolution, received shape {root} in {contents.source!r}.")
    units = _units(contents)
    classes = shapes.get("head/kernel", (None,))[-1]
    conventions = origin_of_contents(contents)
    if contents.family == "efficientnet":
        widths = widths_of(shapes, len(units), contents.source)
        return Architecture("efficientnet", root[2], units=units, classes=classes, options={"widths": widths})
    if contents.family == "bit":
        width = shapes.get("root3/kernel", root)[3]
        options = resnet_options(shapes)
        return Architecture(
            "bit", root[2], units=units, width_factor=width / 64, classes=classes, options=options, **conventions
        )
    class_token = "class_token" in contents.prefix
    positions = shapes.get("position_embedding/embedding", (1, 0, 0))
    layout = prefix_and_grid(positions, contents.prefix_tokens, grid or contents.grid)
    # timm's models with `no_embed_class`: DeiT III, and those with registers
    in_front = contents.layout.name == "timm" and contents.prefix_tokens and layout and not layout[0]
    without_prefix = {"prefix_positions": False} if in_front else {}
    pooling = pooling_of("pooling/probe" in shapes, class_token, "pooled_norm/gamma" in shapes)
    if contents.is_tower and pooling != "map":
        pooling = None
    if pooling == "map" and contents.prefix_tokens and contents.layout.name == "timm":
        without_prefix |= {"pool_prefix": False}  # unless its config states otherwise
    return Architecture(
        "vit",
        channels=root[2],
        width=shapes[first][3],
        depth=contents.depth,
        mlp_dim=shapes.get("encoder_block_00/mlp/fc2/kernel", (0, 0))[0],
        num_heads=_heads(contents),
        patch_size=shapes[first][:2],
        units=units if "stem_root/kernel" in shapes else None,
        width_factor=root[3] / 64 if "stem_root/kernel" in shapes else 1.0,
        tokens=positions[-2],
        grid=layout[1] if layout else contents.grid or table_grid(shapes.get(BIAS_TABLE), contents.prefix_tokens),
        positions=_positions(contents),
        representation_size=shapes.get("pre_logits/kernel", (0, None))[1],
        classes=classes,
        class_token=class_token,
        prefix_tokens=contents.prefix_tokens,
        pooling=pooling,
        norm_after_pooling="pooled_norm/gamma" in shapes,
        options={**contents.prefix, **contents.options, **without_prefix, **conv_stem_of(shapes)},
        **conventions,
    )


def _positions(contents) -> str:
    """Return the kind of a file's positions."""
    if "position_embedding/embedding" in contents.entries:
        return "learned"
    if contents.grid:
        return "factorized"
    return "sincos2d" if contents.layout.fixed_positions else "none"


def conv_stem_of(shapes) -> dict[str, dict]:
    """Return the fields of a `ConvStem` that the shapes of its kernels show, as `{"conv_stem": fields}`, or nothing."""
    kernels = [shapes[f"stem_conv{n}/kernel"] for n in range(1, 10) if f"stem_conv{n}/kernel" in shapes]
    stem = {"widths": tuple(kernel[3] for kernel in kernels), "sizes": tuple(kernel[0] for kernel in kernels)}
    return {"conv_stem": stem} if kernels else {}


def resnet_options(shapes) -> dict[str, object]:
    """Return the fields of a ResNet's row that the shapes of its variables show.

    Arrays do not show whether kernels are standardised. Those of the published models with the first convolution and
    the group norms of BiT are.
    """
    norm = "batch" if "norm/moving_mean" in shapes else "evo" if "norm/slope" in shapes else "group"
    deep = "root3/kernel" in shapes
    return {
        "norm": norm,
        "deep_stem": deep,
        "basic": "stage1_unit01/conv3/kernel" not in shapes,
        "standardized": norm == "group" and not deep,
    }


def grid_of_config(contents: Contents, fields: dict) -> tuple[int, int] | None:
    """Return the grid of a file's positions by the file or its config; None if neither states one."""
    if contents.grid:
        return contents.grid
    positions, kernel = (contents.entries.get(path) for path in ("position_embedding/embedding", "embedding/kernel"))
    if "image_size" not in fields or None in (positions, kernel) or 0 in kernel.shape:
        return None
    units = _units(contents) if "stem_root/kernel" in contents.entries else None
    stem = conv_stem_of({path: entry.shape for path, entry in contents.entries.items()})
    cell = Architecture("vit", 0, units=units, options=stem).stride  # pixels
    grid = tuple(side // (patch * cell) for side, patch in zip(fields["image_size"], kernel.shape, strict=False))
    return grid if prefix_and_grid(positions.shape, contents.prefix_tokens, grid) else None


def _heads(contents):
    counts = {entry.heads for path, entry in contents.entries.items() if path.endswith("qkv/kernel") and entry.heads}
    table = contents.entries.get("encoder_block_00/attention/bias/down")  # of SAM; as wide as a head
    if not counts and table and len(table.shape) == 2 and table.shape[1]:
        return contents.entries["embedding/kernel"].shape[-1] // table.shape[1]
    if len(counts) > 1:
        raise ValueError(f"source expected one number of heads, received {sorted(counts)} in {contents.source!r}.")
    return counts.pop() if counts else None


def pooling_of(probe: bool, class_token: bool, norm_after_pooling: bool) -> str:
    """Return the pooling that a model's arrays suggest. Most files do not state it."""
    if probe:
        return "map"
    return "token" if class_token and not norm_after_pooling else "gap"


def _units(contents) -> tuple[int, ...]:
    """Return the number of units per stage by the paths of their first convolutions."""
    paths = [path for path in contents.entries if path.endswith(("/conv1/kernel", "/project/kernel"))]
    units = [tuple(map(int, re.findall(r"\d+", path)[:2])) for path in paths]  # numbers of stage and unit
    counts = Counter(stage for stage, _ in units)
    if any(unit > counts[stage] or stage > len(counts) for stage, unit in units):
        raise ValueError(f"source expected stages and units counted without a gap, received {paths} "
                         f"in {contents.source!r}.")  # fmt: skip
    return tuple(counts[stage] for stage in sorted(counts))


def with_config(architecture: Architecture, fields: dict, source: str) -> Architecture:
    """Complete the architecture from the shapes with the fields that a config states.

    Args:
        architecture: the architecture from the shapes.
        fields: stated fields of `Architecture` by name.
        source: name of the file in error messages.

    Raises:
        ValueError: the config contradicts the shapes.
    """
    for name in ("width", "depth", "mlp_dim", "patch_size", "channels"):
        if name in fields and fields[name] != getattr(architecture, name):
            raise ValueError(
                f"the config of {source!r} expected {name}={getattr(architecture, name)!r}, as in the arrays, "
                f"received {fields[name]!r}."
            )
    names = ("num_heads", "image_size", "labels", *CONVENTIONS)
    changes = {name: fields[name] for name in names if fields.get(name) is not None}
    changes["options"] = options = {**architecture.options, **fields.get("options", {})}
    if architecture.positions == "none" and not (options.get("rope") or options.get("relative_bias")):
        raise ValueError(
            f"source expected a position embedding, or a config that names a model with rotary positions, received "
            f"{source!r} with neither."
        )
    if architecture.num_heads is not None:
        changes.pop("num_heads", None)
    if "pool_prefix" in fields:
        options["pool_prefix"] = fields["pool_prefix"]
    labels = changes.get("labels")
    if labels is not None and len(labels) != architecture.classes:
        del changes["labels"]
    pooling = fields.get("pooling", architecture.pooling)
    if pooling in ("token", "gap") and architecture.pooling != "map" and architecture.class_token:
        changes["pooling"] = pooling
    after_encoder = (architecture.classes, architecture.representation_size, architecture.norm_after_pooling)
    if pooling is None and not any(after_encoder):
        changes["pooling"] = None
    return replace(architecture, **changes)
