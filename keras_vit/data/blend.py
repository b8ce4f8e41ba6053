"""Mixup, CutMix and mosaics: mix the examples of a batch with those in front of them.

B batch, H W C image, K classes.
"""

import tensorflow as tf

from keras_vit.data.mosaic import PARTNERS, mosaic, mosaic_layer


def _beta(p: float, seed):
    """Draw one value of Beta(p, p)."""
    gammas = tf.random.stateless_gamma((2,), seed, alpha=p)
    return gammas[0] / tf.reduce_sum(gammas)


def mixup(images, targets, others, p: float, seed):
    """Blend every example of a batch with its partner (arXiv 1710.09412).

    One weight of Beta(p, p) is drawn for the whole batch. The larger weight is the example's own.
    """
    weight = _beta(p, seed)
    weight = tf.maximum(weight, 1.0 - weight)
    return tuple(weight * x + (1.0 - weight) * y for x, y in zip((images, targets), others, strict=True))


def cutmix(images, targets, others, p: float, seed):
    """Paste a rectangle of its partner into every example of a batch (arXiv 1905.04899).

    All examples have the same rectangle. It has the image's aspect ratio and a uniformly drawn centre, and is clipped
    to the image. Beta(p, p) draws the example's own share of the area. The targets are weighted by the areas.
    """
    height, width = images.shape[1:3]
    sides = tf.constant([height, width], tf.float32)
    half = tf.cast(sides * tf.sqrt(1.0 - _beta(p, seed)), tf.int32) // 2
    centre = tf.cast(tf.random.stateless_uniform((2,), seed + 1) * sides, tf.int32)
    begin, end = tf.maximum(centre - half, 0), tf.minimum(centre + half, [height, width])
    down, across = tf.range(height)[:, None, None], tf.range(width)[None, :, None]
    inside = (down >= begin[0]) & (down < end[0]) & (across >= begin[1]) & (across < end[1])
    pasted = tf.cast(tf.reduce_prod(end - begin), tf.float32) / (height * width)
    return tf.where(inside, others[0], images), (1.0 - pasted) * targets + pasted * others[1]


def blend(images, targets, others, mixup_p: float, cutmix_p: float, seed):
    """Apply mixup or CutMix, or one of the two with equal probability if both have p > 0."""
    by_mixup = lambda: mixup(images, targets, others, mixup_p, seed)  # noqa: E731
    by_cutmix = lambda: cutmix(images, targets, others, cutmix_p, seed)  # noqa: E731
    if mixup_p and cutmix_p:
        return tf.cond(tf.random.stateless_uniform((), seed + 2) < 0.5, by_mixup, by_cutmix)
    return by_mixup() if mixup_p else by_cutmix()


def partner_count(augment) -> int:
    """Return the number of examples in front of an example with which it can be mixed."""
    if augment.mosaic:
        mosaic_layer()  # raises now, and is made outside of any graph
        return PARTNERS
    return int(bool(augment.mixup or augment.cutmix))


def wrap_batch(values, partners: int, first: int, extra: int):
    """Put the partners of a worker's first examples in front of its examples.

    The partners of the batch's first example are the last examples of the batch. `first` is the position in the batch
    of the worker's first example; `values` contain `extra` examples in front of it: the partners, or 0 for the whole
    batch.
    """
    wrapped = max(partners - first, 0)
    return tf.concat([values[-wrapped:], values[:-wrapped] if extra else values], axis=0) if wrapped else values


def mix(images, targets, centres, partners: int, augment, blend_seed, mosaic_seed):
    """Apply a mosaic, or mixup or CutMix, to a batch, and return images (B, H, W, C) and targets (B, K).

    Images (partners + B, H, W, C), targets (partners + B, K) and centres (partners + B, 2) come from `wrap_batch`.
    """

    def blended():
        own = images[partners:], targets[partners:]
        if not (augment.mixup or augment.cutmix):
            return own
        others = images[partners - 1 : -1], targets[partners - 1 : -1]
        return blend(*own, others, augment.mixup, augment.cutmix, blend_seed)

    if not augment.mosaic:
        return blended()
    draw = tf.random.stateless_uniform((), mosaic_seed)
    return tf.cond(draw < augment.mosaic, lambda: mosaic(images, targets, centres), blended)
