"""Image files -> their best classes, by a Keras model or by an export of one.

B batch, H W C image.
"""

import os
from collections.abc import Sequence

import keras
import numpy as np
from tqdm import tqdm

from keras_vit.models.interface import describe
from keras_vit.models.load import holds_model, load_model
from keras_vit.preprocess import load_image, preprocess_input

BATCH = 32
EXPORTED = (".onnx", ".pb", ".tflite", ".xml")  # files of an export


def load_predictor(source: str | os.PathLike):
    """Load what `predict` takes: a `keras.Model`, or a `keras_vit.export.ExportedModel` where an export lies.

    Args:
        source: a workdir, a `.keras` file, a file or folder of published weights, a model's name, or an export
            (`saved_models/NAME`, one version of it, or a file of a version).

    Raises:
        FileNotFoundError: nothing lies at the path.
        ValueError: what lies there is no model, or no model has this name.
    """
    file = os.path.isfile(source) and os.path.splitext(source)[1] in EXPORTED
    if file or os.path.isdir(source) and not holds_model(source):
        from keras_vit.export.load import load_export  # needs TensorFlow, a Keras model does not

        return load_export(source)
    return load_model(source)


def predict(model, images: Sequence[str | os.PathLike], top: int = 5) -> list[dict]:
    """Name the best classes of image files.

    Args:
        model: a model of this package with a classifier, or an export of one.
        images: paths of the files; they are resized to the model's image size.
        top: how many classes to name, at most as many as there are.

    Returns:
        One row an image, `{"image": path, "predictions": [{"label": ..., "score": ...}, ...]}`, best first.

    Raises:
        FileNotFoundError: nothing lies at a path.
        ValueError: a file is not an image, the model has no classifier, or `top` is not positive.
    """
    if not isinstance(top, int) or top < 1:
        raise ValueError(f"top expected a positive int, received {top!r}.")
    interface, answer = _answering(model)
    if interface.classes is None:
        raise ValueError(f"model expected a classifier, received {model.name} without one (include_top=False).")
    if interface.image_size is None:
        raise ValueError(f"model expected a known image size, received input shape {interface.input_shape}.")
    shape = (*interface.image_size, interface.input_shape[2])
    rows = []
    # No bar for a handful; None leaves it out where the output is not a terminal.
    with tqdm(total=len(images), unit="image", disable=None if len(images) > BATCH else True) as bar:
        for start in range(0, len(images), BATCH):
            paths = images[start : start + BATCH]
            pixels = np.stack([load_image(path, shape) for path in paths])  # (B, H, W, C)
            scores = answer(pixels if interface.takes_pixels else preprocess_input(pixels))  # (B, classes)
            rows += [_row(path, row, interface.labels, top) for path, row in zip(paths, scores, strict=True)]
            bar.update(len(paths))
    return rows


def _answering(model):
    """What a model takes, and the function from a batch to its probabilities."""
    if not isinstance(model, keras.Model):
        return model.interface, lambda batch: model(batch)["probabilities"]
    activated = any(layer.name == "predictions" for layer in model.layers)

    def answer(batch):
        scores = model.predict_on_batch(batch)  # the model's own, so that it is traced once for all calls
        return scores if activated else keras.ops.convert_to_numpy(keras.ops.softmax(scores))

    return describe(model), answer


def _row(path, scores, labels, top) -> dict:
    best = np.argsort(-scores, kind="stable")[:top]
    predictions = [{"label": labels[i], "score": float(scores[i])} for i in best]
    return {"image": str(path), "predictions": predictions}
