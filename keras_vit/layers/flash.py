"""Attention by the backend's own operation: flash attention (arXiv 2205.14135) where it has that.

B batch, N tokens, h heads, d numbers a head.
"""

import keras
from keras import ops

from keras_vit.layers.base import half_on_jax

# TensorFlow has none.
HAS_FUSED_ATTENTION = keras.backend.backend() != "tensorflow"


def fused_attention(query, key, value, training=False):
    """softmax(q k' / sqrt(d)) v: three times (B, N, h, d) -> (B, N, h, d)."""
    if training and key.shape[1] % 2 and half_on_jax(key) and _on_gpu():
        try:
            return _of_even(query, key, value)
        except (NotImplementedError, RuntimeError):  # an old GPU, or heads that cuDNN has no attention for
            pass
    return ops.dot_product_attention(query, key, value)


def _of_even(query, key, value, implementation="cudnn"):
    """With one token more, which none sees: of an odd number JAX has cuDNN's forward pass, but refuses its gradient.

    The one place of this room that knows a backend: Keras's operation takes no lengths, and with a mask it is slower
    (benchmarks/NOTES.md).
    """
    import jax

    tokens = key.shape[1]
    query, key, value = (ops.pad(x, [[0, 0], [0, 1], [0, 0], [0, 0]]) for x in (query, key, value))
    lengths = ops.full((key.shape[0],), tokens, dtype="int32")
    attended = jax.nn.dot_product_attention(
        query, key, value, key_value_seq_lengths=lengths, implementation=implementation
    )
    return attended[:, :tokens]


def _on_gpu() -> bool:
    return keras.distribution.list_devices()[0].startswith("gpu")
