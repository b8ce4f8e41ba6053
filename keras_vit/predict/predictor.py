"""Image files -> their best classes, by a Keras model or by an export of one.

B batch, H W C image.
"""

import itertools
import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from keras_vit.exported import ExportedModel, load_export
from keras_vit.models.interface import Interface, describe
from keras_vit.models.source import holds_model
from keras_vit.predict.progress import Progress
from keras_vit.preprocessing.inputs import load_image, preprocess_input

BATCH = 32
EXPORTED = (".onnx", ".pb", ".tflite", ".xml")  # files of an export
READERS = 4  # files read and decoded at the same time


def load_predictor(source: str | os.PathLike):
    """Load what `predict` takes: a `keras.Model`, or a `keras_vit.export.ExportedModel` where an export lies.

    Args:
        source: a workdir, a `.keras` file, a file or folder of published weights, a model's name, or an export
            (`saved_models/NAME`, one version of it, or a file of a version).

    Raises:
        FileNotFoundError: nothing lies at the path.
        ValueError: what lies there is no model, or no model has this name.
    """
    exported = os.path.isfile(source) and os.path.splitext(source)[1] in EXPORTED
    if exported or os.path.isdir(source) and not holds_model(source):
        return load_export(source)
    from keras_vit.models.load import load_model  # needs Keras, an export need not

    return load_model(source)


def predict(model, images: Sequence[str | os.PathLike], top: int = 5) -> list[dict]:
    """Name the best classes of image files.

    Args:
        model: a model of this package with a classifier, or an export of one.
        images: paths of the files; they are resized to the model's image size.
        top: how many classes to name, at most as many as there are.

    Returns:
        One row an image, in their order: `{"image": path, "predictions": [{"label": ..., "score": ...}, ...],
        "error": None}`, best first; where a file cannot be read, no predictions and a sentence as the error.

    Raises:
        ValueError: the model has no classifier, or `top` is not positive.
    """
    rows = predict_each(model, images, top)
    with Progress(len(images), quiet=len(images) <= BATCH) as progress:  # nothing to show for a handful
        return [row for row in rows if progress.add()]


def predict_each(model, images: Iterable[str | os.PathLike], top: int = 5) -> Iterator[dict]:
    """The rows of `predict` one after the other, batch by batch; `images` is read no further than the batch at hand.

    Raises:
        ValueError: as `predict`, before the first row is asked for.
    """
    if not isinstance(top, int) or top < 1:
        raise ValueError(f"top expected a positive int, received {top!r}.")
    interface = interface_of(model)
    if interface.classes is None:
        raise ValueError(f"model expected a classifier, received {model.name} without one (include_top=False).")
    return _rows(interface, interface.image_shape, _answering(model), iter(images), top)


def _rows(interface, shape, answer, images, top):
    with ThreadPoolExecutor(READERS, "images") as pool:
        while paths := list(itertools.islice(images, BATCH)):
            loaded = list(pool.map(lambda path: _load(path, shape), paths))
            # Zeros in a bad file's place: a batch of another size would be compiled anew.
            pixels = np.stack([np.zeros(shape, "float32") if error else image for image, error in loaded])
            scores = [None] * len(paths)
            if not all(error for _, error in loaded):
                scores = answer(pixels if interface.takes_pixels else preprocess_input(pixels))  # (B, classes)
            for path, (_, error), row in zip(paths, loaded, scores, strict=True):
                yield _row(path, row, interface.labels, top, error)


def _load(path, shape):
    """(image, None), or (None, what is wrong with the file)."""
    try:
        return load_image(path, shape), None
    except Exception as error:  # what Pillow's readers raise for a damaged file is not listed anywhere
        return None, " ".join(str(error).split()) or type(error).__name__


def interface_of(model) -> Interface:
    """What a Keras model or an export takes and gives."""
    return model.interface if isinstance(model, ExportedModel) else describe(model)


def _answering(model):
    """The function from a batch to its probabilities."""
    if isinstance(model, ExportedModel):
        return lambda batch: model(batch)["probabilities"]
    from keras import ops

    from keras_vit.composed import flattened

    activated = any(layer.name == "predictions" for layer in flattened(model).layers)

    def answer(batch):
        scores = model.predict_on_batch(batch)  # the model's own, so that it is traced once for all calls
        return scores if activated else ops.convert_to_numpy(ops.softmax(scores))

    return answer


def _row(path, scores, labels, top, error) -> dict:
    best = () if error else np.argsort(-scores, kind="stable")[:top]
    predictions = [{"label": labels[i], "score": float(scores[i])} for i in best]
    return {"image": str(path), "predictions": predictions, "error": error}
