"""The batches of a training run: read, crop, augment, scale and mix.

B batch, K classes, H W C image.
"""

import functools
from dataclasses import dataclass

import tensorflow as tf

from keras_vit.data import augment as change
from keras_vit.data.augmentations import Augment, operations
from keras_vit.data.blend import mix, partner_count, wrap_batch
from keras_vit.data.decode import decode, decode_crop, fitted, shortened
from keras_vit.data.examples import Examples
from keras_vit.data.seeds import seed_pair, uniform
from keras_vit.data.settings import BATCHES_AHEAD, BATCHES_AT_ONCE, untuned
from keras_vit.preprocessing.image_spec import PLAIN_SCALING, ImageSpec

# Purposes of seeds. 4 and 5 are in data/augmentations.py, 6 and 7 in tasks/masked.py.
_SHUFFLE, _CROP, _BLEND, _WINDOW, _MOSAIC = 0, 1, 2, 3, 8
_UNLIMITED = 2**62


@dataclass(frozen=True)
class _Part:
    """A worker's part of every batch: `own` examples from position `first`, and `extra` ones in front of them.

    `partners` is the number of examples in front with which an example can be mixed.
    """

    batch_size: int
    first: int
    own: int
    partners: int
    extra: int

    @property
    def count(self) -> int:
        return self.own + self.extra

    def contains(self, position, example):
        """Return whether the worker makes the example at a position of the stream."""
        return (position - self.first + self.extra) % self.batch_size < self.count


def training_batches(
    examples: Examples,
    augment: Augment,
    *,
    batch_size: int,
    input_shape: tuple[int, int, int],
    epochs: int | None,
    seed: int = 0,
    start: int = 0,
    scale: bool = True,
    spec: ImageSpec = PLAIN_SCALING,
    shard: tuple[int, int] = (0, 1),
    multi_hot: bool = False,
    corrupt=None,
) -> tf.data.Dataset:
    """Return all batches of a training run in order: images (B, H, W, C) float32 and targets (B, K) float32.

    The targets are 1 at the class, or the probabilities or values of the examples.

    Order and augmentation depend only on (seed, epoch, example). A run that resumes at batch `start`, also with another
    `input_shape`, sees the examples that the uninterrupted run would have seen.

    Args:
        examples: the training split.
        augment: the augmentation.
        batch_size: number of examples per batch; the rest of an epoch is dropped.
        input_shape: (height, width, channels) of the batches.
        epochs: number of epochs; None for an unlimited number.
        seed: seed of the recipe.
        start: number of batches to skip. A stream of TensorFlow Datasets is read again from the start of the epoch.
        scale: whether to normalise the pixels, as `spec` states.
        spec: the preprocessing of the model.
        shard: (worker, workers): return only that worker's part of every batch, (B / workers, ...), bit-identical to
            the same part of the whole batch. Other examples are not decoded; those of folders and arrays are not read.
            Every worker reads all of a stream of TensorFlow Datasets.
        multi_hot: whether each of several classes of an example has a target of 1, as for a sigmoid, or an equal share,
            as for a softmax.
        corrupt: a function of the epoch () and the indices (B,) that returns other targets than classes.

    Raises:
        ValueError: there are fewer examples than a batch, or a batch cannot be split evenly.
    """
    steps = steps_per_epoch(examples, batch_size)
    _require_crop_fits(augment, input_shape)
    part = _part_of(batch_size, shard, augment)
    prepare = _Preparation(examples, augment, input_shape, seed, steps * batch_size, part)
    dataset = in_training_order(examples, batch_size=batch_size, epochs=epochs, seed=seed, start=start)
    if part.own < batch_size:
        dataset = dataset.filter(part.contains)
    if prepare.per_example:
        dataset = dataset.map(prepare.example, tf.data.AUTOTUNE)
    dataset = dataset.batch(part.count, drop_remainder=True)
    one_batch = functools.partial(prepare.batch, scale=scale, spec=spec, multi_hot=multi_hot, corrupt=corrupt)
    return untuned(dataset.map(one_batch, BATCHES_AT_ONCE).prefetch(BATCHES_AHEAD))


