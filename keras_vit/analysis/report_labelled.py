"""The part of a report about images with labels: accuracy, confusion matrix and mistakes.

N images, H W C image.
"""

import numpy as np

from keras_vit.analysis.arrays import as_model_input
from keras_vit.analysis.plots.confusion import confusion_matrix, plot_confusion
from keras_vit.analysis.plots.predictions import plot_predictions
from keras_vit.analysis.report_inputs import PartResult, ReportInputs
from keras_vit.models.model_interface import named_outputs

MAX_MISTAKES = 50  # listed in `analysis.json` and on the page


def require_labels(inputs: ReportInputs, images, labels) -> tuple[np.ndarray, np.ndarray]:
    """Return labelled images and their class indices as arrays.

    Raises:
        ValueError: the model has no classifier, or the labels are no class indices of the images.
    """
    if inputs.interface.classes is None:
        raise ValueError(f"test_images expected a model with a classifier, received {inputs.model.name!r} without one.")
    images, labels, classes = as_model_input(inputs.model, images), np.asarray(labels), inputs.interface.classes
    if labels.shape != (len(images),) or labels.dtype.kind not in "ui":
        raise ValueError(
            f"test_labels expected {len(images)} ints, one per image, received shape {labels.shape} of {labels.dtype}."
        )
    if labels.min() < 0 or labels.max() >= classes:
        raise ValueError(
            f"test_labels expected class indices below {classes}, received {labels.min()} to {labels.max()}."
        )
    return images, labels


def labelled_part(inputs: ReportInputs, images, labels) -> PartResult:
    """Draw the confusion matrix and the predictions of labelled images, and list the most confident mistakes.

    Args:
        inputs: the report's inputs.
        images: (N, H, W, C) in the model's input range.
        labels: N class indices.
    """
    names = inputs.labels
    scores = named_outputs(inputs.model).predict(images, batch_size=inputs.batch_size, verbose=0)["probabilities"]
    best, confidence = scores.argmax(1), scores.max(1)
    confusion = confusion_matrix(labels, best, len(names))
    plot_confusion(confusion, names, inputs.output / "confusion.png")
    plot_predictions(
        images, labels, best, confidence, inputs.output / "predictions.png", names=inputs.drawable_labels,
        value_range=inputs.value_range,
    )  # fmt: skip
    captions = {
        "confusion.png": "Confusion matrix of the labelled images: true classes down, predicted classes across.",
        "predictions.png": "Predictions of the labelled images: mistakes, the least confident, a sample.",
    }
    wrong = np.flatnonzero(best != labels)
    wrong = wrong[np.argsort(-confidence[wrong], kind="stable")]
    values = {
        "images": len(labels),
        "accuracy": round(float(np.mean(best == labels)), 6),
        "mistakes": [
            {"image": int(i), "true": names[labels[i]], "predicted": names[best[i]],
             "score": round(float(confidence[i]), 6)}
            for i in wrong[:MAX_MISTAKES]
        ],
        "classes": _class_rows(confusion, names),
    }  # fmt: skip
    return PartResult({"labelled": values}, captions)


def _class_rows(confusion, names):
    """Return one row per class that has images or predictions."""
    rows = []
    for i, name in enumerate(names):
        total, predicted, correct = confusion[i].sum(), confusion[:, i].sum(), confusion[i, i]
        if total or predicted:
            row = {
                "class": i,
                "label": name,
                "images": int(total),
                "predicted": int(predicted),
                "correct": int(correct),
            }
            others = np.where(np.arange(len(names)) == i, 0, confusion[i])
            row["most_confused_with"] = names[others.argmax()] if others.any() else None
            rows.append(row)
    return rows
