"""Classify image files with a Keras model or an export.

B batch, H W C image.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from keras_vit.exported import ExportedModel, load_export
from keras_vit.exported.folders import SUFFIXES
from keras_vit.models.model_interface import ModelInterface, model_interface
from keras_vit.models.model_names import holds_model
from keras_vit.predict.images import BATCH_SIZE as BATCH_SIZE
from keras_vit.predict.images import loaded_batches
from keras_vit.predict.progress import Progress


def load_predictor(source: str | os.PathLike):
    """Load a `keras.Model`, or a `keras_vit.exported.ExportedModel` if the source is an export.

    Args:
        source: a workdir, a `.keras` file, a file or folder of published weights, a model's name, or an export:
            `saved_models/NAME`, one of its version folders, or a file in that folder.

    Raises:
        FileNotFoundError: the path does not exist.
        ValueError: the path holds no model, or no model has this name.
    """
    is_export_file = os.path.isfile(source) and os.path.splitext(source)[1] in SUFFIXES
    if is_export_file or os.path.isdir(source) and not holds_model(source):
        return load_export(source)
    from keras_vit.models.load import load_model  # imports Keras, which an export does not need

    return load_model(source)


def predict(
    model, images: Sequence[str | os.PathLike], top: int = 5, labels: Sequence[str] | None = None
) -> list[dict]:
    """Return the best classes of image files, or the values of a regression.

    Args:
        model: a model of this package with a classifier, or an export of one.
        images: paths of the files. The images are prepared as the model's `preprocessing` states.
        top: number of classes per image, at least 1. A model of several labels per image returns all labels whose
            probability reaches the label's threshold instead.
        labels: names of the classes; the model's own if None.

    Returns:
        One dict per image, in order: `{"image": path, "predictions": [{"label": ..., "score": ...}, ...],
        "error": None}`, best class first. The predictions of a regression are `{"target": ..., "value": ...}`, in the
        target's units. If a file cannot be read, `predictions` is empty and `error` is a sentence.

    Raises:
        ValueError: the model has no classifier, `top` is not positive, or there are more or fewer labels than
            classes.
    """
    results = predict_each(model, images, top, labels)
    with Progress(len(images), quiet=len(images) <= BATCH_SIZE) as progress:  # no progress bar for a few images
        return [result for result in results if progress.add()]


def predict_each(
    model, images: Iterable[str | os.PathLike], top: int = 5, labels: Sequence[str] | None = None
) -> Iterator[dict]:
    """Yield the results of `predict` lazily. `images` is read one batch ahead at most.

    Raises:
        ValueError: as `predict`, at the call.
    """
    if not isinstance(top, int) or top < 1:
        raise ValueError(f"top expected a positive int, received {top!r}.")
    interface = interface_of(model)
    if interface.targets:
        if labels is not None:
            raise ValueError(
                f"labels expected None with a regression of {', '.join(interface.targets)}, received some."
            )
        return _results(interface, _values_function(model), iter(images), top)
    if interface.classes is None:
        raise ValueError(f"model expected a classifier, received {model.name} without one (include_top=False).")
    if labels is not None:
        if len(labels) != interface.classes:
            raise ValueError(
                f"labels expected the {interface.classes:,} names of the model's classes, received {len(labels):,}."
            )
        interface = replace(interface, labels=tuple(labels))
    return _results(interface, _probability_function(model), iter(images), top)


def _results(interface, scores_of, images, top):
    for paths, pixels, errors in loaded_batches(images, interface.image_shape, interface.preprocessing):
        scores = [None] * len(paths)
        if not all(errors):
            scores = scores_of(interface.inputs_of(pixels))  # (B, classes), or (B, targets)
        for path, error, image_scores in zip(paths, errors, scores, strict=True):
            yield _result(path, image_scores, interface, top, error)


def interface_of(model) -> ModelInterface:
    """Return the inputs and outputs of a Keras model or an export."""
    return model.interface if isinstance(model, ExportedModel) else model_interface(model)


def _probability_function(model):
    """Return a function: images (B, H, W, C) -> probabilities (B, classes)."""
    if isinstance(model, ExportedModel):
        return lambda batch: model(batch)["probabilities"]
    from keras import ops

    from keras_vit.composed import flattened

    has_softmax = any(layer.name == "predictions" for layer in flattened(model).layers)

    def probabilities(batch):
        scores = model.predict_on_batch(batch)  # Keras traces this function once
        return scores if has_softmax else ops.convert_to_numpy(ops.softmax(scores))

    return probabilities


def _values_function(model):
    """Return a function: images (B, H, W, C) -> values (B, targets)."""
    return (lambda batch: model(batch)["values"]) if isinstance(model, ExportedModel) else model.predict_on_batch


def _result(path, scores, interface, top, error) -> dict:
    if interface.targets:
        pairs = () if error else zip(interface.targets, scores, strict=True)
        predictions = [{"target": name, "value": float(value)} for name, value in pairs]
        return {"image": str(path), "predictions": predictions, "error": error}
    best, thresholds = () if error else np.argsort(-scores, kind="stable"), interface.thresholds
    best = best[:top] if thresholds is None else [i for i in best if scores[i] >= thresholds[i]]
    predictions = [{"label": interface.labels[i], "score": float(scores[i])} for i in best]
    return {"image": str(path), "predictions": predictions, "error": error}
