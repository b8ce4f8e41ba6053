"""Compose four images to one by keras-cv's `Mosaic`, as a function of our own draws.

B batch, H W C image, K classes.
"""

import functools

import tensorflow as tf

PARTNERS = 3  # the examples in front of an example in the batch
_CENTRE = (0.25, 0.75)  # range of the corner where the images meet, as a fraction of the side: keras-cv's default


@functools.cache
def mosaic_layer():
    """Return keras-cv's layer, or raise an ImportError that names the extra to install."""
    try:
        import keras_cv
    except ImportError:
        raise ImportError(
            "augment.mosaic expected the package keras-cv, found none: pip install 'keras-vit-zoo[recipes]'."
        ) from None
    return keras_cv.layers.Mosaic(dtype="float32")


def mosaic(images, targets, centres):
    """Compose each image with the three in front of it, and weight the targets by the areas.

    Images (3 + B, H, W, C) -> (B, H, W, C), targets (3 + B, K) -> (B, K). The four images meet at `centres` (3 + B, 2)
    in [0, 1), x and y.
    """
    order = tf.range(images.shape[0])[:, None] - tf.range(PARTNERS + 1)
    low, high = _CENTRE
    transformations = {
        "permutation_order": tf.maximum(order, 0),
        "mosaic_centers": low + (high - low) * centres,
    }
    layer = mosaic_layer()
    mixed = layer.augment_images(images, transformations)
    shares = layer.augment_labels(targets, transformations, images=images)
    return mixed[PARTNERS:], shares[PARTNERS:]
