"""Draw figure 5 of the ViT paper: accuracy against the compute of pre-training, with further models."""

import os
from collections.abc import Mapping

from keras_vit.analysis.plots import style
from keras_vit.analysis.plots.names import shortened
from keras_vit.cost.published import published

FAMILIES = (  # title, whether a model's name belongs to it, colour, marker
    ("Transformer (ViT)", lambda name: name.startswith("ViT"), style.BLUE, "o"),
    ("Hybrid", lambda name: "+ViT" in name, style.GREEN, "D"),
    ("ResNet (BiT)", lambda name: name.startswith("ResNet"), style.VERMILION, "s"),
)
PANELS = {  # title -> data sets of Table 6 to average over
    "ImageNet": ("imagenet",),
    "Mean of ReaL, CIFAR-10, CIFAR-100, Pets, Flowers": ("real", "cifar10", "cifar100", "pets", "flowers"),
}


def plot_compute(
    output: str | os.PathLike, models: Mapping[str, tuple[float, Mapping[str, float]]] | None = None
) -> None:
    """Draw transfer accuracy against exaFLOPs of pre-training, for the models of Table 6 and further models.

    Args:
        output: path of the PNG file.
        models: name -> (exaFLOPs, accuracies in percent by data set). A model is drawn in the panels whose data sets
            it has.

    Raises:
        ImportError: Matplotlib is not installed.
    """
    with style.canvas(output, (10, 4.6), layout="constrained") as figure:
        for axes, (title, datasets) in zip(figure.subplots(1, 2), PANELS.items(), strict=True):
            for family, belongs, colour, marker in FAMILIES:
                rows = [row for row in published(6) if belongs(row.model)]
                points = [(row.exaflops, _mean(row.scores, datasets)) for row in rows]
                axes.plot(*zip(*points, strict=True), marker, color=colour, label=family, alpha=0.9)
                if family == FAMILIES[0][0]:
                    _label_models(axes, rows, points)
            points = [(x, _mean(scores, datasets), name) for name, (x, scores) in (models or {}).items()]
            points = [point for point in points if point[1] is not None]
            if points:
                axes.plot(*zip(*[point[:2] for point in points], strict=True), "*", color=style.INK, label="yours",
                          markersize=11)  # fmt: skip
            for x, y, name in points:
                axes.annotate(shortened(name, 24), (x, y), (7, -3), textcoords="offset points", fontsize=8)
            axes.set(xscale="log", title=title, xlabel="pre-training compute, exaFLOPs")
            axes.xaxis.set_major_formatter("{x:g}")  # Matplotlib's default is a formula, which `style` turns off
            axes.xaxis.set_minor_formatter("")
            axes.grid(True, which="major")
            axes.set_axisbelow(True)
            axes.margins(x=0.12)
        figure.axes[0].set_ylabel("top-1 accuracy after fine-tuning, %")
        figure.axes[1].legend(loc="lower right", frameon=False)
        source = "coloured: arXiv 2010.11929, Table 6, pre-trained on JFT-300M for 7 or 14 epochs"
        figure.supxlabel(source, fontsize=8, x=0.01, horizontalalignment="left", color=style.GREY)


def _label_models(axes, rows, points):
    """Label the Transformers, on the side of the point without other points."""
    for row, point in zip(rows, points, strict=True):
        text = row.model.removeprefix("ViT-") + (f", {row.epochs} epochs" if row.epochs > 7 else "")
        right = text in ("B/16", "B/32", "L/16")
        place = {"xytext": (6, -10), "ha": "left"} if right else {"xytext": (-6, 4), "ha": "right"}
        axes.annotate(text, point, textcoords="offset points", fontsize=7.5, color=style.BLUE, **place)


def _mean(scores, datasets):
    if any(name not in scores for name in datasets):
        return None
    return sum(scores[name] for name in datasets) / len(datasets)
