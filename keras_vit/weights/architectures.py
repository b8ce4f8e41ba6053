"""What timm's architecture names say that the arrays do not: heads, activation, epsilon and pooling.

`architectures.csv` has a row for each Vision Transformer of timm 1.0.31, read from its models. `features` are parts of
the model that no array shows and that this package does not have.
"""

import csv
import functools
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Named:
    """A row of the table.

    Args:
        architecture: timm's name.
        num_heads: attention heads.
        activation: of the MLPs.
        layer_norm_epsilon: of all layer norms.
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
    def stated(self) -> dict:
        """Fields of `keras_vit.weights.architecture.Architecture`."""
        names = ("num_heads", "activation", "layer_norm_epsilon", "pooling")
        return {name: getattr(self, name) for name in names}


@functools.cache
def architectures() -> dict[str, Named]:
    """Return the rows by name."""
    with Path(__file__).with_suffix(".csv").open(newline="", encoding="utf-8") as file:
        return {row["architecture"]: _row(**row) for row in csv.DictReader(file)}


def _row(architecture, num_heads, activation, layer_norm_epsilon, pooling, features) -> Named:
    features = tuple(features.split(";")) if features else ()
    return Named(architecture, int(num_heads), activation, float(layer_norm_epsilon), pooling or None, features)


def named(config: dict) -> Named | None:
    """Return the row of the architecture that a config names, None where it names none that is in the table."""
    name = config.get("architecture")
    return architectures().get(name) if isinstance(name, str) else None
