"""Two examples made one, images and targets alike; each function of a batch and of the batch of partners.

B batch, H W C image.
"""

import tensorflow as tf

from keras_vit.data.mosaic import BEFORE, mosaic, mosaic_layer


def _beta(p: float, seed):
    """One number of Beta(p, p)."""
    gammas = tf.random.stateless_gamma((2,), seed, alpha=p)
    return gammas[0] / tf.reduce_sum(gammas)


def mixup(images, targets, others, p: float, seed):
    """Blend every example of a batch with its partner (arXiv 1710.09412).

    Args:
        images: float (B, H, W, C).
        targets: (B, classes).
        others: images and targets of the partners.
        p: of Beta(p, p), from which the batch's one share is drawn; the larger part stays the example's own.
        seed: int64 pair.
    """
    share = _beta(p, seed)
    share = tf.maximum(share, 1.0 - share)
    return tuple(share * x + (1.0 - share) * y for x, y in zip((images, targets), others, strict=True))


def cutmix(images, targets, others, p: float, seed):
    """Paste a rectangle of its partner into every example of a batch, the same one in all (arXiv 1905.04899).

    The rectangle has the image's aspect ratio and a centre anywhere; what reaches out is cut off. The targets share
    as the pixels do.

    Args:
        images: float (B, H, W, C).
        targets: (B, classes).
        others: images and targets of the partners.
        p: of Beta(p, p), from which the share is drawn that the example keeps.
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
    """Mixup, or cutmix, or one of the two at even odds where both are asked for.

    Args:
        images: float (B, H, W, C).
        targets: (B, classes).
        others: images and targets of the partners.
        mixup_p: `p` of `mixup`, 0 for none.
        cutmix_p: `p` of `cutmix`, 0 for none.
        seed: int64 pair.
    """
    if not (mixup_p and cutmix_p):
        return (
            mixup(images, targets, others, mixup_p, seed)
            if mixup_p
            else cutmix(images, targets, others, cutmix_p, seed)
        )
    return tf.cond(
        tf.random.stateless_uniform((), seed + 2) < 0.5,
        lambda: mixup(images, targets, others, mixup_p, seed),
        lambda: cutmix(images, targets, others, cutmix_p, seed),
    )


def rows_in_front(augment) -> int:
    """Return with how many rows in front of it in the batch an example is mixed, at most."""
    if augment.mosaic:
        mosaic_layer()  # raises now, and is made outside of any graph
        return BEFORE
    return int(bool(augment.mixup or augment.cutmix))


def in_order(rows, before: int, first: int, more: int):
    """A worker's rows of a batch behind the `before` rows in front of them, where the batch's last rows are in front of
    its first one.

    Args:
        rows: of the worker, by their place in the batch.
        before: how many rows in front are wanted.
        first: place of the worker's own first row.
        more: how many rows in front `rows` has: `before`, or none where it is the whole batch.
    """
    wrapped = max(before - first, 0)
    return tf.concat([rows[-wrapped:], rows[:-wrapped] if more else rows], axis=0) if wrapped else rows


def mix(images, targets, centres, before: int, augment, blend_seed, mosaic_seed):
    """Mosaics or blends of a batch, as its draws say.

    Args:
        images: float (before + B, H, W, C), as `in_order` gives them.
        targets: (before + B, classes).
        centres: (before + B, 2) in [0, 1), of the mosaics.
        before: rows in front.
        augment: a `keras_vit.train.recipe.Augment`.
        blend_seed: int64 pair.
        mosaic_seed: int64 pair.

    Returns:
        Images (B, H, W, C) and targets (B, classes).
    """

    def blended():
        own = images[before:], targets[before:]
        if not (augment.mixup or augment.cutmix):
            return own
        others = images[before - 1 : -1], targets[before - 1 : -1]
        return blend(*own, others, augment.mixup, augment.cutmix, blend_seed)

    if not augment.mosaic:
        return blended()
    draw = tf.random.stateless_uniform((), mosaic_seed)
    return tf.cond(draw < augment.mosaic, lambda: mosaic(images, targets, centres), blended)
