"""Draw the metrics of a training run."""

import json
import os
from pathlib import Path

import numpy as np

from keras_vit.analysis.plots.style import BLUE, GREEN, GREY, OTHERS, VERMILION, canvas

LARGE = ("loss", "accuracy")  # metrics with large panels
TIME = "seconds"  # metric with the training time, shown in the headline
SPLITS = {"train": BLUE, "test": VERMILION, "validation": GREEN}
MANY = 60  # more records are drawn with a running mean


def read_metrics(path: str | os.PathLike) -> dict[str, dict[str, tuple[np.ndarray, np.ndarray]]]:
    """Read a `metrics.jsonl` as name -> split -> (steps, values), sorted by step. Later lines replace earlier ones.

    Args:
        path: file with one object per line, `{"step": 10, "split": "train", "name": "loss", "value": 2.3}`. An
            incomplete last line is skipped, because an interrupted run leaves one. Values that are not finite are
            skipped.

    Raises:
        FileNotFoundError: the file does not exist.
        ValueError: a line has another form, or the file has no lines.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"metrics_path expected a metrics.jsonl, found no file at {str(path)!r}.")
    lines = path.read_text().split("\n")
    curves = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            step, value = int(row["step"]), float(row["value"])
            split, name = str(row["split"]), str(row["name"])
        except (ValueError, KeyError, TypeError):
            if number == len(lines):
                break
            raise ValueError(
                f"metrics_path expected step, split, name and value in every line, received {line[:60]!r} "
                f"in line {number} of {str(path)!r}."
            ) from None
        if np.isfinite(value):
            curves.setdefault(name, {}).setdefault(split, {})[step] = value
    if not curves:
        raise ValueError(f"metrics_path expected lines of metrics, found none in {str(path)!r}.")
    return {
        name: {split: tuple(np.array(column) for column in zip(*sorted(points.items()), strict=True))
               for split, points in splits.items()}
        for name, splits in curves.items()
    }  # fmt: skip


def plot_training(metrics_path: str | os.PathLike, output: str | os.PathLike):
    """Draw all curves of a `metrics.jsonl` with their final values. Loss and accuracy have large panels.

    Args:
        metrics_path: the file, as in `read_metrics`.
        output: path of the PNG file.

    Returns:
        The `matplotlib.figure.Figure`.

    Raises:
        FileNotFoundError: the file does not exist.
        ValueError: the file has no metrics.
    """
    curves = read_metrics(metrics_path)
    large = [name for name in LARGE if name in curves]
    small = [name for name in curves if name not in (*LARGE, TIME)]
    rows = [row for row in (large, *(small[i : i + 3] for i in range(0, len(small), 3))) if row]
    heights = [3.4 if row is large else 1.9 for row in rows]
    with canvas(output, (10.5, sum(heights) + 0.4), layout="constrained") as figure:
        figure.get_layout_engine().set(h_pad=0.1, w_pad=0.1)
        figure.suptitle(_headline(curves), x=0.01, ha="left", fontsize=13, fontweight="bold")
        # A figure of its own for each row: the columns of one grid would add up the labels of all rows.
        parts = figure.subfigures(len(rows), 1, height_ratios=heights, squeeze=False)[:, 0]
        smoothed = False
        for part, row, height in zip(parts, rows, heights, strict=True):
            for axes, name in zip(part.subplots(1, len(row), squeeze=False)[0], row, strict=True):
                smoothed |= _draw_metric(axes, name, curves[name], height)
        if smoothed:
            note = "thin: every record; thick: mean over a twentieth of the run"
            figure.text(0.99, 0.98, note, ha="right", va="top", fontsize=9, color=GREY)
    return figure


def _headline(curves):
    end = max(steps[-1] for splits in curves.values() for steps, _ in splits.values())
    last = f"{end:,} steps"
    for _, seconds in curves.get(TIME, {}).values():
        last += f", {seconds[-1] / 60:.0f} minutes" if seconds[-1] >= 100 else f", {seconds[-1]:.0f} seconds"
    name = "mean_average_precision" if "mean_average_precision" in curves else "accuracy"
    accuracies = curves.get(name, {})
    held_out = [split for split in accuracies if split != "train"]
    if not held_out:
        return f"Training, {last}"
    steps, values = accuracies[held_out[-1]]
    final = f"{held_out[-1].capitalize()} {name.replace('_', ' ')} {values[-1]:.1%}".replace("%", " %")
    return f"{final} after {last}" if steps[-1] == end else f"{final} at step {steps[-1]:,}, so far {last}"


def _draw_metric(axes, name, splits, height):
    """Draw one metric. Return whether a curve is smoothed."""
    percent = (
        any(word in name for word in ("accuracy", "precision", "f1"))
        and max(values.max() for _, values in splits.values()) <= 1
    )
    title = name.replace("_", " ")
    axes.set_title(f"{title}, %" if percent else title)
    axes.set_xlabel("training step")
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.locator_params("x", integer=True, nbins=6)
    axes.grid(axis="y")
    ends, smoothed = [], False
    spare = iter(OTHERS * len(splits))
    for split, (steps, values) in splits.items():
        colour = SPLITS.get(split) or next(spare)
        values = values * 100 if percent else values
        line = {"color": colour, "lw": 2, "marker": "o" if len(steps) <= MANY / 2 else "", "ms": 3.5}
        if len(steps) > MANY and _is_noisy(values):
            axes.plot(steps, values, color=colour, lw=0.7, alpha=0.35)
            values, smoothed = _smooth(values), True
        axes.plot(steps, values, **line)
        ends.append((steps[-1], values[-1], colour, split))
    all_values = np.concatenate([values for _, values in splits.values()])
    if name == "loss" and all_values.min() > 0 and all_values.max() > 30 * all_values.min():
        axes.set_yscale("log")
        axes.set_title(f"{title}, log scale")
        axes.yaxis.set_major_formatter("{x:g}")
    _label_ends(axes, ends, percent, gap=0.22 / (height - 0.9))
    return smoothed


def _is_noisy(values):
    """Return whether a curve oscillates: the loss of mini-batches is noisy, a learning rate schedule is not."""
    return np.abs(np.diff(values)).sum() > 3 * (values.max() - values.min())


def _smooth(values):
    """Return the centred running mean over a twentieth of the records. Windows are cut at the ends."""
    window = np.ones(len(values) // 20 | 1)
    return np.convolve(values, window, "same") / np.convolve(np.ones(len(values)), window, "same")


def _label_ends(axes, ends, percent, gap):
    """Write each curve's name and final value at its end, at least `gap` panel heights apart."""
    axes.autoscale_view()
    to_panel = axes.transScale + axes.transLimits
    heights = []
    for step, value, colour, split in sorted(ends, key=lambda end: end[1]):
        height = to_panel.transform((step, value))[1]
        heights.append(max(height, heights[-1] + gap) if heights else height)
        text = _format_value(value, percent)
        axes.annotate(
            f"{split} {text}" if len(ends) > 1 else text, (1, heights[-1]), (6, 0), xycoords="axes fraction",
            textcoords="offset points", color=colour, fontweight="bold", va="center", annotation_clip=False,
        )  # fmt: skip


def _format_value(value, percent):
    return f"{value:.1f} %" if percent else f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
