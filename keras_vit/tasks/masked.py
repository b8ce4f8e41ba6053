"""Masked patch prediction: its targets, inputs and losses (appendix B.1.2 of arXiv 2010.11929).

B batch, H W C image, P patch height or width, N patches, K of them corrupted.
"""

import keras
import tensorflow as tf

from keras_vit.data.corrupt import corruption
from keras_vit.data.settings import BATCHES_AT_ONCE
from keras_vit.layers.embedding import extract_patches
from keras_vit.models.masked import build_masked, encoder_of
from keras_vit.models.token_layout import token_layout
from keras_vit.train.recipe.masked import LEVELS, patches_of

_TRAINING, _EVALUATION = 6, 7  # purposes of seeds; data/pipeline.py has the others
PARTS = 4  # parts along a side of a patch, for the target `colours`


class MaskedPatches:
    """Predict the content of corrupted patches: the task of a recipe with `masked`.

    The targets of a batch are the corruption, int32 (B, N + K), as drawn by `keras_vit.data.corrupt`.
    """

    def __init__(self, recipe, input_shape: tuple[int, int, int]):
        self._recipe, self._masked = recipe, recipe.masked
        (down, across), self._patch = patches_of(recipe.model, input_shape)
        self._shape = input_shape
        self.patch_count = down * across
        self.count = self._masked.count(self.patch_count)

    def corrupt(self, epoch, index):
        """Return the targets of training examples: epoch () or (B,) and index (B,) -> (B, N + K)."""
        epoch = tf.reshape(tf.cast(epoch, tf.int64), (-1, 1))
        return self._draw(index, _TRAINING, epoch)

    def _draw(self, index, *numbers):
        masked = self._masked
        plan = corruption(index, self.patch_count, self.count, masked.mask, masked.swap, self._recipe.seed, *numbers)
        return tf.ensure_shape(plan, (None, self.patch_count + self.count))

    def evaluation(self, batches, shard: tuple[int, int] = (0, 1)):
        """Replace the labels in batches of (images, labels, weights) by a fixed corruption."""
        size, (worker, workers) = self._recipe.data.batch_size, shard
        own = worker * size // workers + tf.range(size // workers, dtype=tf.int64)

        def corrupted(number, batch):
            images, _, weights = batch
            return images, self._draw(number * size + own, _EVALUATION), weights

        return batches.enumerate().map(corrupted, BATCHES_AT_ONCE)

    def inputs(self, images, targets) -> tuple:
        """Return the model's inputs: images, sources (B, N), places (B, K)."""
        return images, targets[:, : self.patch_count], targets[:, self.patch_count :]

    def losses(self, outputs, images, targets):
        """Return each example's mean loss over its corrupted patches: (B, K, units) -> (B,)."""
        return self._losses_and_accuracies(outputs, images, targets)[0]

    def _losses_and_accuracies(self, outputs, images, targets):
        """Return losses and accuracies of each example, (B,) both."""
        kind, channels = self._masked.target, self._shape[2]
        expected = tf.gather(self.patch_targets(images), targets[:, self.patch_count :], batch_dims=1)  # (B, K, ...)
        outputs = tf.cast(outputs, tf.float32)
        if kind == "pixels":
            losses = tf.reduce_mean((outputs - expected) ** 2, axis=(1, 2))
            return losses, tf.zeros_like(losses)
        logits = tf.reshape(outputs, (-1, self.count * expected.shape[2], LEVELS**channels))
        expected = tf.reshape(expected, (-1, logits.shape[1]))
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(expected, logits)
        hits = tf.cast(tf.argmax(logits, axis=-1, output_type=tf.int32) == expected, tf.float32)
        return tf.reduce_mean(losses, axis=1), tf.reduce_mean(hits, axis=1)

    def patch_targets(self, images):
        """Return the target of every patch: classes int32 (B, N, 1) or (B, N, 16), or pixels (B, N, P * P * C)."""
        height, width = self._patch
        values = (images / 255.0) if self._recipe.model.include_preprocessing else (images + 1.0) / 2.0
        patches = extract_patches(values, self._patch)  # (B, h, w, P * P * C)
        if self._masked.target == "pixels":
            return tf.reshape(2.0 * patches - 1.0, (-1, self.patch_count, patches.shape[-1]))
        parts = PARTS if self._masked.target == "colours" else 1
        split = (-1, self.patch_count, parts, height // parts, parts, width // parts, self._shape[2])
        means = tf.reduce_mean(tf.reshape(patches, split), axis=(3, 5))  # (B, N, parts, parts, C)
        levels = tf.clip_by_value(tf.cast(tf.floor(means * LEVELS), tf.int32), 0, LEVELS - 1)
        places = tf.constant([LEVELS**i for i in reversed(range(self._shape[2]))])  # red is the most significant digit
        return tf.reshape(tf.reduce_sum(levels * places, axis=-1), (-1, self.patch_count, parts * parts))

    def sums(self, model: keras.Model):
        """Return a compiled function of a batch that returns sums as `keras_vit.evaluate.accuracy.evaluator` does."""

        @tf.function
        def sums(images, targets, weights):
            outputs = model(list(self.inputs(images, targets)), training=False)
            values = (*self._losses_and_accuracies(outputs, images, targets), tf.ones_like(weights))
            return tf.stack([tf.reduce_sum(value * weights) for value in values])

        return sums

    def features(self, model: keras.Model):
        """Return a compiled function: images -> features of uncorrupted images for a classifier, float32 (B, D)."""
        tokens = keras.Model(model.inputs[:2], model.get_layer("encoder_norm").output)
        layout = token_layout(model)
        own = tf.range(1, self.patch_count + 1)[None]

        @tf.function
        def features(images):
            outputs = tokens([images, tf.repeat(own, tf.shape(images)[0], axis=0)], training=False)
            if layout.class_token is None:
                return tf.cast(tf.reduce_mean(outputs[:, layout.patches], axis=1), tf.float32)
            return tf.cast(outputs[:, layout.class_token], tf.float32)

        return features


def build_masked_model(recipe) -> keras.Model:
    """Return the model that a recipe with `masked` trains."""
    settings = recipe.model
    patch = patches_of(settings, settings.input_shape)[1]
    units = recipe.masked.units(patch, settings.channels)
    return build_masked(settings.row, units, recipe.masked.target, **_options(recipe))


def finished_models(recipe, average: keras.Model) -> dict[str, keras.Model]:
    """Return the models that a run saves, by file name: the encoder, and the whole model."""
    if recipe.masked is None:
        return {"model.keras": average}
    return {"model.keras": encoder_of(average, recipe.model.row, **_options(recipe)), "masked.keras": average}


def _options(recipe) -> dict:
    names = ("input_shape", "pooling", "patch_size", "dropout_rate", "attention_dropout_rate", "drop_path_rate")
    options = {name: getattr(recipe.model, name) for name in (*names, "include_preprocessing")}
    return {**options, "dtype": recipe.precision}
