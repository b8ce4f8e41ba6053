"""Write the report of an evaluation on labelled images as one self-contained HTML page."""

import io
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from keras_vit.analysis.page import (
    cell,
    facts_table,
    figure,
    folded,
    heading,
    number,
    paragraph,
    sheet,
    spread_of,
    table,
    write_html,
)
from keras_vit.analysis.plots.calibration import plot_coverage, plot_reliability
from keras_vit.analysis.plots.confusion import plot_confusion
from keras_vit.analysis.plots.names import drawable

SHOWN = 24  # pictures of a sheet
RATES = ("precision", "recall", "f1")


def write_evaluation(path: Path, results: dict, curve, pictures: Callable[[Sequence[str]], list]) -> None:
    """Write the report.

    Args:
        path: the file to write.
        results: the content of `results.json`.
        curve: the curve of `keras_vit.evaluate.mistakes.coverage_curve`.
        pictures: a function of names of images that returns their pixels (H, W, C) in 0..255.

    Raises:
        ImportError: Matplotlib is not installed.
    """
    body = [facts_table(_facts(results)), *_classes(results), *_calibration(results), *_rejection(results, curve)]
    write_html(path, f"Evaluation of {results['model']}", [*body, *_images(results, pictures)])


def drawn(plot: Callable, *arguments, **options) -> bytes:
    """Return the PNG file that a function of this package's plots draws."""
    buffer = io.BytesIO()
    plot(*arguments, output=buffer, **options)
    return buffer.getvalue()


def share(figure: dict) -> str:
    """Return a figure in percent with its interval."""
    if figure["value"] is None:
        return ""
    return f"{figure['value']:.1%} ({figure['low']:.1%} to {figure['high']:.1%})"


def _facts(results):
    top, interval = results["top_k"], results["interval"]
    facts = {
        "images": f"{results['images']:,} of {results['data']}",
        "accuracy": share(results["accuracy"]),
        f"top-{top['k']} accuracy": share(top),
        "macro F1": share(results["macro"]["f1"]),
        "weighted F1": share(results["weighted"]["f1"]),
        "expected calibration error": f"{results['calibration']['ece']:.2%}",
        "in brackets": f"{interval['level']:.0%} interval of {interval['resamples']:,} bootstrap resamples",
    }
    if "ranks" in results:
        facts["mean rank error"] = spread_of(results["ranks"]["rank_error"])
        facts["quadratic weighted kappa"] = spread_of(results["ranks"]["kappa"])
    if results["unreadable"]:
        facts["left out"] = f"{len(results['unreadable']):,} images that cannot be read"
    if results["classes_without_images"]:
        facts["classes without images"] = f"{len(results['classes_without_images']):,} of {len(results['classes']):,}"
    return facts


def _classes(results):
    """Return the confusion matrix, the classes and the pairs of classes."""
    labels = [row["label"] for row in results["classes"]]
    confusion = np.zeros((len(labels),) * 2, int)
    for true, predicted, count in results["confusion"]:
        confusion[true, predicted] = count
    picture = drawn(plot_confusion, confusion, labels)
    rows = sorted((row for row in results["classes"] if row["images"]), key=lambda row: row["f1"]["value"])
    shown = [
        name if name == alias else f"{name} ({alias})" for name, alias in zip(labels, drawable(labels), strict=True)
    ]
    cells = [[cell(shown[row["class"]]), number(f"{row['images']:,}"), *(_rate(row[rate]) for rate in RATES)]
             for row in rows]  # fmt: skip
    averages = [[cell(f"{name} mean"), number(""), *(_rate(results[name][rate]) for rate in RATES)]
                for name in ("macro", "weighted")]  # fmt: skip
    pairs = [[cell(row["first"]), cell(row["second"]), number(row["first_as_second"]), number(row["second_as_first"])]
             for row in results["hardest_pairs"][:SHOWN]]  # fmt: skip
    classes = table(("class", "images", "precision", "recall", "F1"), [*averages, *cells])
    body = [
        heading("Classes"),
        figure(picture, "Confusion matrix: true classes down, predicted classes across.", wide=True),
    ]
    body.append(classes if len(rows) <= SHOWN else folded(f"The {len(rows):,} classes, lowest F1 first", classes))
    if pairs:
        header = ("class", "other class", "taken for the other", "the other taken for it")
        body += [heading("Pairs of classes that are confused most often"), table(header, pairs)]
    return body


