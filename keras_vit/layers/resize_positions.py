"""Resize a position embedding inside the graph, for models whose image size is free at run time.

h w patch grid, D width.
"""

from keras import ops


def interpolation(new, old: int, dtype):
    """Return the matrix (new, old) of corner-aligned linear interpolation."""
    step = (old - 1) / ops.maximum(ops.cast(new, "float32") - 1, 1)
    source = ops.minimum(ops.cast(ops.arange(new), "float32") * step, old - 1)
    distance = ops.abs(source[:, None] - ops.arange(old, dtype="float32")[None, :])
    return ops.cast(ops.maximum(1 - distance, 0), dtype)


def resized_positions(embedding, prefix_tokens: int, old, new):
    """Resize the embedding of the patches from one grid to another: (1, prefix_tokens + h * w, D) of the new grid."""
    prefix, body = embedding[:, :prefix_tokens], embedding[:, prefix_tokens:]
    (old_h, old_w), (h, w), width = old, new, body.shape[-1]
    body = ops.matmul(interpolation(h, old_h, body.dtype), ops.reshape(body, (old_h, old_w * width)))
    body = ops.transpose(ops.reshape(body, (h, old_w, width)), (1, 0, 2))  # (old_w, h, D)
    body = ops.matmul(interpolation(w, old_w, body.dtype), ops.reshape(body, (old_w, h * width)))
    body = ops.transpose(ops.reshape(body, (w, h, width)), (1, 0, 2))  # (h, w, D)
    return ops.concatenate([prefix, ops.reshape(body, (1, h * w, width))], axis=1)
