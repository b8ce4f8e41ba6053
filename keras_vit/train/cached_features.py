"""Train the head on cached features: what an image is turned into before the head, computed once.

N examples, B batch, D features.
"""

import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from keras_vit.data.augmentations import Augment
from keras_vit.data.examples import Examples
from keras_vit.data.pipeline import in_training_order, training_batches
from keras_vit.data.settings import BATCHES_AHEAD, untuned
from keras_vit.evaluate.disk_cache import cached_arrays, fingerprint
from keras_vit.evaluate.few_shot import feature_function
from keras_vit.models.features import head_features
from keras_vit.models.vision_model import VisionModel
from keras_vit.train.datasets import Datasets, files_hash
from keras_vit.train.recipe import Recipe
from keras_vit.train.state import State

FOLDER = "features"  # in the workdir
CHUNK = 1024  # examples of a file, from which an interrupted computation goes on
_RATES = ("dropout_rate", "attention_dropout_rate", "drop_path_rate")


def obstacle(recipe: Recipe, state: State, data: Datasets, workers: int) -> str | None:
    """Return why the features of a run cannot be cached, or None if they can be.

    They can be if only the head is trained and every image gives the same features in each epoch.
    """
    others = sorted({variable.path.split("/")[0] for variable in state.trained} - {"head"})
    if others:
        return f"{', '.join(others[:3])}{' and more' * (len(others) > 3)} trained beside the head; model.freeze fits"
    rates = [name for name in _RATES if getattr(recipe.model, name)]
    changed = [name for name, value in asdict(recipe.augment).items() if value != getattr(Augment(), name)]
    for names, what in ((rates, "model"), (changed, "augment")):
        if names:
            return f"random {', '.join(f'{what}.{name}' for name in names)}"
    if recipe.curriculum.stages or recipe.masked or recipe.evaluate.few_shot:
        return "a curriculum, masked patches or few-shot evaluations"
    if workers > 1:
        return f"{workers} workers"
    return None if data.train.select else f"the source {recipe.data.source!r}, which is read as a stream"


def head_only(model: keras.Model) -> keras.Model:
    """Return a model of the head, which shares its weights: features (B, D) -> the model's outputs."""
    inputs = keras.Input(head_features(model).output.shape[1:], name="features", dtype="float32")
    outputs = model.get_layer("head")(inputs)
    if any(layer.name == "predictions" for layer in model.layers):
        outputs = model.get_layer("predictions")(outputs)
    return VisionModel(inputs, outputs, name=model.name)


def head_state(state: State) -> State:
    """Return the state of a run whose models are those of the heads, with the same variables."""
    model = head_only(state.model)
    return replace(state, model=model, average=model if state.average is state.model else head_only(state.average))


@dataclass(frozen=True)
class FeatureData(Datasets):
    """Splits whose batches have features (B, D) in place of images.

    Args:
        cached: arrays by split: features `x`, targets `y`, and `weights` of evaluations or the `index` of training.
    """

    cached: dict[str, dict[str, np.ndarray]] = field(default_factory=dict)

    def batches(self, input_shape, start: int) -> Callable:
        """Return a function of a part that returns the training batches from a step on, in the order of images."""
        arrays, size = self.cached["train"], self.recipe.data.batch_size
        rows = np.zeros(self._count, "int64")
        rows[arrays["index"]] = np.arange(len(arrays["index"]))
        x, y, rows = (tf.constant(value) for value in (arrays["x"], arrays["y"], rows))

        def one_batch(index):
            chosen = tf.gather(rows, index % self._count)  # a repeated example has a higher index
            return tf.gather(x, chosen), tf.gather(y, chosen)

        def of_part(part):
            order = in_training_order(
                self.train, batch_size=size, epochs=self.epochs, seed=self.recipe.seed, start=start
            )
            indices = order.map(lambda position, example: example[0])  # labels may differ in length
            return untuned(indices.batch(size, drop_remainder=True).map(one_batch).prefetch(BATCHES_AHEAD))

        return of_part

    def evaluation(self, examples: Examples, shard: tuple[int, int] = (0, 1)):
        """Return the batches (features, labels, weights) of a split for evaluations."""
        arrays = self.cached["test" if examples is self.test else "validation"]
        rows = tuple(arrays[name] for name in ("x", "y", "weights"))
        return untuned(tf.data.Dataset.from_tensor_slices(rows).batch(self.recipe.data.batch_size, drop_remainder=True))

    @property
    def _count(self) -> int:
        return (self.train.whole or self.train).count


