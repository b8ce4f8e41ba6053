"""Look up what timm's architecture names imply: heads, activation, epsilon and pooling.

`timm_architectures.csv` has a row for each Vision Transformer of timm 1.0.31. Its column `features` lists unsupported
parts of the model that no array shows.
"""

import csv
import functools
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
        features: unsupported parts that no array shows.
    """

    architecture: str
    num_heads: int
    activation: str
    layer_norm_epsilon: float
    pooling: str | None
    features: tuple[str, ...] = ()

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


def _parse(architecture, num_heads, activation, layer_norm_epsilon, pooling, features) -> TimmArchitecture:
    features = tuple(features.split(";")) if features else ()
    return TimmArchitecture(
        architecture, int(num_heads), activation, float(layer_norm_epsilon), pooling or None, features
    )


def find_timm_architecture(config: dict) -> TimmArchitecture | None:
    """Return the row of the architecture that a config names; None if the table has none."""
    name = config.get("architecture")
    return timm_architectures().get(name) if isinstance(name, str) else None