def in_training_order(
    examples: Examples, *, batch_size: int, epochs: int | None, seed: int = 0, start: int = 0
) -> tf.data.Dataset:
    """Return (position in the run, example of `Examples.stream`) of the whole batches of a run, from batch `start` on.

    The arguments are those of `training_batches`.
    """
    steps = steps_per_epoch(examples, batch_size)

    def one_epoch(epoch):
        return examples.stream(seed_pair(seed, epoch, _SHUFFLE)[0]).take(steps * batch_size)

    dataset = tf.data.Dataset.range(start // steps, _UNLIMITED if epochs is None else epochs).flat_map(one_epoch)
    return dataset.skip(start % steps * batch_size).enumerate(start * batch_size)


def _part_of(batch_size: int, shard: tuple[int, int], augment: Augment) -> _Part:
    worker, workers = shard
    own = share_of(batch_size, shard)
    partners = partner_count(augment)
    extra = partners if workers > 1 else 0
    if batch_size < max(own + extra, partners):
        raise ValueError(f"batch_size expected at least {max(own + extra, partners)} with mosaic and {workers} workers,"
                         f" received {batch_size}.")  # fmt: skip
    return _Part(batch_size, worker * own, own, partners, extra)


def _require_crop_fits(augment: Augment, input_shape) -> None:
    if augment.crop == "resize":
        size = augment.crop_resize
        height, width = (size, size) if isinstance(size, int) else size
        if height < input_shape[0] or width < input_shape[1]:
            raise ValueError(f"crop_resize expected at least the images' {input_shape[:2]}, received {size}.")


class _Preparation:
    """Makes the batches of `training_batches`, for epochs of `used` examples."""

    def __init__(self, examples, augment, input_shape, seed: int, used: int, part: _Part):
        self._examples, self._augment, self._shape, self._seed, self._used = examples, augment, input_shape, seed, used
        self._part, self._ops = part, operations(augment)
        only_single = any(op.per == "example" and op.on_batch is None for op in self._ops)
        self.per_example = examples.encoded or examples.multi or augment.crop != "none" or only_single

    def example(self, position, example):
        """Read, crop and augment one example. The result is uint8 after RandAugment."""
        index, image, label = example
        numbers = (self._seed, position // self._used, index)
        ops = [op for op in self._ops if op.per == "example"]
        image = self._cropped_early(image, numbers)
        for op in ops:
            if not op.resized:
                image = op.function(image, self._augment, numbers)
        image = self._at_model_size(image, numbers)
        for op in ops:
            if op.resized:
                image = op.function(image, self._augment, numbers)
        return position, (index, image, one_hot(label, self._examples) if self._examples.multi else label)

    def _cropped_early(self, image, numbers):
        """Decode the image; return its random part for an inception crop, and the whole image for other crops."""
        examples, area = self._examples, self._augment.crop_area
        if examples.read:
            image = examples.read(image)
        if self._augment.crop == "inception":
            seed = seed_pair(*numbers, _CROP)
            if examples.encoded:
                return decode_crop(image, seed, area, examples.exif)
            return change.random_crop(image, seed, area)
        return decode(image, examples.exif) if examples.encoded else tf.ensure_shape(image, examples.shape)

    def _at_model_size(self, image, numbers):
        """Bring the image to the model's size, by a random window for the crops `resize` and `pad`."""
        crop, shape = self._augment.crop, self._shape
        if crop == "resize":
            size = self._augment.crop_resize
            image = shortened(image, size) if isinstance(size, int) else fitted(image, (*size, shape[2]))
            return fitted(change.random_window(image, _window_draws(numbers), shape[:2]), shape)
        image = tf.ensure_shape(fitted(image, shape, quick=crop == "inception"), shape)
        if crop == "pad":
            image = change.padded_window(image, _window_draws(numbers), self._augment.crop_pad)
        return image

    def batch(self, position, example, *, scale: bool, spec: ImageSpec, multi_hot: bool, corrupt):
        """Augment, scale and mix a batch of examples."""
        index, images, label = example
        epoch = position // self._used
        images = self._augmented(images, (self._seed, epoch, index))
        images = spec.normalize(images) if scale else spec.reorder(images)
        if corrupt is not None:
            return images, corrupt(epoch, index)
        targets = self._targets(label, multi_hot)
        if not self._part.partners:
            return images, targets
        return self._mixed(images, targets, position, (self._seed, epoch, index))

    def _augmented(self, images, numbers):
        images = tf.ensure_shape(fitted(images, self._shape), (self._part.count, *self._shape))
        for op in self._ops:
            if op.per == "batch":
                images = op.function(images, self._augment, numbers)
            elif not self.per_example:
                images = op.on_batch(images, self._augment, numbers)
        return images

    def _targets(self, label, multi_hot: bool):
        if self._examples.kind != "classes":
            return label
        if not self._examples.multi:
            return tf.one_hot(label, len(self._examples.labels))
        return label if multi_hot else label / tf.maximum(tf.reduce_sum(label, axis=-1, keepdims=True), 1.0)

    def _mixed(self, images, targets, position, numbers):
        """Mix the examples with those in front of them."""
        part = self._part
        number = position[0] // part.batch_size * part.batch_size
        seeds = [seed_pair(self._seed, number, purpose) for purpose in (_BLEND, _MOSAIC)]
        centres = tf.transpose(uniform(tf.range(5, 7)[:, None], *numbers))
        tensors = (wrap_batch(x, part.partners, part.first, part.extra) for x in (images, targets, centres))
        return mix(*tensors, part.partners, self._augment, *seeds)


def _window_draws(numbers):
    return tf.random.stateless_uniform((2,), seed_pair(*numbers, _WINDOW))


def share_of(batch_size: int, shard: tuple[int, int]) -> int:
    """Return the number of a worker's examples per batch; raise a ValueError if a batch cannot be split evenly."""
    worker, workers = shard
    if not 0 <= worker < workers or batch_size % workers:
        raise ValueError(f"shard expected a worker of a number that divides {batch_size} examples, received {shard}.")
    return batch_size // workers


def one_hot(label, examples: Examples):
    """Convert a class () or several classes (n,) to 1 at each class: (K,)."""
    hot = tf.one_hot(label, len(examples.labels))
    return tf.reduce_max(tf.concat([hot, tf.zeros((1, len(examples.labels)))], axis=0), axis=0)


def steps_per_epoch(examples: Examples, batch_size: int) -> int:
    """Return the number of whole batches in a split; raise a ValueError if there is none."""
    if examples.count < batch_size:
        raise ValueError(f"batch_size expected at most the {examples.count} training examples, received {batch_size}.")
    return examples.count // batch_size
