"""The published results of the ViT paper, from `paper.json`."""

import functools
import json
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Published:
    """A row of one of the ViT paper's tables. Values that the table lacks are None.

    Args:
        table: number of the table.
        model: the paper's name of the model, such as `ViT-B/16`; for a hybrid `R50+ViT-B/16`.
        pretraining: data set of the pre-training.
        scores: data set or VTAB task -> top-1 accuracy in percent after fine-tuning. VTAB's average is `mean`.
        deviations: data set -> standard deviation over three runs.
        epochs: epochs of pre-training.
        exaflops: floating-point operations of pre-training in 1e18.
        core_days: pre-training time in TPUv3-core-days.
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
        """Model, pre-training data and epochs in one line."""
        epochs = f", {self.epochs} epochs" if self.epochs else ""
        return f"{self.model} ({self.pretraining}{epochs})"


@functools.cache
def published(table: int) -> tuple[Published, ...]:
    """Return the rows of Table 2, 5, 6 or 9 of arXiv 2010.11929v2.

    Raises:
        ValueError: the table has another number.
    """
    all_rows = json.loads(Path(__file__).with_name("paper.json").read_text(encoding="utf-8"))["rows"]
    rows = tuple(Published(**row) for row in all_rows if row["table"] == table)
    if not rows:
        known = sorted({row["table"] for row in all_rows})
        raise ValueError(f"table expected one of {known}, received {table!r}.")
    return rows
