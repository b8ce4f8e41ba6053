"""Write the comparison of two models as one self-contained HTML page."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from keras_vit.analysis.page import facts_table, heading, paragraph, sheet, write_html


def write_comparison(
    path: Path, facts: dict[str, str], captions: Sequence[str], pictures: Sequence[np.ndarray],
    tables: Sequence[str] = (),
) -> None:  # fmt: skip
    """Write the page: facts, tables, and the images with different answers.

    Args:
        path: the file to write.
        facts: names and values at the top of the page.
        captions: both answers to each image.
        pictures: the pixels (H, W, C) in 0..255 of each image.
        tables: tables below the facts, in HTML.
    """
    body = [heading("Changed answers"), sheet(pictures, captions) if captions else paragraph("No answer changed.")]
    write_html(path, "Comparison of two models", [facts_table(facts), *tables, *body])
