"""Compute and cache frozen features of splits, and fit heads to them.

N examples, D features, K classes.
"""

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from keras_vit.data.evaluation import evaluation_batches
from keras_vit.data.sources import open_split
from keras_vit.data.tfds import prepared
from keras_vit.data.vtab import find_task
from keras_vit.evaluate.disk_cache import cached_arrays, fingerprint
from keras_vit.evaluate.few_shot import feature_function
from keras_vit.evaluate.heads import NEIGHBOURS, fit_logistic, neighbour_scores
from keras_vit.evaluate.ridge import ALL_L2, fit_ridge, fit_ridges, ridge_scores
from keras_vit.models.model_interface import model_interface

PROBES = ("logistic", "ridge", "knn")


@dataclass(frozen=True)
class Features:
    """The features of a split.

    Args:
        x: features (N, D), the input of the classifier.
        y: classes (N,), or 1 at each correct class (N, K).
        labels: names of the K classes.
    """

    x: np.ndarray
    y: np.ndarray
    labels: tuple[str, ...]


class Extractor:
    """Computes the features of splits, with a disk cache.

    Args:
        model: the model. Features are the input of its `head`, or its output if it has no classifier.
        folder: folder of the cache, keyed by hashes of the model and the data; None for no cache.
        directory: folder of the data.
        resize: as in `evaluation_batches`.
        batch_size: images per batch.
    """

    def __init__(
        self, model: keras.Model, folder=None, directory: str | None = None, resize=None, batch_size: int = 64
    ):
        interface = model_interface(model)
        self._shape = interface.image_shape
        self._scale, self._spec = not interface.takes_pixels, interface.preprocessing
        self._features = _features_of(model, interface)
        self._hash = fingerprint(model) if folder else None
        self._folder, self._directory, self._resize, self._batch = folder, directory, resize, batch_size

    def __call__(self, source: str, split: str) -> Features:
        """Return the features of a split.

        Raises:
            FileNotFoundError: the data does not exist.
        """
        examples = open_split(source, split, self._directory, exif=False)  # as for published accuracies
        key = {"model": self._hash, "source": source, "split": split, "size": self._shape, "resize": self._resize}
        if self._folder:
            key["data"] = data_fingerprint(source, self._directory)
        arrays = cached_arrays(self._folder, key, lambda: self._compute(examples))
        return Features(arrays["x"], arrays["y"], tuple(examples.labels))

    def _compute(self, examples):
        batches = evaluation_batches(
            examples, batch_size=self._batch, input_shape=self._shape, scale=self._scale, spec=self._spec,
            resize=self._resize,
        )  # fmt: skip
        x, y = [], []
        for images, labels, weights in batches:
            valid = weights.numpy() > 0
            x.append(self._features(images).numpy()[valid])
            y.append(labels.numpy()[valid])
        return {"x": np.concatenate(x), "y": np.concatenate(y)}


def _features_of(model, interface):
    if interface.classes is None and len(model.output_shape) != 2:
        raise ValueError(f"model expected a classifier or pooled features (batch, D), received {model.output_shape}.")
    return feature_function(model)


def data_fingerprint(source: str, directory: str | None) -> str:
    """Return the SHA-256 of the names, sizes and modification times of a source's files."""
    if source.startswith(("tfds:", "vtab:")):
        name = source.partition(":")[2]
        root = str(prepared(find_task(name).dataset if source.startswith("vtab:") else name, directory).data_path)
    elif directory is None:
        return source
    else:
        root = str(directory)
    files = [(root, "", [""])] if not tf.io.gfile.isdir(root) else sorted(tf.io.gfile.walk(root))
    digest = hashlib.sha256()
    for folder, _, names in files:
        for name in sorted(names):
            stat = tf.io.gfile.stat(os.path.join(folder, name) if name else folder)
            digest.update(f"{Path(folder).name}/{name} {stat.length} {stat.mtime_nsec}\n".encode())
    return digest.hexdigest()


def probe(kind: str, train: Features, validation: Features, test: Features) -> dict:
    """Return the test accuracy of a head on features. Its strength is chosen by validation accuracy.

    The head is fitted to the training and the validation examples afterwards.

    Args:
        kind: `logistic` regression, `ridge` (the few-shot head of the paper) or `knn` (weighted nearest neighbours,
            without a choice).
        train: training examples.
        validation: validation examples.
        test: test examples.

    Returns:
        `{"accuracy": in [0, 1], "examples": count, ...}` and the chosen strength.

    Raises:
        ValueError: `kind` is unknown.
    """
    classes = len(train.labels)
    first, second = (train.x, train.y), (validation.x, validation.y)
    both = tuple(np.concatenate(pair) for pair in zip(first, second, strict=True))
    if kind == "logistic":
        head = fit_logistic(first, second)
        predictions, chosen = head.model.predict(test.x), {"c": head.c}
    elif kind == "ridge":
        heads = fit_ridges(*first, classes, ALL_L2)
        scores = [np.mean(ridge_scores(head, validation.x).argmax(axis=1) == validation.y) for head in heads]
        l2 = ALL_L2[int(np.argmax(scores))]
        head = fit_ridge(*both, classes, l2)
        predictions, chosen = ridge_scores(head, test.x).argmax(axis=1), {"l2": l2}
    elif kind == "knn":
        predictions = neighbour_scores(both, test.x, classes).argmax(axis=1)
        chosen = {"neighbours": NEIGHBOURS}
    else:
        raise ValueError(f"probe expected one of {', '.join(PROBES)}, received {kind!r}.")
    return {"accuracy": accuracy(predictions, test.y), "examples": len(test.y), **chosen}


def accuracy(predictions: np.ndarray, y: np.ndarray) -> float:
    """Return the accuracy of predicted classes (N,) for classes (N,), or for sets of correct classes (N, K).

    Examples without a correct class, as in ImageNet-ReaL, are ignored.
    """
    if y.ndim == 1:
        return float(np.mean(predictions == y))
    labelled = y.max(axis=1) > 0
    return float(np.mean(y[labelled, predictions[labelled]] > 0))