def on_features(
    state: State, data: Datasets, workdir: Path, workers: int, say: Callable, stop: Callable
) -> tuple[State, FeatureData] | None:
    """Return the state of the head and the data as features, if the recipe asks for them; else None.

    Without `data.cache_features`, a line says if the run could have them. `say` and `stop` are those of
    `cache_features`; the features are None, too, if the run must stop.

    Raises:
        ValueError: the run trains more than the head, or its images change from epoch to epoch.
    """
    reason = obstacle(data.recipe, state, data, workers)
    if not data.recipe.data.cache_features:
        if reason is None:
            say("only the head is trained, and no image changes from epoch to epoch: --set data.cache_features=true "
                "computes the input of the head once.")  # fmt: skip
        return None
    if reason is not None:
        raise ValueError("cache_features expected a run that trains only the head on images that do not change, "
                         f"received one with {reason}; false fits.")  # fmt: skip
    cached = cache_features(data, state.model, workdir, say, stop)
    return cached and (head_state(state), FeatureData(**vars(data), cached=cached))


def cache_features(data: Datasets, model: keras.Model, workdir: Path, say: Callable, stop: Callable) -> dict | None:
    """Return the arrays of `FeatureData`, from the disk or computed and written to `workdir/features`.

    Args:
        data: the splits.
        model: the model, whose head is not used.
        workdir: folder of the run.
        say: prints a line.
        stop: returns whether the run must stop; the finished chunks are then on the disk, and None is returned.
    """
    extract, folder = feature_function(model), workdir / FOLDER
    key = {"model": fingerprint(head_features(model)), "spec": asdict(data.spec), "data": asdict(data.recipe.data)}
    cached = {}
    for name in ("train", "test", "validation"):
        examples = getattr(data, name)
        if name == "validation" and examples is data.test:
            continue
        chunks = []
        for start in range(0, examples.count, _chunk(data)):
            if stop():
                return None
            key |= {"split": name, "examples": _hash_of(examples), "start": start, "shape": model.input_shape[1:]}
            chunk = _part(examples, start, min(_chunk(data), examples.count - start))
            compute = _training_chunk if name == "train" else _evaluation_chunk
            chunks.append(cached_arrays(folder, key, lambda: compute(data, chunk, model, extract), say))  # noqa: B023
        cached[name] = {field: np.concatenate([chunk[field] for chunk in chunks]) for field in chunks[0]}
    size = sum(file.stat().st_size for file in folder.glob("*.npz")) / 1e6
    counts = ", ".join(f"{getattr(data, name).count:,} {name}" for name in cached)
    say(f"features of the images ({counts}) are cached in {folder}, {size:,.1f} MB; the epochs read them in place of "
        "the images. They may be deleted after the run.")  # fmt: skip
    return cached


def _chunk(data: Datasets) -> int:
    """Return the number of examples of a file: whole batches."""
    batch = data.recipe.data.batch_size
    return -(-CHUNK // batch) * batch


def _hash_of(examples: Examples) -> str:
    if examples.files:
        return files_hash(examples)
    return hashlib.sha256(json.dumps(np.asarray(examples.targets).tolist()).encode()).hexdigest()[:16]


def _part(examples: Examples, start: int, count: int) -> Examples:
    """Return consecutive examples of a split in its own order."""
    files = examples.files and examples.files[start : start + count]
    stream = lambda seed=None: examples.stream().skip(start).take(count)  # noqa: E731
    return replace(examples, stream=stream, count=count, files=files, whole=None)


def _training_chunk(data: Datasets, examples: Examples, model, extract) -> dict[str, np.ndarray]:
    """Return features and targets of examples as training prepares them, and their indices."""
    size = data.recipe.data.batch_size
    padded = -(-examples.count // size) * size
    order = replace(examples, stream=lambda seed=None: examples.stream().repeat().take(padded), count=padded)
    batches = training_batches(
        order, Augment(), batch_size=size, input_shape=model.input_shape[1:], epochs=1,
        scale=not data.recipe.model.include_preprocessing, spec=data.spec,
        multi_hot=data.recipe.loss.kind == "sigmoid",
    )  # fmt: skip
    rows = [(extract(images).numpy(), targets.numpy()) for images, targets in batches]
    x, y = (np.concatenate(column)[: examples.count] for column in zip(*rows, strict=True))
    index = untuned(examples.stream().map(lambda index, *_: index)).as_numpy_iterator()
    return {"x": x, "y": y, "index": np.fromiter(index, "int64")}


def _evaluation_chunk(data: Datasets, examples: Examples, model, extract) -> dict[str, np.ndarray]:
    """Return features, labels and weights of examples as evaluations prepare them, in whole batches."""
    rows = [(extract(x).numpy(), y.numpy(), w.numpy()) for x, y, w in Datasets.evaluation(data, examples)]
    return dict(zip(("x", "y", "weights"), map(np.concatenate, zip(*rows, strict=True)), strict=True))
