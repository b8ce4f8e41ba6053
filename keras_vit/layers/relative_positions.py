"""Relative positions in the logits of attention (appendix D.4).

B batch, N tokens, D width, h heads, d = D / h.
"""

import keras
from keras import ops


def add_offsets(attention, input_shape):
    """Add the learned embeddings of all offsets to an attention: (2 N - 1, D).

    Row j is the embedding of a key that is j - (N - 1) tokens after the query.
    """
    if input_shape[1] is None:
        raise ValueError(f"{attention.name} expected a known number of tokens with relative positions, received "
                         f"shape {tuple(input_shape)}.")  # fmt: skip
    shape = (2 * input_shape[1] - 1, input_shape[-1])
    return attention.add_weight(name="offsets", shape=shape, initializer=keras.initializers.RandomNormal(stddev=0.02))


def relative_logits(attention, query):
    """Return the dot products of the queries with the embeddings of the offsets: (B, h, N, d) -> (B, h, N, N)."""
    tokens = attention.offsets.shape[0] // 2 + 1
    if query.shape[2] not in (tokens, None):
        raise ValueError(f"{attention.name} expected the {tokens} tokens that its relative positions are stored for, "
                         f"received {query.shape[2]}.")  # fmt: skip
    offsets = ops.reshape(attention.offsets, (2 * tokens - 1, attention.num_heads, query.shape[3]))
    offsets = ops.cast(ops.transpose(offsets, (1, 2, 0)), query.dtype)  # (h, d, 2 N - 1)
    return relative_shift(ops.matmul(query, offsets[None]), tokens)


def relative_shift(logits, tokens: int):
    """Shift relative-position logits to absolute key positions: (B, h, N, 2 N - 1) -> (B, h, N, N).

    out[q, k] = in[q, k - q + N - 1] (Music Transformer, arXiv 1809.04281). One value is added to each row, so that
    after the reshape each row starts one place further to the left.
    """
    heads, none = logits.shape[1], [0, 0]
    flat = ops.reshape(ops.pad(logits, [none, none, none, [0, 1]]), (-1, heads, 2 * tokens * tokens))
    flat = ops.pad(flat, [none, none, [0, tokens - 1]])
    return ops.reshape(flat, (-1, heads, tokens + 1, 2 * tokens - 1))[:, :, :tokens, tokens - 1 :]
