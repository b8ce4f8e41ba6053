"""Frozen features of whole splits, kept on disk, and heads fitted to them.

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
from keras_vit.evaluate.disk_cache import fingerprint, kept
from keras_vit.evaluate.few_shot import features_of
from keras_vit.evaluate.heads import NEIGHBOURS, fit_logistic, neighbour_scores
from keras_vit.evaluate.ridge import ALL_L2, fit_ridge, fit_ridges, ridge_scores
from keras_vit.models.model_interface import model_interface

PROBES = ("logistic", "ridge", "knn")


@dataclass(frozen=True)
class Features:
    """Of a split.

    Args:
        x: (N, D), what the classifier takes.
        y: (N,) classes, or (N, K) with 1 at each right one.
        labels: names of the K classes.
    """

    x: np.ndarray
    y: np.ndarray
    labels: tuple[str, ...]


class Extractor:
    """Takes a model's features of data, each split once.

    Args:
        model: whose features to take: the input of its `head`, or of a model without one what it puts out.
        folder: where they are kept, under hashes of the model and the data; None keeps nothing.
        directory: where the data lies.
        resize: as in `evaluation_batches`.
        batch_size: images at once.
    """

    def __init__(
        self, model: keras.Model, folder=None, directory: str | None = None, resize=None, batch_size: int = 64
    ):
        interface = model_interface(model)
        self._shape = interface.image_shape
        self._scale = not interface.takes_pixels
        self._features, self._hash = _features_of(model, interface), fingerprint(model) if folder else None
        self._folder, self._directory, self._resize, self._batch = folder, directory, resize, batch_size

    def __call__(self, source: str, split: str) -> Features:
        """The features of a split.

        Raises:
            FileNotFoundError: the data is absent.
        """
        examples = open_split(source, split, self._directory, exif=False)  # as published figures have it
        key = {"model": self._hash, "source": source, "split": split, "size": self._shape, "resize": self._resize}
        if self._folder:
            key["data"] = data_fingerprint(source, self._directory)
        found = kept(self._folder, key, lambda: self._computed(examples))
        return Features(found["x"], found["y"], tuple(examples.labels))

    def _computed(self, examples):
        batches = evaluation_batches(
            examples, batch_size=self._batch, input_shape=self._shape, scale=self._scale, resize=self._resize
        )
        x, y = [], []
        for images, labels, weights in batches:
            real = weights.numpy() > 0
            x.append(self._features(images).numpy()[real])
            y.append(labels.numpy()[real])
        return {"x": np.concatenate(x), "y": np.concatenate(y)}


def _features_of(model, interface):
    if interface.classes is None and len(model.output_shape) != 2:
        raise ValueError(f"model expected a classifier or pooled features (batch, D), received {model.output_shape}.")
    return features_of(model)


def data_fingerprint(source: str, directory: str | None) -> str:
    """SHA-256 of the names, sizes and times of a source's files, which change when its data does."""
    if source.startswith(("tfds:", "vtab:")):
        name = source.partition(":")[2]
        root = str(prepared(find_task(name).dataset if source.startswith("vtab:") else name, directory).data_path)
    elif directory is None:
        return source
    else:
        root = str(directory)
    files = [(root, "", [""])] if not tf.io.gfile.isdir(root) else sorted(tf.io.gfile.walk(root))
    found = hashlib.sha256()
    for folder, _, names in files:
        for name in sorted(names):
            stat = tf.io.gfile.stat(os.path.join(folder, name) if name else folder)
            found.update(f"{Path(folder).name}/{name} {stat.length} {stat.mtime_nsec}\n".encode())
    return found.hexdigest()


def probe(kind: str, train: Features, validation: Features, test: Features) -> dict:
    """Accuracy of a head fitted to features, its strength chosen on held-out ones, then fitted to both.

    Args:
        kind: `logistic` regression, `ridge` (the few-shot head of the paper) or `knn`, weighted neighbours, which
            have nothing to choose.
        train: to fit to.
        validation: to choose on.
        test: to measure on.

    Returns:
        `{"accuracy": share in [0, 1], ...}` with what was chosen.

    Raises:
        ValueError: there is no such kind.
    """
    classes = len(train.labels)
    first, second = (train.x, train.y), (validation.x, validation.y)
    both = tuple(np.concatenate(pair) for pair in zip(first, second, strict=True))
    if kind == "logistic":
        head = fit_logistic(first, second)
        answers, chosen = head.model.predict(test.x), {"c": head.c}
    elif kind == "ridge":
        heads = fit_ridges(*first, classes, ALL_L2)
        scores = [np.mean(ridge_scores(head, validation.x).argmax(axis=1) == validation.y) for head in heads]
        l2 = ALL_L2[int(np.argmax(scores))]
        answers, chosen = ridge_scores(fit_ridge(*both, classes, l2), test.x).argmax(axis=1), {"l2": l2}
    elif kind == "knn":
        answers, chosen = neighbour_scores(both, test.x, classes).argmax(axis=1), {"neighbours": NEIGHBOURS}
    else:
        raise ValueError(f"probe expected one of {', '.join(PROBES)}, received {kind!r}.")
    return {"accuracy": accuracy(answers, test.y), "examples": len(test.y), **chosen}


def accuracy(answers: np.ndarray, y: np.ndarray) -> float:
    """Share of right answers; where several are right, of the images that have one (ImageNet-ReaL)."""
    if y.ndim == 1:
        return float(np.mean(answers == y))
    some = y.max(axis=1) > 0
    return float(np.mean(y[some, answers[some]] > 0))
