"""Attention by the backend's fused operation: flash attention (arXiv 2205.14135) if the backend has it.

B batch, N tokens, h heads, d width of a head.
"""

import functools

import keras
from keras import ops


def fused_attention(query, key, value):
    """Return softmax(q k' / sqrt(d)) v: three times (B, N, h, d) -> (B, N, h, d)."""
    if keras.backend.backend() == "jax" and key.dtype != "float32" and key.shape[1] % 2 and _on_gpu():
        return _odd_length_attention()(query, key, value)
    return ops.dot_product_attention(query, key, value)


@functools.cache
def _odd_length_attention():
    """Return an attention function for odd sequence lengths, whose gradient pads the sequence.

    On JAX, cuDNN computes attention for odd lengths but has no gradient for it. Keras's operation would save the
    attention weights for the gradient.
    """
    import jax

    attend = jax.custom_vjp(lambda query, key, value: ops.dot_product_attention(query, key, value))

    def forward(*qkv):
        try:
            return jax.vjp(_padded_attention, *qkv)
        except (NotImplementedError, RuntimeError):  # an old GPU, or a head size that cuDNN does not support
            return jax.vjp(functools.partial(jax.nn.dot_product_attention, implementation="xla"), *qkv)

    attend.defvjp(forward, lambda backward, upstream: backward(upstream))
    return attend


def _padded_attention(query, key, value, implementation="cudnn"):
    """Attend with one padding token. Keras's operation takes no sequence lengths, and is slower with a mask."""
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
