"""Return the batches of an evaluation, and images of a test split.

B batch, K classes, H W C image.
"""

import numpy as np
import tensorflow as tf

from keras_vit.data.broken import naming_broken_files
from keras_vit.data.decode import decode, fitted, middle
from keras_vit.data.examples import Examples
from keras_vit.data.pipeline import one_hot, share_of
from keras_vit.data.settings import BATCHES_AHEAD, BATCHES_AT_ONCE, untuned
from keras_vit.data.sources import open_data
from keras_vit.preprocessing.graph import prepare_image
from keras_vit.preprocessing.image_spec import PLAIN_SCALING, ImageSpec


def evaluation_batches(
    examples: Examples,
    *,
    batch_size: int,
    input_shape: tuple[int, int, int],
    scale: bool = True,
    spec: ImageSpec = PLAIN_SCALING,
    resize: int | tuple[int, int] | None = None,
    shard: tuple[int, int] = (0, 1),
) -> tf.data.Dataset:
    """Return every example once, in order: images (B, H, W, C), labels (B,) and weights (B,).

    The last batch is padded with examples of weight 0. If an example has several classes, the labels are (B, K) with 1
    at each class; a prediction is right if it is one of the classes. Probabilities and values are (B, K), too.

    Args:
        examples: the split.
        batch_size: number of examples per batch.
        input_shape: (height, width, channels) of the model.
        scale: whether to normalise the pixels, as `spec` states.
        spec: the preprocessing of the model.
        resize: pixels of the shorter side, or (height, width), before the center crop; None resizes as `spec` states.
        shard: (worker, workers): return only that worker's part of every batch, (B / workers, ...). All workers have
            the same number of batches.

    Raises:
        ValueError: `resize` is smaller than the model's size, or a batch cannot be split evenly.
    """
    _require_larger(resize, input_shape)
    count = share_of(batch_size, shard)  # examples of this worker

    def one_example(index, image, label):
        return _whole(image, examples, input_shape, resize, spec), one_hot(label, examples) if examples.multi else label

    def one_batch(images, labels):
        images = spec.normalize(images) if scale else spec.reorder(images)
        missing = count - tf.shape(labels)[0]
        fill = lambda x: tf.pad(x, [[0, missing]] + [[0, 0]] * (x.shape.rank - 1))  # noqa: E731
        weights = tf.cast(tf.range(count) < count - missing, tf.float32)
        labels = tf.ensure_shape(fill(labels), (count, *labels.shape[1:]))
        return tf.ensure_shape(fill(images), (count, *input_shape)), labels, weights

    stream = examples.stream()
    if count < batch_size:
        is_own = lambda position, _: position % batch_size // count == shard[0]  # noqa: E731
        stream = stream.enumerate().filter(is_own).map(lambda _, example: example)
    dataset = stream.map(one_example, tf.data.AUTOTUNE).batch(count).map(one_batch, BATCHES_AT_ONCE)
    if count < batch_size:  # a worker may have no example of the last batch
        nothing = tf.nest.map_structure(lambda spec: tf.zeros(spec.shape, spec.dtype), dataset.element_spec)
        dataset = dataset.concatenate(tf.data.Dataset.from_tensors(nothing)).take(-(-examples.count // batch_size))
    return untuned(dataset.prefetch(BATCHES_AHEAD))


def held_out(
    data,
    input_shape: tuple[int, int, int],
    data_dir: str | None = None,
    limit: int | None = None,
    left_out=(),
    spec: ImageSpec = PLAIN_SCALING,
    several: bool = False,
) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Return images of the test split as an evaluation sees them, before scaling.

    Args:
        data: a `keras_vit.train.recipe.Data`.
        input_shape: (height, width, channels) of the model.
        data_dir: replaces the directory in `data`.
        limit: maximum number of images; None for all.
        left_out: as in `sources.open_split`.
        spec: the preprocessing of the model.
        several: whether to return all of several classes.

    Returns:
        Images float32 (N, H, W, C) in 0..255, labels int64 (N,), and the names of the classes. The label is
        the first of several classes, or the most probable one; examples without a class are skipped. With `several`,
        labels of several classes are 0 or 1 (N, K). Of a regression, the labels are the values float32 (N, T).

    Raises:
        ValueError: the data's `resize` is smaller than the model's size, or a data file is broken or
            missing.
    """
    _require_larger(data.resize, input_shape)
    examples = open_data(data, data.test_split, data_dir, left_out)
    stream = examples.stream()
    if examples.multi and several:
        stream = stream.map(lambda index, image, label: (index, image, one_hot(label, examples)))
    elif examples.multi:
        stream = stream.filter(lambda index, image, label: tf.size(label) > 0)
        stream = stream.map(lambda index, image, label: (index, image, label[0]))
    stream = stream.take(-1 if limit is None else limit)
    stream = stream.map(lambda index, image, label: (_whole(image, examples, input_shape, data.resize, spec), label), 2)
    with naming_broken_files(examples):
        images, labels = zip(*untuned(stream).as_numpy_iterator(), strict=True)
    if examples.kind == "probabilities":
        labels = [np.argmax(label) for label in labels]
    dtype = "float32" if examples.kind == "numbers" else "int64"
    return np.stack(images), np.array(labels, dtype), list(examples.labels)


def _require_larger(resize, input_shape) -> None:
    least = (resize, resize) if isinstance(resize, int) else resize
    if least and (least[0] < input_shape[0] or least[1] < input_shape[1]):
        raise ValueError(f"resize expected at least the model's {max(input_shape[:2])} pixels, received {resize}.")


def _whole(image, examples: Examples, input_shape, resize, spec: ImageSpec):
    """Return an example's image as an evaluation sees it: float32 (H, W, C), 0..255."""
    image = examples.read(image) if examples.read else image
    image = decode(image, examples.exif) if examples.encoded else tf.ensure_shape(image, examples.shape)
    if resize:
        return middle(image, resize, input_shape)
    if not spec.is_plain_resize:
        image = prepare_image(image, spec, input_shape[:2])
    return fitted(image, input_shape)
