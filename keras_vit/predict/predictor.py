"""Classify image files with a Keras model or an export.

B batch, H W C image.
"""

import itertools
import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from keras_vit.exported import ExportedModel, load_export
from keras_vit.exported.folders import SUFFIXES
from keras_vit.models.model_interface import ModelInterface, model_interface
from keras_vit.models.model_names import holds_model
from keras_vit.predict.progress import Progress
from keras_vit.preprocessing.inputs import load_image, preprocess_input

BATCH_SIZE = 32
READER_THREADS = 4


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


def predict(model, images: Sequence[str | os.PathLike], top: int = 5) -> list[dict]:
    """Return the best classes of image files.

    Args:
        model: a model of this package with a classifier, or an export of one.
        images: paths of the files. The images are resized to the model's image size.
        top: number of classes per image, at least 1. A model of several labels per image returns all labels whose
            probability reaches the label's threshold instead.

    Returns:
        One dict per image, in order: `{"image": path, "predictions": [{"label": ..., "score": ...}, ...],
        "error": None}`, best class first. If a file cannot be read, `predictions` is empty and `error` is a sentence.

    Raises:
        ValueError: the model has no classifier, or `top` is not positive.
    """
    results = predict_each(model, images, top)
    with Progress(len(images), quiet=len(images) <= BATCH_SIZE) as progress:  # no progress bar for a few images
        return [result for result in results if progress.add()]


def predict_each(model, images: Iterable[str | os.PathLike], top: int = 5) -> Iterator[dict]:
    """Yield the results of `predict` lazily. `images` is read one batch ahead at most.

    Raises:
        ValueError: as `predict`, at the call.
    """
    if not isinstance(top, int) or top < 1:
        raise ValueError(f"top expected a positive int, received {top!r}.")
    interface = interface_of(model)
    if interface.classes is None:
        raise ValueError(f"model expected a classifier, received {model.name} without one (include_top=False).")
    return _results(interface, _probability_function(model), iter(images), top)


def _results(interface, probabilities, images, top):
    shape = interface.image_shape
    with ThreadPoolExecutor(READER_THREADS, "images") as pool:
        while paths := list(itertools.islice(images, BATCH_SIZE)):
            loaded = list(pool.map(lambda path: _load(path, shape), paths))
            # Zeros replace a broken image, because a batch of another size would be compiled again.
            pixels = np.stack([np.zeros(shape, "float32") if error else image for image, error in loaded])
            scores = [None] * len(paths)
            if not all(error for _, error in loaded):
                scores = probabilities(pixels if interface.takes_pixels else preprocess_input(pixels))  # (B, classes)
            for path, (_, error), image_scores in zip(paths, loaded, scores, strict=True):
                yield _result(path, image_scores, interface, top, error)


def _load(path, shape):
    """Return (image, None), or (None, error message)."""
    try:
        return load_image(path, shape), None
    except Exception as error:  # Pillow does not document what its readers raise for a damaged file
        return None, " ".join(str(error).split()) or type(error).__name__


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


def _result(path, scores, interface, top, error) -> dict:
    best, thresholds = () if error else np.argsort(-scores, kind="stable"), interface.thresholds
    best = best[:top] if thresholds is None else [i for i in best if scores[i] >= thresholds[i]]
    predictions = [{"label": interface.labels[i], "score": float(scores[i])} for i in best]
    return {"image": str(path), "predictions": predictions, "error": error}
