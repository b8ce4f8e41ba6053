"""Draw the scores of a sweep by the values of each field."""

import os
from typing import BinaryIO

from keras_vit.analysis.plots.style import BLUE, GREY, VERMILION, canvas

ACROSS = 3  # panels in a row
FEW = 6  # values that each get a tick


def plot_sweep(result: dict, output: str | os.PathLike | BinaryIO):
    """Draw one panel for each field: the score of every run, and the mean and the deviation of every setting.

    Args:
        result: the content of a `sweep.json`, with at least one field.
        output: path of the PNG file, or an open file.

    Returns:
        The `matplotlib.figure.Figure`.
    """
    fields = result["fields"]
    across = min(len(fields), ACROSS)
    down = -(-len(fields) // across)
    with canvas(output, (4.2 * across + 0.4, 3.4 * down + 0.3), layout="constrained") as figure:
        figure.suptitle(f"{result['recipe']}: {result['metric']}", x=0.01, ha="left", fontsize=12, fontweight="bold")
        for i, field in enumerate(fields):
            axes = figure.add_subplot(down, across, i + 1)
            _draw(axes, field, result)
            if i % across == 0:
                axes.set_ylabel(result["metric"] + ", %" * result["is_share"])
        note = "vermilion: the best setting"
        if any(trial["deviation"] for trial in result["trials"]):
            note += "; bars: standard deviation over its runs"
        figure.supxlabel(note, fontsize=8, x=0.01, horizontalalignment="left", color=GREY)
    return figure


def _draw(axes, field, result):
    """Draw the panel of a field."""
    trials, factor = (
        [trial for trial in result["trials"] if trial["mean"] is not None],
        100 if result["is_share"] else 1,
    )
    values = [trial["settings"][field] for trial in trials]
    places, is_log, names = _places(values)
    for trial, place in zip(trials, places, strict=True):
        colour = VERMILION if trial["number"] == result["best"] else BLUE
        runs = [factor * run["score"] for run in trial["runs"]]
        if len(runs) > 1:
            axes.plot([place] * len(runs), runs, ".", color=colour, alpha=0.35, markersize=4)
        deviation = None if trial["deviation"] is None else factor * trial["deviation"]
        axes.errorbar(place, factor * trial["mean"], yerr=deviation, fmt="o", color=colour, capsize=3, zorder=3)
    if names is not None:
        axes.set_xticks(range(len(names)), names)
        axes.margins(x=0.2)
    elif is_log:
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter("{x:g}")  # Matplotlib's default is a formula, which `style` turns off
        axes.xaxis.set_minor_formatter("")
    if names is None and 0 < len(set(places)) <= FEW:
        axes.set_xticks(sorted(set(places)), [f"{place:g}" for place in sorted(set(places))])
        axes.set_xticks([], minor=True)
        axes.margins(x=0.1)
    low, high = axes.get_ylim()
    if result["is_share"] and high > 100:
        axes.set_ylim(low, 100 + 0.03 * max(100 - low, 1))
    axes.set_title(field, fontsize=10)
    axes.grid(True)
    axes.set_axisbelow(True)


def _places(values: list[str]) -> tuple[list[float], bool, list[str] | None]:
    """Return the places of values on the axis, whether it is logarithmic, and the names if they are no numbers."""
    try:
        numbers = [float(value) for value in values]
    except ValueError:
        names = list(dict.fromkeys(values))
        return [names.index(value) for value in values], False, names
    is_log = bool(numbers) and min(numbers) > 0 and max(numbers) >= 10 * min(numbers)
    return numbers, is_log, None
