"""Draw the result of a learning-rate range test."""

import os
from collections.abc import Sequence
from typing import BinaryIO

from keras_vit.analysis.plots.style import BLUE, GREY, VERMILION, canvas


def plot_rates(
    rates: Sequence[float],
    losses: Sequence[float],
    smoothed: Sequence[float],
    suggestion: float | None,
    output: str | os.PathLike | BinaryIO,
    name: str = "",
):
    """Draw the loss of each update and the smoothed loss by learning rate, on a logarithmic axis.

    Args:
        rates: learning rates, rising.
        losses: loss of each update.
        smoothed: smoothed losses.
        suggestion: the suggested rate, which is marked; None for no mark.
        output: path of the PNG file, or an open file.
        name: name of the recipe, for the headline.

    Returns:
        The `matplotlib.figure.Figure`.
    """
    lowest = min(range(len(smoothed)), key=smoothed.__getitem__)
    with canvas(output, (7.5, 4.2), layout="constrained") as figure:
        axes = figure.add_subplot()
        axes.plot(rates, losses, color=BLUE, alpha=0.3, linewidth=1, label="each update")
        axes.plot(rates, smoothed, color=BLUE, linewidth=2, label="smoothed")
        axes.plot(rates[lowest], smoothed[lowest], "o", color=BLUE, label=f"lowest, at {rates[lowest]:.2g}")
        if suggestion is not None:
            axes.axvline(suggestion, color=VERMILION, linewidth=1.5, label=f"suggested: {suggestion:.2g}")
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter("{x:g}")  # Matplotlib's default is a formula, which `style` turns off
        axes.xaxis.set_minor_formatter("")
        low, high = min(losses), max(smoothed[0], smoothed[lowest])
        axes.set_ylim(low - 0.25 * (high - low) - 1e-9, high + 0.75 * (high - low) + 1e-9)  # not the divergence
        axes.set(
            xlabel="learning rate", ylabel="training loss", title=f"range test of {name}" if name else "range test"
        )
        axes.grid(True)
        axes.set_axisbelow(True)
        axes.legend(loc="upper left", frameon=False, labelcolor=GREY, fontsize=9)
    return figure
