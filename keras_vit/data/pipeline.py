"""Examples -> batches that a model takes.

B batch, K classes, H W C image.
"""

import numpy as np
import tensorflow as tf

from keras_vit.data import augment as change
from keras_vit.data.augmentations import operations
from keras_vit.data.blend import in_order, mix, rows_in_front
from keras_vit.data.broken import naming_broken_files
from keras_vit.data.decode import decode, decode_crop, fitted, middle, shortened
from keras_vit.data.examples import Examples
from keras_vit.data.settings import BATCHES_AHEAD, BATCHES_AT_ONCE, untuned
from keras_vit.data.sources import open_data
from keras_vit.preprocessing.inputs import preprocess_input

# Purposes of seeds. 4 and 5 are in data/augmentations.py, 6 and 7 in tasks/masked.py.
_SHUFFLE, _CROP, _BLEND, _WINDOW, _MOSAIC = 0, 1, 2, 3, 8
_WITHOUT_END = 2**62


def training_batches(
    examples: Examples,
    augment,
    *,
    batch_size: int,
    input_shape: tuple[int, int, int],
    epochs: int | None,
    seed: int = 0,
    start: int = 0,
    scale: bool = True,
    shard: tuple[int, int] = (0, 1),
    multi_hot: bool = False,
    corrupt=None,
) -> tf.data.Dataset:
    """All batches of a training run in order: images (B, H, W, C) float32 and targets (B, K) float32.

    The order of the examples and their augmentation hang on (seed, epoch, example) alone, so that a run that goes
    on at batch `start`, with another `input_shape` too, sees the examples that the uninterrupted one would have
    seen. Each example is cropped and goes through the operations per example; then each batch goes through those per
    batch, is scaled and mixed.

    Args:
        examples: the training split.
        augment: a `keras_vit.train.recipe.Augment`.
        batch_size: examples a batch; what is left of an epoch is dropped.
        input_shape: (height, width, channels) of the batches.
        epochs: times that the examples are gone through; without end where None.
        seed: the recipe's.
        start: batches to leave out. Of a stream of TensorFlow Datasets those of the epoch it lies in are read again.
        scale: whether to scale the pixels to [-1, 1].
        shard: (worker, workers): of every batch only that worker's part is made, (B / workers, ...): the same rows,
            to the bit, as in the whole batch. The other rows are not decoded, and those of folders and arrays not
            read; a stream of TensorFlow Datasets is read whole by every worker.
        multi_hot: whether each of an example's several classes is a target of 1, as a sigmoid takes them, or an equal
            share, as a softmax does.
        corrupt: makes other targets than classes, of the epoch () and the examples' numbers (B,).

    Raises:
        ValueError: there are fewer examples than a batch, or a batch cannot be shared out.
    """
    steps = steps_per_epoch(examples, batch_size)
    used = steps * batch_size  # examples of an epoch
    worker, workers = shard
    own = _share(batch_size, shard)
    if augment.crop == "resize":
        size = augment.crop_resize
        height, width = (size, size) if isinstance(size, int) else size
        if height < input_shape[0] or width < input_shape[1]:
            raise ValueError(f"crop_resize expected at least the images' {input_shape[:2]}, received {size}.")
    first = worker * own  # row of the batch
    before = rows_in_front(augment)
    more = before if workers > 1 else 0  # rows to make in addition to the worker's own
    if batch_size < max(own + more, before):
        raise ValueError(f"batch_size expected at least {max(own + more, before)} with mosaic and {workers} workers, "
                         f"received {batch_size}.")  # fmt: skip

    ops = operations(augment)
    of_one = any(op.per == "example" and op.on_batch is None for op in ops)
    singly = examples.encoded or examples.multi or augment.crop != "none" or of_one

    def one_epoch(epoch):
        return examples.stream(change.seed_pair(seed, epoch, _SHUFFLE)[0]).take(used)

    def is_own(position, example):
        return (position - first + more) % batch_size < own + more

    def one_example(position, example):
        index, image, label = example
        image = _changed(image, examples, augment, ops, input_shape, (seed, position // used, index))
        return position, (index, image, _one_hot(label, examples) if examples.multi else label)

    def one_batch(position, example):
        index, images, label = example
        images = tf.ensure_shape(fitted(images, input_shape), (own + more, *input_shape))
        numbers = (seed, position // used, index)
        for op in ops:
            if op.per == "batch":
                images = op.function(images, augment, numbers)
            elif not singly:
                images = op.on_batch(images, augment, numbers)
        targets = label if examples.multi else tf.one_hot(label, len(examples.labels))
        if examples.multi and not multi_hot:
            targets = targets / tf.maximum(tf.reduce_sum(targets, axis=-1, keepdims=True), 1.0)
        if scale:
            images = preprocess_input(images)
        if corrupt is not None:
            return images, corrupt(position // used, index)
        if not before:
            return images, targets
        number = position[0] // batch_size * batch_size
        seeds = [change.seed_pair(seed, number, purpose) for purpose in (_BLEND, _MOSAIC)]
        centres = tf.transpose(change.uniform(tf.range(5, 7)[:, None], *numbers))
        rows = (in_order(x, before, first, more) for x in (images, targets, centres))
        return mix(*rows, before, augment, *seeds)

    dataset = tf.data.Dataset.range(start // steps, _WITHOUT_END if epochs is None else epochs).flat_map(one_epoch)
    dataset = dataset.skip(start % steps * batch_size).enumerate(start * batch_size)
    if workers > 1:
        dataset = dataset.filter(is_own)
    if singly:
        dataset = dataset.map(one_example, tf.data.AUTOTUNE)
    dataset = dataset.batch(own + more, drop_remainder=True)
    return untuned(dataset.map(one_batch, BATCHES_AT_ONCE).prefetch(BATCHES_AHEAD))


def _share(batch_size: int, shard: tuple[int, int]) -> int:
    """Examples of a batch that are one worker's; raises a ValueError where they cannot be shared out."""
    worker, workers = shard
    if not 0 <= worker < workers or batch_size % workers:
        raise ValueError(f"shard expected a worker of a number that divides {batch_size} examples, received {shard}.")
    return batch_size // workers


def _is_of(position, batch_size: int, shard: tuple[int, int]):
    """Whether an example at this position of the stream is that worker's."""
    return position % batch_size // _share(batch_size, shard) == shard[0]


def _changed(image, examples: Examples, augment, ops, input_shape, numbers):
    """Read an example's image, crop it to `input_shape` and run the operations on it; uint8 after RandAugment.

    Args:
        ops: operations of `augment`.
        numbers: integers that the random values depend on: seed, epoch, example.
    """
    of_one = [op for op in ops if op.per == "example"]
    if examples.read:
        image = examples.read(image)
    if augment.crop == "inception":
        seed = change.seed_pair(*numbers, _CROP)
        if examples.encoded:
            image = decode_crop(image, seed, augment.crop_area, examples.exif)
        else:
            image = change.random_crop(image, seed, augment.crop_area)
    elif examples.encoded:
        image = decode(image, examples.exif)
    else:
        image = tf.ensure_shape(image, examples.shape)
    for op in (op for op in of_one if not op.resized):
        image = op.function(image, augment, numbers)
    if augment.crop == "resize":
        size = augment.crop_resize
        image = shortened(image, size) if isinstance(size, int) else fitted(image, (*size, input_shape[2]))
        draws = tf.random.stateless_uniform((2,), change.seed_pair(*numbers, _WINDOW))
        image = fitted(change.random_window(image, draws, input_shape[:2]), input_shape)
    else:
        image = fitted(image, input_shape, quick=augment.crop == "inception")
        image = tf.ensure_shape(image, input_shape)
    if augment.crop == "pad":
        draws = tf.random.stateless_uniform((2,), change.seed_pair(*numbers, _WINDOW))
        image = change.padded_window(image, draws, augment.crop_pad)
    for op in (op for op in of_one if op.resized):
        image = op.function(image, augment, numbers)
    return image


def _one_hot(label, examples: Examples):
    """Class (), or classes (n,), -> 1 at each of them: (K,)."""
    hot = tf.one_hot(label, len(examples.labels))
    return tf.reduce_max(tf.concat([hot, tf.zeros((1, len(examples.labels)))], axis=0), axis=0)


def evaluation_batches(
    examples: Examples,
    *,
    batch_size: int,
    input_shape: tuple[int, int, int],
    scale: bool = True,
    resize: int | tuple[int, int] | None = None,
    shard: tuple[int, int] = (0, 1),
) -> tf.data.Dataset:
    """Every example once, in order: images (B, H, W, C), labels (B,) and weights (B,), which are 0 where the last
    batch is filled up.

    Where an example has several classes, the labels are (B, K) with 1 at each of them: an answer is right if it is
    one of these. An example of no class has weight 0.

    Args:
        examples: the split.
        batch_size: examples a batch.
        input_shape: (height, width, channels) of the model.
        scale: whether to scale the pixels to [-1, 1].
        resize: pixels that the shorter side, or (height, width) that the image, is brought to before the middle is
            cut out; None squeezes the image.
        shard: (worker, workers): of every batch only that worker's part is made, (B / workers, ...), filled up with
            weights of 0: all workers have as many batches.

    Raises:
        ValueError: `resize` is smaller than the model's size, or a batch cannot be shared out.
    """
    _require_larger(resize, input_shape)
    own = _share(batch_size, shard)

    def one_example(index, image, label):
        return _whole(image, examples, input_shape, resize), _one_hot(label, examples) if examples.multi else label

    def one_batch(images, labels):
        if scale:
            images = preprocess_input(images)
        missing = own - tf.shape(labels)[0]
        fill = lambda x: tf.pad(x, [[0, missing]] + [[0, 0]] * (x.shape.rank - 1))  # noqa: E731
        weights = tf.cast(tf.range(own) < own - missing, tf.float32)
        labels = tf.ensure_shape(fill(labels), (own, *labels.shape[1:]))
        if examples.multi:
            weights *= tf.reduce_max(labels, axis=-1)
        return tf.ensure_shape(fill(images), (own, *input_shape)), labels, weights

    rows = examples.stream()
    if own < batch_size:
        rows = rows.enumerate().filter(lambda position, _: _is_of(position, batch_size, shard)).map(lambda _, row: row)
    dataset = rows.map(one_example, tf.data.AUTOTUNE).batch(own).map(one_batch, BATCHES_AT_ONCE)
    if own < batch_size:  # who has nothing of the last batch
        nothing = tf.nest.map_structure(lambda spec: tf.zeros(spec.shape, spec.dtype), dataset.element_spec)
        dataset = dataset.concatenate(tf.data.Dataset.from_tensors(nothing)).take(-(-examples.count // batch_size))
    return untuned(dataset.prefetch(BATCHES_AHEAD))


def _require_larger(resize, input_shape) -> None:
    least = (resize, resize) if isinstance(resize, int) else resize
    if least and (least[0] < input_shape[0] or least[1] < input_shape[1]):
        raise ValueError(f"resize expected at least the model's {max(input_shape[:2])} pixels, received {resize}.")


def _whole(image, examples: Examples, input_shape, resize):
    """An example's image as evaluation sees it: float32 (H, W, C), 0..255."""
    image = examples.read(image) if examples.read else image
    image = decode(image, examples.exif) if examples.encoded else tf.ensure_shape(image, examples.shape)
    return middle(image, resize, input_shape) if resize else fitted(image, input_shape)


def held_out(
    data, input_shape: tuple[int, int, int], data_dir: str | None = None, limit: int | None = None, left_out=()
):
    """Real examples of the test split as the model's evaluation sees them, before scaling.

    Args:
        data: a `keras_vit.train.recipe.Data`.
        input_shape: (height, width, channels) of the model.
        data_dir: in place of the directory in `data`.
        limit: how many at most; all where None.
        left_out: as in `sources.open_split`.

    Returns:
        Images float32 (N, H, W, C) in 0..255, labels int64 (N,), and the list of the classes' names. Of several
        classes the label is the first; an example of no class is left out.

    Raises:
        ValueError: the data's `resize` is smaller than the model's size, or a data file is broken or gone.
    """
    _require_larger(data.resize, input_shape)
    examples = open_data(data, data.test_split, data_dir, left_out)
    rows = examples.stream()
    if examples.multi:
        rows = rows.filter(lambda index, image, label: tf.size(label) > 0)
        rows = rows.map(lambda index, image, label: (index, image, label[0]))
    rows = rows.take(-1 if limit is None else limit)
    rows = rows.map(lambda index, image, label: (_whole(image, examples, input_shape, data.resize), label), 2)
    with naming_broken_files(examples):
        images, labels = zip(*untuned(rows).as_numpy_iterator(), strict=True)
    return np.stack(images), np.array(labels, "int64"), list(examples.labels)


def steps_per_epoch(examples: Examples, batch_size: int) -> int:
    """Whole batches in a split; raises a ValueError where there is none."""
    if examples.count < batch_size:
        raise ValueError(f"batch_size expected at most the {examples.count} training examples, received {batch_size}.")
    return examples.count // batch_size
