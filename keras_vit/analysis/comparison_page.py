"""Write the comparison of two models as one self-contained HTML page."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from keras_vit.analysis.page import facts_table, heading, paragraph, sheet, write_html


def write_comparison(
    path: Path, facts: dict[str, str], changed: Sequence[dict], pictures: Sequence[np.ndarray]
) -> None:
    """Write the page: facts, and the images with different answers.

    Args:
        path: the file to write.
        facts: names and values at the top of the page.
        changed: rows with `image`, `first`, `second`, `score_of_first`, `score_of_second` and `label`, which is None
            without labels.
        pictures: the pixels (H, W, C) in 0..255 of each row.
    """
    captions = [
        f"{Path(row['image']).name}: {row['first']} ({row['score_of_first']:.0%}) became {row['second']} "
        f"({row['score_of_second']:.0%})" + (f", labelled {row['label']}" if row["label"] is not None else "")
        for row in changed
    ]
    body = [heading("Changed answers"), sheet(pictures, captions) if captions else paragraph("No answer changed.")]
    write_html(path, "Comparison of two models", [facts_table(facts), *body])
