"""Look up what timm's architecture names imply: heads, activation, epsilon and pooling.

`timm_architectures.csv` has a row for each Vision Transformer of timm 1.0.31.
"""

import csv
import functools
import re
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class TimmArchitecture:
    """A row of the table.

    Args:
        architecture: name in timm.
        num_heads: number of attention heads.
        activation: activation of the MLPs.
        layer_norm_epsilon: epsilon of all layer norms.
        pooling: `token`, `gap` or `map`; None for the token sequence.
    """

    architecture: str
    num_heads: int
    activation: str
    layer_norm_epsilon: float
    pooling: str | None

    @property
    def fields(self) -> dict:
        """Return the values as fields of `keras_vit.weights.architecture.Architecture`."""
        names = ("num_heads", "activation", "layer_norm_epsilon", "pooling")
        return {name: getattr(self, name) for name in names}


@functools.cache
def timm_architectures() -> dict[str, TimmArchitecture]:
    """Return the rows of the table by name."""
    with Path(__file__).with_suffix(".csv").open(newline="", encoding="utf-8") as file:
        return {row["architecture"]: _parse(**row) for row in csv.DictReader(file)}


def _parse(architecture, num_heads, activation, layer_norm_epsilon, pooling) -> TimmArchitecture:
    return TimmArchitecture(architecture, int(num_heads), activation, float(layer_norm_epsilon), pooling or None)


# (architectures, field of the row, value): parts that some architectures have.
_STATED = (
    (r"aimv2_|test_vit4$|\w+_sapiens2", "norm", "rms"),
    (r"\w+_rpn_\d+$|eva02_enormous_", "block", "post_norm"),
    (r"\w+_sapiens2", "block", "attention_scale"),
    (r"aimv2_", "dense_bias", False),
    (r"\w+_radio_|vit_intern300m_|vit_pe_(lang|spatial)_", "final_norm", False),
    (r"test_vit3$|vit_pe_core_", "pool_prefix", True),
)
# Field of the row -> key of `model_args`, and its value for a value of the key.
_ARGUMENTS = {
    "norm": ("norm_layer", {"rmsnorm": "rms", "layernorm": "layer"}),
    "dense_bias": ("proj_bias", {True: True, False: False}),
    "final_norm": ("final_norm", {True: True, False: False}),
    "pool_prefix": ("pool_include_prefix", {True: True, False: False}),
}


def stated_options(config: dict) -> dict[str, object]:
    """Return fields of the row that a timm config states by its architecture or its arguments, by name.

    A file lacks the arrays of these parts, or has the same arrays with and without them.
    """
    name, arguments = config.get("architecture"), config.get("model_args")
    name, arguments = (name if isinstance(name, str) else ""), (arguments if isinstance(arguments, dict) else {})
    stated = {field: value for pattern, field, value in _STATED if re.match(pattern, name)}
    for field, (key, values) in _ARGUMENTS.items():
        if isinstance(arguments.get(key), str | bool) and arguments[key] in values:
            stated[field] = values[arguments[key]]
    for key, block in (("use_post_norm", "post_norm"), ("attn_only_layer_scale", "attention_scale")):
        if arguments.get(key) is True:
            stated["block"] = block
    if arguments.get("use_post_transformer_norm") is False and not arguments.get("use_fc_norm"):
        stated["final_norm"] = False  # timm's class `Eva`
    return stated


def find_timm_architecture(config: dict) -> TimmArchitecture | None:
    """Return the row of the architecture that a config names; None if the table has none."""
    name = config.get("architecture")
    return timm_architectures().get(name) if isinstance(name, str) else None
