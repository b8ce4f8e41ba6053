"""Write the report of a model of several labels per image as one self-contained HTML page."""

import io
from collections.abc import Callable, Sequence
from pathlib import Path

from keras_vit.analysis.evaluation_page import share
from keras_vit.analysis.page import cell, facts_table, figure, folded, heading, number, sheet, table, write_html
from keras_vit.analysis.plots.labels import plot_labels

SHOWN = 24  # pictures of a sheet, and labels in a table that is not folded
RATES = ("average_precision", "precision", "recall", "f1")


def write_labels(path: Path, results: dict, pictures: Callable[[Sequence[str]], list]) -> None:
    """Write the report.

    Args:
        path: the file to write.
        results: the content of `results.json`.
        pictures: a function of names of images that returns their pixels (H, W, C) in 0..255.

    Raises:
        ImportError: Matplotlib is not installed.
    """
    interval, rows = results["interval"], results["labels"]
    facts = {
        "images": f"{results['images']:,} of {results['data']}",
        "mean average precision": share(results["mean_average_precision"]),
        "F1": share(results["f1"]),
        "micro F1": share(results["micro_f1"]),
        "images with all labels right": share(results["exact"]),
        "in brackets": f"{interval['level']:.0%} interval of {interval['resamples']:,} bootstrap resamples",
    }
    if results["unreadable"]:
        facts["left out"] = f"{len(results['unreadable']):,} images that cannot be read"
    if without := [row["label"] for row in rows if not row["images"]]:
        facts["labels without images"] = f"{len(without):,} of {len(rows):,}, left out of the means"
    png, column = io.BytesIO(), lambda name, end: [row[name][end] or 0.0 for row in rows]
    plot_labels(
        [row["label"] for row in rows], [row["images"] for row in rows], column("average_precision", "value"),
        column("f1", "value"), png, [column("average_precision", end) for end in ("low", "high")],
    )  # fmt: skip
    cells = [[cell(row["label"]), number(f"{row['images']:,}"), number(f"{row['threshold']:.3f}"),
              *(number(share(row[rate])) for rate in RATES)] for row in rows]  # fmt: skip
    header = ("label", "images", "threshold", "average precision", "precision", "recall", "F1")
    labels = table(header, cells)
    body = [
        facts_table(facts),
        heading("Labels"),
        figure(png.getvalue(), "Average precision of each label with its interval, and F1 at the label's threshold."),
        labels if len(rows) <= SHOWN else folded(f"The {len(rows):,} labels", labels),
    ]
    mistakes = results["surest_mistakes"][:SHOWN]
    if mistakes:
        captions = [
            f"{Path(row['image']).name}: {row['label']} with {row['score']:.0%}, threshold {row['threshold']:.0%}; the "
            f"image {'has' if row['has_label'] else 'does not have'} it"
            for row in mistakes
        ]
        body += [heading("The surest mistakes"), sheet(pictures([row["image"] for row in mistakes]), captions)]
    write_html(path, f"Evaluation of {results['model']}", body)
