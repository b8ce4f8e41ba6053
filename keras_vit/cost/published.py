"""The paper's own numbers, from `paper.json`, which says where each is from."""

import functools
import json
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Published:
    """A row of one of the paper's tables.

    Args:
        table: its number.
        model: as the paper calls it, `ViT-B/16`; a hybrid as the table of models does, `R50+ViT-B/16`.
        pretraining: data set that it was trained on first.
        scores: data set, or VTAB task and `mean`, -> top-1 accuracy in percent after fine-tuning.
        deviations: data set -> standard deviation over three runs, where the table has it.
        epochs: of the pre-training, where the table has them.
        exaflops: of the pre-training, where the table has them.
        core_days: days on one core of a TPUv3, where the table has them.
    """

    table: int
    model: str
    pretraining: str
    scores: dict[str, float]
    deviations: dict[str, float] = field(default_factory=dict)
    epochs: int | None = None
    exaflops: float | None = None
    core_days: float | None = None

    @property
    def label(self) -> str:
        """One line for people."""
        epochs = f", {self.epochs} epochs" if self.epochs else ""
        return f"{self.model} ({self.pretraining}{epochs})"


@functools.cache
def published(table: int) -> tuple[Published, ...]:
    """The rows of Table 2, 5, 6 or 9 of arXiv 2010.11929v2.

    Raises:
        ValueError: there is none of this number here.
    """
    found = json.loads(Path(__file__).with_name("paper.json").read_text(encoding="utf-8"))["rows"]
    rows = tuple(Published(**row) for row in found if row["table"] == table)
    if not rows:
        known = sorted({row["table"] for row in found})
        raise ValueError(f"table expected one of {known}, received {table!r}.")
    return rows
