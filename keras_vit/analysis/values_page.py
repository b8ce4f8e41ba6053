"""Write the report of a regression on images with known values as one self-contained HTML page."""

import io
from collections.abc import Callable, Sequence
from pathlib import Path

from keras_vit.analysis.page import cell, facts_table, figure, heading, number, sheet, spread_of, table, write_html
from keras_vit.analysis.plots.values import plot_values

SHOWN = 24  # pictures of a sheet


def write_values(path: Path, results: dict, values, predicted, pictures: Callable[[Sequence[str]], list]) -> None:
    """Write the report.

    Args:
        path: the file to write.
        results: the content of `results.json`.
        values: (N, T) true values.
        predicted: (N, T) predicted values.
        pictures: a function of names of images that returns their pixels (H, W, C) in 0..255.

    Raises:
        ImportError: Matplotlib is not installed.
    """
    targets, interval = [row["target"] for row in results["targets"]], results["interval"]
    facts = {
        "images": f"{results['images']:,} of {results['data']}",
        "in brackets": f"{interval['level']:.0%} interval of {interval['resamples']:,} bootstrap resamples",
    }
    if results["unreadable"]:
        facts["left out"] = f"{len(results['unreadable']):,} images that cannot be read"
    cells = [[cell(row["target"]), *(number(spread_of(row[name])) for name in ("mae", "rmse", "r2"))]
             for row in results["targets"]]  # fmt: skip
    png = io.BytesIO()
    plot_values(values, predicted, targets, png)
    worst = results["largest_errors"][:SHOWN]
    captions = [
        f"{Path(row['image']).name}: " + ", ".join(
            f"{name} {found:.4g}, true {true:.4g}"
            for name, found, true in zip(targets, row["predicted"], row["true"], strict=True)
        )
        for row in worst
    ]  # fmt: skip
    body = [
        facts_table(facts),
        table(("target", "mean absolute error", "root mean squared error", "R2"), cells),
        figure(png.getvalue(), "Predicted over true values. Right predictions lie on the dashed line."),
        heading("The largest errors"),
        sheet(pictures([row["image"] for row in worst]), captions),
    ]
    write_html(path, f"Evaluation of {results['model']}", body)
