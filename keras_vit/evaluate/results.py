"""Assemble the results of an evaluation on labelled images, as in `results.json`.

N images, K classes.
"""

from collections.abc import Sequence

import numpy as np

from keras_vit.evaluate.calibration import calibration, fit_temperature, softmax
from keras_vit.evaluate.class_metrics import LEVEL, RESAMPLES, SEED, class_metrics
from keras_vit.evaluate.mistakes import MOST, hardest_pairs, likely_wrong_labels, rejection, surest_mistakes
from keras_vit.evaluate.ordinal import rank_results


def labelled_results(
    probabilities, labels, classes: Sequence[str], images: Sequence[str] | None = None, seed: int = SEED,
    ordered: bool = False,
) -> dict:  # fmt: skip
    """Return all figures of a classifier on labelled images as JSON values.

    Args:
        probabilities: (N, K).
        labels: (N,) class indices.
        classes: K names of the classes.
        images: N names of the images; their indices if None.
        seed: seed of the bootstrap.
        ordered: whether the classes are ordered, which adds `ranks`.

    Returns:
        The fields of `results.json` that docs/evaluation.md lists, without those about the model and the data.
    """
    probabilities, labels = np.asarray(probabilities), np.asarray(labels)
    images = [str(i) for i in range(len(labels))] if images is None else [str(image) for image in images]
    metrics = class_metrics(probabilities, labels, seed=seed)
    for row in metrics["classes"]:
        row["label"] = classes[row["class"]]
    predicted, confidence = probabilities.argmax(axis=1), probabilities.max(axis=1)
    confusion = np.zeros((len(classes),) * 2, int)
    np.add.at(confusion, (labels, predicted), 1)
    suspects, likely = likely_wrong_labels(probabilities, labels)
    return {
        "images": len(labels),
        "interval": {"method": "bootstrap, percentiles", "level": LEVEL, "resamples": RESAMPLES, "seed": seed},
        **metrics,
        "classes_without_images": [row["label"] for row in metrics["classes"] if not row["images"]],
        **({"ranks": rank_results(labels, predicted, len(classes), seed)} if ordered else {}),
        "confusion": [[int(i), int(j), int(confusion[i, j])] for i, j in np.argwhere(confusion)],
        "calibration": calibration(probabilities, labels),
        "rejection": rejection(probabilities, labels),
        "surest_mistakes": [
            {"image": images[i], "label": classes[labels[i]], "predicted": classes[predicted[i]],
             "score": float(confidence[i])}
            for i in surest_mistakes(probabilities, labels)
        ],
        "likely_wrong_labels": [
            {"image": images[i], "label": classes[labels[i]], "likely": classes[j],
             "score_of_label": float(probabilities[i, labels[i]]), "score_of_likely": float(probabilities[i, j])}
            for i, j in zip(suspects[:MOST], likely[:MOST], strict=True)
        ],
        "likely_wrong_labels_in_all": len(suspects),
        "hardest_pairs": [
            {"first": classes[i], "second": classes[j], "first_as_second": a, "second_as_first": b}
            for i, j, a, b in hardest_pairs(confusion)
        ],
    }  # fmt: skip


def temperature_results(validation, test) -> dict:
    """Return the temperature that is fitted on validation images, and the calibration of the test images with it.

    Args:
        validation: logits (M, K) and class indices (M,).
        test: logits (N, K) and class indices (N,).

    Raises:
        ValueError: the validation images determine no temperature.
    """
    temperature = fit_temperature(*validation)
    after = calibration(softmax(test[0], temperature), test[1])
    return {"value": temperature, "validation_images": len(validation[1]), "calibration": after}
