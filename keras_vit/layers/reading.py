"""What the first token alone gathers in attention.

B batch, N tokens, D width, h heads, d = D / h.
"""

import numpy as np
from keras import ops


def gathered_by_first_token(attention, tokens, training=False):
    """The values that the first token alone gathers, without anyone's key or value: (B, N, D) -> (B, D).

    One query is taken through the keys' kernel, and the tokens are gathered as they are and then taken through the
    values' kernel: q (K x) = (q K) x, and the sum of w (V x) is V of the sum of w x. That is less where there are more
    tokens than heads. The keys' bias is left out, as softmax does: it adds the same to all logits of a query.

    Args:
        attention: the `MultiHeadSelfAttention` of the block.
        tokens: normalised, as it takes them.
        training: whether its dropout is at work.
    """
    width, heads = tokens.shape[-1], attention.num_heads
    size = width // heads
    kernel, bias = (ops.convert_to_tensor(x) for x in (attention.qkv.kernel, attention.qkv.bias))
    own = np.repeat(np.eye(heads), size, axis=1)  # (h, D), 1 where a head's numbers lie
    own = ops.convert_to_tensor(own, dtype=kernel.dtype)
    query = ops.matmul(tokens[:, 0], kernel[:, :width]) + bias[:width]
    query = ops.reshape(query[:, None] * (own * size**-0.5), (-1, width))  # (B * h, D)
    query = ops.matmul(query, ops.transpose(kernel[:, width : 2 * width]))
    logits = ops.matmul(ops.reshape(query, (-1, heads, width)), ops.transpose(tokens, (0, 2, 1)))
    weights = attention.attention_dropout(ops.softmax(logits, axis=-1), training=training)  # (B, h, N)
    gathered = ops.matmul(ops.reshape(ops.matmul(weights, tokens), (-1, width)), kernel[:, 2 * width :])
    values = ops.reshape(gathered, (-1, heads, width)) + ops.sum(weights, axis=-1, keepdims=True) * bias[2 * width :]
    return ops.sum(values * own, axis=1)