def _rate(figure):
    """Return a cell with a figure in percent, and its interval below it."""
    if figure["value"] is None:
        return number("")
    interval = f"{100 * figure['low']:.1f} to {100 * figure['high']:.1f}"
    return f'<td class="number">{figure["value"]:.1%}<br><small>{interval}</small></td>'


def _calibration(results):
    before, fitted = results["calibration"], results["temperature"]
    after = fitted and fitted["calibration"]
    png = drawn(plot_reliability, before["bins"], calibrated=after and after["bins"])
    caption = "Accuracy by confidence. Below the diagonal the model is too sure, above it too cautious."
    rows = [[cell("as it is"), number(f"{before['ece']:.2%}"), number(f"{before['confidence']:.1%}"),
             number(f"{before['log_loss']:.4f}")]]  # fmt: skip
    if after:
        rows.append([cell(f"with the temperature {fitted['value']:.3f}"), number(f"{after['ece']:.2%}"),
                     number(f"{after['confidence']:.1%}"), number(f"{after['log_loss']:.4f}")])  # fmt: skip
    header = ("probabilities", "expected calibration error", "mean confidence", "log loss")
    body = [heading("Calibration"), figure(png, caption), table(header, rows)]
    if after:
        body.append(paragraph(f"The temperature was fitted on {fitted['validation_images']:,} validation images. It "
                              "changes no predicted class."))  # fmt: skip
    return body


def _rejection(results, curve):
    caption = "Accuracy where the model rejects the images with the lowest confidence."
    rows = [_cells(row, ("threshold", "coverage", "accuracy")) for row in results["rejection"]["by_coverage"]]
    reached = [_cells(row, ("requested", "coverage", "threshold")) for row in results["rejection"]["by_accuracy"]]
    return [
        heading("Rejecting uncertain images"),
        figure(drawn(plot_coverage, curve), caption),
        table(("confidence at least", "images answered", "accuracy"), rows),
        table(("accuracy at least", "images answered", "confidence at least"), reached),
    ]


def _cells(row, names):
    """Return the cells of a row of `rejection`."""
    return [number("none" if row[name] is None else f"{row[name]:.4f}" if name == "threshold" else f"{row[name]:.1%}")
            for name in names]  # fmt: skip


def _images(results, pictures):
    """Return the sheets of mistakes, of labels that are likely wrong, and of near-duplicates."""
    body = []
    mistakes = results["surest_mistakes"][:SHOWN]
    if mistakes:
        captions = [f"{Path(row['image']).name}: predicted {row['predicted']} with {row['score']:.0%}, labelled "
                    f"{row['label']}" for row in mistakes]  # fmt: skip
        body += [heading("The surest mistakes"), sheet(pictures([row["image"] for row in mistakes]), captions)]
    suspects = results["likely_wrong_labels"][:SHOWN]
    if suspects:
        captions = [f"{Path(row['image']).name}: labelled {row['label']} ({row['score_of_label']:.1%}), likely "
                    f"{row['likely']} ({row['score_of_likely']:.0%})" for row in suspects]  # fmt: skip
        count = results["likely_wrong_labels_in_all"]
        text = f"Labels to check, by confident learning: {count:,}. The model may be wrong instead."
        body += [heading("Labels that are likely wrong"), paragraph(text)]
        body.append(sheet(pictures([row["image"] for row in suspects]), captions))
    if results["near_duplicates"] is not None:
        body += [heading("Near-duplicates of training images"), *_near_duplicates(results["near_duplicates"], pictures)]
    return body


def _near_duplicates(found, pictures):
    if not found:
        return [paragraph("No evaluated image looks like a training image.")]
    rows = [[cell(row["image"]), cell(row["train_image"]), number(f"{row['correlation']:.4f}")] for row in found]
    captions = [f"{Path(row['image']).name} looks like {Path(row['train_image']).name}" for row in found[:SHOWN]]
    return [
        paragraph(f"Evaluated images that look like a training image: {len(found):,}. Their accuracy says little."),
        sheet(pictures([row["image"] for row in found[:SHOWN]]), captions),
        folded("All near-duplicates", table(("image", "training image", "correlation"), rows)),
    ]
