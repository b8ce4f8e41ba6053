"""Which patches are hidden from the encoder, and what comes in their place (appendix B.1.2 of arXiv 2010.11929).

B batch, N patches, K of them corrupted.
"""

import tensorflow as tf

from keras_vit.data.seeds import uniform

_ORDER, _KIND, _OTHER = range(3)  # what a number is drawn for


def corruption(index, cells: int, count: int, masked: float, swapped: float, *numbers):
    """Draw the corruption of examples; each hangs on (`numbers`, example, patch) alone.

    Args:
        index: (B,) numbers of the examples.
        cells: N.
        count: K.
        masked: probability that a corrupted patch gives way to the mask token.
        swapped: that it gives way to another patch of its image; otherwise it stays as it is.
        numbers: that the random numbers hang on as well: the seed, what the examples are for, and the epoch.

    Returns:
        int32 (B, N + K): what comes to each place (0 the mask token, i patch i - 1), then the corrupted places.
    """
    cell = tf.range(cells, dtype=tf.int64)[None]
    draw = lambda slot: uniform(slot, *numbers, index[:, None], cell)  # noqa: E731  (B, N)
    order = tf.argsort(draw(_ORDER), axis=-1, stable=True)
    places = tf.sort(order[:, :count], axis=-1)
    corrupted = tf.reduce_any(places[:, :, None] == tf.range(cells), axis=1)  # (B, N)
    kind = draw(_KIND)
    step = 1 + tf.cast(draw(_OTHER) * (cells - 1), tf.int64)  # to one of the others, at even odds
    own, other = tf.broadcast_to(cell, tf.shape(kind)) + 1, (cell + step) % cells + 1
    kept = tf.where(kind < masked + swapped, other, own)
    sources = tf.where(corrupted, tf.where(kind < masked, tf.zeros_like(own), kept), own)
    return tf.concat([tf.cast(sources, tf.int32), tf.cast(places, tf.int32)], axis=1)
