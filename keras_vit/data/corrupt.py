"""Draw the hidden patches of masked patch prediction and their replacements (appendix B.1.2 of arXiv 2010.11929).

B batch, N patches, K of them corrupted.
"""

import tensorflow as tf

from keras_vit.data.seeds import uniform

_ORDER, _KIND, _OTHER = range(3)  # purposes of the random values


def corruption(index, cells: int, count: int, masked: float, swapped: float, *numbers):
    """Draw the corruption of examples as a function of integers, the example and the patch.

    Args:
        index: indices of the examples (B,).
        cells: number of patches N.
        count: number of corrupted patches K.
        masked: probability that the mask token replaces a corrupted patch.
        swapped: probability that another patch of the image replaces a corrupted patch. Otherwise the patch stays.
        numbers: the seed, the purpose and the epoch.

    Returns:
        int32 (B, N + K): the source of each position (0 for the mask token, i for patch i - 1), then the corrupted
        positions.
    """
    cell = tf.range(cells, dtype=tf.int64)[None]
    draw = lambda slot: uniform(slot, *numbers, index[:, None], cell)  # noqa: E731  (B, N)
    order = tf.argsort(draw(_ORDER), axis=-1, stable=True)
    places = tf.sort(order[:, :count], axis=-1)
    corrupted = tf.reduce_any(places[:, :, None] == tf.range(cells), axis=1)  # (B, N)
    kind = draw(_KIND)
    step = 1 + tf.cast(draw(_OTHER) * (cells - 1), tf.int64)  # uniform over the other patches
    own, other = tf.broadcast_to(cell, tf.shape(kind)) + 1, (cell + step) % cells + 1
    unmasked = tf.where(kind < masked + swapped, other, own)
    sources = tf.where(corrupted, tf.where(kind < masked, tf.zeros_like(own), unmasked), own)
    return tf.concat([tf.cast(sources, tf.int32), tf.cast(places, tf.int32)], axis=1)
