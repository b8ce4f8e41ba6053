"""Attention whose only query is the class token.

B batch, N tokens, D width, h heads, d = D / h.
"""

import numpy as np
from keras import ops

from keras_vit.layers.base import flatten_tokens


def attend_from_class_token(attention, tokens, training=False):
    """Attend from the class token to all tokens without computing keys and values: (B, N, D) -> (B, D).

    The query is multiplied by the key kernel, q (K x) = (q K) x, and the weighted mean of the tokens by the value
    kernel, sum of w (V x) = V (sum of w x). This takes fewer operations where there are more tokens than heads. The
    bias of the keys is left out, because softmax cancels a value that is added to all logits of a query.

    Args:
        attention: the `MultiHeadSelfAttention` of the block.
        tokens: the normalised input of the attention.
        training: whether attention dropout applies.
    """
    width, heads = tokens.shape[-1], attention.num_heads
    size = width // heads
    kernel, bias = (ops.convert_to_tensor(x) for x in (attention.qkv.kernel, attention.qkv.bias))
    of_head = np.repeat(np.eye(heads), size, axis=1)  # (h, D), 1 at the channels of a head
    of_head = ops.convert_to_tensor(of_head, dtype=kernel.dtype)
    query = ops.matmul(tokens[:, 0], kernel[:, :width]) + bias[:width]
    query = ops.reshape(query[:, None] * (of_head * size**-0.5), (-1, width))  # (B * h, D)
    query = ops.matmul(query, ops.transpose(kernel[:, width : 2 * width]))
    logits = ops.matmul(ops.reshape(query, (-1, heads, width)), ops.transpose(tokens, (0, 2, 1)))
    weights = attention.attention_dropout(ops.softmax(logits, axis=-1), training=training)  # (B, h, N)
    gathered = ops.matmul(ops.reshape(ops.matmul(weights, tokens), (-1, width)), kernel[:, 2 * width :])
    values = ops.reshape(gathered, (-1, heads, width)) + ops.sum(weights, axis=-1, keepdims=True) * bias[2 * width :]
    return ops.sum(values * of_head, axis=1)


def attend_from_unrotated_token(attention, tokens, grid, training=False):
    """Attend from the class token to all tokens in an attention with options: (B, N, D) -> (B, D).

    Only the query of the class token is computed, which is not rotated. Rotated keys depend on their place, so the keys
    and values of all tokens are computed.

    Args:
        attention: the `AttentionWithOptions` of the block.
        tokens: the normalised input of the attention.
        grid: (height, width) in patches, for rotated keys; None for the grid of the layer.
        training: whether attention dropout applies.
    """
    width, heads = tokens.shape[-1], attention.num_heads
    kernel, bias = ops.convert_to_tensor(attention.qkv.kernel), attention.all_biases()
    query = ops.matmul(tokens[:, 0], kernel[:, :width])
    both = ops.matmul(flatten_tokens(tokens), kernel[:, width:])
    if bias is not None:
        query, both = query + bias[:width], both + bias[width:]
    query = ops.reshape(query, (-1, 1, heads, width // heads))
    both = ops.reshape(both, (-1, ops.shape(tokens)[1], 2, heads, width // heads))
    key, value = ops.unstack(both, 2, axis=2)  # each (B, N, h, d)
    if attention.qk_norm:
        query, key = attention.query_norm(query), attention.key_norm(key)
    if attention.rope:
        (key,) = attention.rotated([key], grid, training)
    query = ops.transpose(query, (0, 2, 1, 3)) * (width // heads) ** -0.5
    logits = ops.matmul(query, ops.transpose(key, (0, 2, 3, 1)))
    weights = attention.attention_dropout(ops.softmax(logits, axis=-1), training=training)  # (B, h, 1, N)
    return ops.reshape(ops.matmul(weights, ops.transpose(value, (0, 2, 1, 3))), (-1, width))
