"""Four images made one, by keras-cv's `Mosaic`: its layer draws nothing here, each mosaic is a function of its draws.

B batch, H W C image, K classes.
"""

import functools

import tensorflow as tf

BEFORE = 3  # rows in front of an example's own in the batch, which its mosaic is put together with
_CENTRE = (0.25, 0.75)  # of a side, which the images meet at: keras-cv's own default


@functools.cache
def mosaic_layer():
    """Return keras-cv's layer.

    Raises:
        ImportError: keras-cv is missing.
    """
    try:
        import keras_cv
    except ImportError:
        raise ImportError(
            "augment.mosaic expected the package keras-cv, which `pip install keras-vit-zoo[recipes]` brings."
        ) from None
    return keras_cv.layers.Mosaic(dtype="float32")


def mosaic(images, targets, centres):
    """Put each example together with the three in front of it, and its targets by their areas.

    Args:
        images: float (3 + B, H, W, C); the first three are only partners.
        targets: (3 + B, K).
        centres: (3 + B, 2) in [0, 1): where the four meet, across and down.

    Returns:
        Images (B, H, W, C) and targets (B, K).
    """
    rows = tf.range(images.shape[0])[:, None] - tf.range(BEFORE + 1)
    low, high = _CENTRE
    transformations = {
        "permutation_order": tf.maximum(rows, 0),
        "mosaic_centers": low + (high - low) * centres,
    }
    layer = mosaic_layer()
    mixed = layer.augment_images(images, transformations)
    shares = layer.augment_labels(targets, transformations, images=images)
    return mixed[BEFORE:], shares[BEFORE:]
