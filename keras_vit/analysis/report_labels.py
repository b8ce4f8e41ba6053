"""The part of a report about images with several known labels: figures of each label, and mistakes.

N images, K labels.
"""

import numpy as np

from keras_vit.analysis.arrays import as_model_input
from keras_vit.analysis.plots.labels import plot_labels
from keras_vit.analysis.plots.predictions import plot_predictions
from keras_vit.analysis.report_inputs import PartResult, ReportInputs
from keras_vit.models.model_interface import named_outputs

LEGEND = "Under each image the predicted labels and the lowest certainty; under a mistake also the true labels."
MAX_MISTAKES = 50  # listed in `analysis.json` and on the page


def require_several(inputs: ReportInputs, images, hot) -> tuple[np.ndarray, np.ndarray]:
    """Return images and 0 or 1 for each label as arrays, or raise a ValueError if they do not match the model."""
    images, hot = as_model_input(inputs.model, images), np.asarray(hot)
    if hot.shape != (len(images), inputs.interface.classes) or not np.isin(hot, (0, 1)).all():
        raise ValueError(f"test_labels expected 0 or 1 for each label ({len(images)}, {inputs.interface.classes}), "
                         f"received shape {hot.shape}.")  # fmt: skip
    return images, hot


def several_part(inputs: ReportInputs, images, hot) -> PartResult:
    """Draw the figures of each label and the images with a wrong label, and list the surest mistakes.

    Args:
        inputs: the report's inputs.
        images: (N, H, W, C) in the model's input range.
        hot: 0 or 1 for each label, (N, K).
    """
    scores = named_outputs(inputs.model).predict(images, batch_size=inputs.batch_size, verbose=0)["probabilities"]
    limits = np.asarray(inputs.interface.thresholds, scores.dtype)
    called, names = scores >= limits, inputs.drawable_labels
    rows = [{"label": name, **_figures(hot[:, i], scores[:, i], called[:, i])} for i, name in enumerate(inputs.labels)]
    precisions, f1 = ([row[name] or 0.0 for row in rows] for name in ("average_precision", "f1"))
    plot_labels(names, [row["images"] for row in rows], precisions, f1, inputs.output / "labels.png")
    least = np.where(called, scores, 1 - scores).min(axis=1)  # of the least certain label of an image
    true, predicted = _texts(hot, names), _texts(called, names)
    plot_predictions(
        images, true, predicted, least, inputs.output / "predictions.png", value_range=inputs.value_range, legend=LEGEND
    )
    wrong = np.flatnonzero((called != (hot > 0)).any(axis=1))
    wrong = wrong[np.argsort(-least[wrong], kind="stable")]
    own, found = _texts(hot, inputs.labels), _texts(called, inputs.labels)
    values = {
        "images": len(images),
        "exact": round(1 - len(wrong) / len(images), 6),
        "labels": rows,
        "mistakes": [{"image": int(i), "true": own[i], "predicted": found[i], "score": round(float(least[i]), 6)}
                     for i in wrong[:MAX_MISTAKES]],
    }  # fmt: skip
    captions = {
        "labels.png": "Average precision of each label, and F1 at the label's threshold.",
        "predictions.png": "Images with a wrong or missing label, the least certain ones, a sample of the rest. The "
        "score is that of an image's least certain label.",
    }
    return PartResult({"several": values}, captions)


def _figures(hot, scores, called) -> dict:
    """Return the figures of a label as JSON values; None if no image has it. All arguments are (N,)."""
    images, predicted = int(hot.sum()), int(called.sum())
    counts = {"images": images, "predicted": predicted}
    if not images:
        return counts | dict.fromkeys(("average_precision", "precision", "recall", "f1"))
    order = np.argsort(-scores, kind="stable")
    last = np.append(np.flatnonzero(np.diff(scores[order])), len(hot) - 1)  # of equal scores
    hits = hot[order].cumsum()[last]
    average = float((np.diff(hits, prepend=0) / images * hits / (last + 1)).sum())
    both = int((called * hot).sum())
    return counts | {"average_precision": average, "precision": both / max(predicted, 1), "recall": both / images,
                     "f1": 2 * both / (predicted + images)}  # fmt: skip


def _texts(called, names) -> list[str]:
    """Return the names of the labels of each image as a text: True or 1 (N, K) -> N texts."""
    return [", ".join(names[i] for i in np.flatnonzero(row)) or "no label" for row in called]
