"""Examples -> batches that a model takes.

B batch, H W C image.
"""

import contextlib

import numpy as np
import tensorflow as tf

from keras_vit.data import augment as change
from keras_vit.data.sources import Examples, open_split
from keras_vit.preprocess import preprocess_input, resize

_SHUFFLE, _CROP, _MIXUP = range(3)  # what a seed is for


def training_batches(
    examples: Examples,
    augment,
    *,
    batch_size: int,
    input_shape: tuple[int, int, int],
    epochs: int,
    seed: int = 0,
    start: int = 0,
    scale: bool = True,
) -> tf.data.Dataset:
    """All batches of a training run in order: images (B, H, W, C) float32 and targets (B, classes) float32.

    The order of the examples and their augmentation hang on (seed, epoch, example) alone, so that a run that goes
    on at batch `start` sees what the uninterrupted one would have seen.

    Args:
        examples: the training split.
        augment: a `keras_vit.train.recipe.Augment`.
        batch_size: examples a batch; what is left of an epoch is dropped.
        input_shape: (height, width, channels) of the model.
        epochs: times that the examples are gone through.
        seed: the recipe's.
        start: batches to leave out.
        scale: whether to scale the pixels to [-1, 1].

    Raises:
        ValueError: there are fewer examples than a batch.
    """
    steps = steps_per_epoch(examples, batch_size)
    used = steps * batch_size  # examples of an epoch

    def one_epoch(epoch):
        return examples.stream(change.seed_pair(seed, epoch, _SHUFFLE)[0]).take(used)

    def one_example(position, example):
        index, image, label = example
        image = decode(image) if examples.encoded else tf.ensure_shape(image, examples.shape)
        if augment.crop == "inception":
            image = change.random_crop(image, change.seed_pair(seed, position // used, index, _CROP), augment.crop_area)
        return position, (index, fitted(image, input_shape), label)

    def one_batch(position, example):
        index, images, label = example
        images = tf.ensure_shape(fitted(images, input_shape), (batch_size, *input_shape))
        draws = [change.uniform(slot, seed, position // used, index) for slot in range(5)]
        if augment.flip:
            images = change.flip(images, draws[0])
        if augment.shift or augment.rotate or augment.zoom:
            images = change.shift_rotate_zoom(images, tf.stack(draws[1:]), augment.shift, augment.rotate, augment.zoom)
        targets = tf.one_hot(label, len(examples.labels))
        if scale:
            images = preprocess_input(images)
        if augment.mixup:
            images, targets = change.mixup(images, targets, augment.mixup, change.seed_pair(seed, position[0], _MIXUP))
        return images, targets

    dataset = tf.data.Dataset.range(start // steps, epochs).flat_map(one_epoch)
    dataset = dataset.skip(start % steps * batch_size).enumerate(start * batch_size)
    if examples.encoded or augment.crop != "none":
        dataset = dataset.map(one_example, tf.data.AUTOTUNE)
    dataset = dataset.batch(batch_size, drop_remainder=True)
    return dataset.map(one_batch, tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)


def evaluation_batches(
    examples: Examples, *, batch_size: int, input_shape: tuple[int, int, int], scale: bool = True
) -> tf.data.Dataset:
    """Every example once, in order: images (B, H, W, C), labels (B,) and weights (B,), which are 0 where the last
    batch is filled up.

    Args:
        examples: the split.
        batch_size: examples a batch.
        input_shape: (height, width, channels) of the model.
        scale: whether to scale the pixels to [-1, 1].
    """

    def one_example(index, image, label):
        return fitted(decode(image) if examples.encoded else image, input_shape), label

    def one_batch(images, labels):
        if scale:
            images = preprocess_input(images)
        missing = batch_size - tf.shape(labels)[0]
        images = tf.pad(images, [[0, missing], [0, 0], [0, 0], [0, 0]])
        weights = tf.cast(tf.range(batch_size) < batch_size - missing, tf.float32)
        labels = tf.ensure_shape(tf.pad(labels, [[0, missing]]), (batch_size,))
        return tf.ensure_shape(images, (batch_size, *input_shape)), labels, weights

    dataset = examples.stream().map(one_example, tf.data.AUTOTUNE).batch(batch_size)
    return dataset.map(one_batch, tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)


def held_out(data, input_shape: tuple[int, int, int], data_dir: str | None = None, limit: int | None = None):
    """Real examples of the test split as the model's evaluation sees them, before scaling.

    Args:
        data: a `keras_vit.train.recipe.Data`.
        input_shape: (height, width, channels) of the model.
        data_dir: in place of the directory in `data`.
        limit: how many at most; all where None.

    Returns:
        Images float32 (N, H, W, C) in 0..255, labels int64 (N,), and the list of the classes' names.
    """
    examples = open_split(data.source, data.test_split, data_dir or data.directory)
    count = examples.count if limit is None else min(limit, examples.count)
    rows = [
        (np.asarray(fitted(decode(image) if examples.encoded else image, input_shape)), int(label))
        for _, image, label in examples.stream().take(count)
    ]
    images, labels = zip(*rows, strict=True)
    return np.stack(images), np.array(labels, "int64"), list(examples.labels)


def steps_per_epoch(examples: Examples, batch_size: int) -> int:
    """Whole batches in a split; raises a ValueError where there is none."""
    if examples.count < batch_size:
        raise ValueError(f"batch_size expected at most the {examples.count} training examples, received {batch_size}.")
    return examples.count // batch_size


def decode(data):
    """Decode an image file to uint8 (H, W, 3), to the bit as Pillow does for JPEG and PNG."""
    image = tf.cond(
        tf.io.is_jpeg(data),
        lambda: tf.io.decode_jpeg(data, channels=3, dct_method="INTEGER_ACCURATE"),
        lambda: tf.io.decode_image(data, channels=3, expand_animations=False),
    )
    return tf.ensure_shape(image, (None, None, 3))


def fitted(images, input_shape: tuple[int, int, int]):
    """Images of any size and 1 or 3 channels -> float32 of the model's (height, width, channels), 0..255."""
    height, width, channels = input_shape
    if images.shape[-1] == 3 and channels == 1:
        # Pillow's integer formula for grey (ITU-R 601-2), so that files look the same to training and prediction.
        images = tf.cast(tf.round(tf.cast(images, tf.float32)), tf.int32)
        grey = tf.reduce_sum(images * [19595, 38470, 7471], axis=-1, keepdims=True)
        images = (grey + 0x8000) // 0x10000
    if tuple(images.shape[-3:-1]) != (height, width):
        images = resize(images, (height, width))
    images = tf.cast(images, tf.float32)
    return tf.repeat(images, channels, axis=-1) if images.shape[-1] < channels else images


@contextlib.contextmanager
def naming_broken_files(*splits: Examples):
    """Turn TensorFlow's error about a file that is gone or no image into a ValueError that names it."""
    try:
        yield
    except (tf.errors.InvalidArgumentError, tf.errors.NotFoundError) as error:
        path = next((path for split in splits for path in split.files or () if not _is_image(path)), None)
        if path is None:
            raise
        raise ValueError(f"data expected an image file (JPEG, PNG, ...), received {path!r}.") from error


def _is_image(path) -> bool:
    try:
        decode(tf.io.read_file(path))
    except tf.errors.OpError:
        return False
    return True
