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

    Args:
        images: float (B, H, W, C).
        targets: (B, K).
        others: images and targets of the partners.
        p: parameter of Beta(p, p), from which the weight of the whole batch is drawn. The larger weight is the
            example's own.
        seed: int64 pair.
    """
    weight = _beta(p, seed)
    weight = tf.maximum(weight, 1.0 - weight)
    return tuple(weight * x + (1.0 - weight) * y for x, y in zip((images, targets), others, strict=True))


def cutmix(images, targets, others, p: float, seed):
    """Paste a rectangle of its partner into every example of a batch (arXiv 1905.04899).

    All examples have the same rectangle. It has the image's aspect ratio and a uniformly drawn centre, and is clipped
    to the image. The targets are weighted by the areas.

    Args:
        images: float (B, H, W, C).
        targets: (B, K).
        others: images and targets of the partners.
        p: parameter of Beta(p, p), from which the example's own share of the area is drawn.
        seed: int64 pair.
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
    """Apply mixup or CutMix, or one of the two with equal probability if both are set.

    Args:
        images: float (B, H, W, C).
        targets: (B, K).
        others: images and targets of the partners.
        mixup_p: `p` of `mixup`; 0 for none.
        cutmix_p: `p` of `cutmix`; 0 for none.
        seed: int64 pair.
    """
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
    """Put the partners of a worker's first examples in front of the examples.

    The partners of the batch's first example are the last examples of the batch.

    Args:
        values: of the worker's examples, by their position in the batch.
        partners: number of partners.
        first: position in the batch of the worker's first own example.
        extra: number of partners that `values` contains: `partners`, or 0 for the whole batch.
    """
    wrapped = max(partners - first, 0)
    return tf.concat([values[-wrapped:], values[:-wrapped] if extra else values], axis=0) if wrapped else values


def mix(images, targets, centres, partners: int, augment, blend_seed, mosaic_seed):
    """Apply a mosaic, or mixup or CutMix, to a batch.

    Args:
        images: float (partners + B, H, W, C), from `wrap_batch`.
        targets: (partners + B, K).
        centres: (partners + B, 2) in [0, 1), of the mosaics.
        partners: number of examples in front.
        augment: a `keras_vit.train.recipe.Augment`.
        blend_seed: int64 pair.
        mosaic_seed: int64 pair.

    Returns:
        Images (B, H, W, C) and targets (B, K).
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
