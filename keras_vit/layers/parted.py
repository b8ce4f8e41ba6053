"""Attention and MLPs by smaller products, for OpenVINO and weights that are constants (benchmarks/NOTES.md: the gains).

Query, key and value have a product each, since OpenVINO copies what one product is cut into; the queries' scale is part
of their kernel. An MLP's hidden numbers come in parts, so that a part's kernels and numbers are still in a core's cache
when the second product takes them. Each product has a bias: TensorFlow's oneDNN lays out the constants of no others.

B batch, N tokens, D width, M MLP width, h heads, d = D / h.
"""

import contextlib
from functools import partial

import keras
from keras import ops

from keras_vit.layers.base import like, rows
from keras_vit.layers.encoder import MultiHeadSelfAttention
from keras_vit.layers.mlp import MLPBlock

NUMBERS = 600_000  # of a part's kernel at most: 1.2 MB in bfloat16, where a core's cache has 1 or 2
TILE, NARROWEST = 64, 256  # what a part's width is a multiple of, and its least


@contextlib.contextmanager
def parted_products(model: keras.Model):
    """Have a model compute so inside the `with`, but attention with relative positions and MLPs with a convolution."""
    forms = []
    for layer in model._flatten_layers():
        if isinstance(layer, MultiHeadSelfAttention) and not layer.relative_positions:
            forms.append((layer, _attention, layer.parted_form))
        elif isinstance(layer, MLPBlock) and not layer.kernel_size:
            forms.append((layer, _mlp, layer.parted_form))
    for layer, form, _ in forms:
        layer.parted_form = partial(form, layer)
    try:
        yield
    finally:
        for layer, _, before in forms:
            layer.parted_form = before


def parts_of(width: int, mlp_dim: int) -> int:
    """The fewest equal parts of an MLP with kernels of `NUMBERS` at most, `NARROWEST` or wider; 1 if none are."""
    counts = (n for n in range(1, mlp_dim // NARROWEST + 1) if mlp_dim % (n * TILE) == 0)
    return next((n for n in counts if width * mlp_dim <= n * NUMBERS), 1)


def _attention(layer: MultiHeadSelfAttention, tokens):
    """(B, N, D) -> (B, N, D)."""
    count, width = ops.shape(tokens)[1:]
    heads, size = layer.num_heads, width // layer.num_heads
    kernels, biases = (ops.split(ops.convert_to_tensor(x), 3, axis=-1) for x in (layer.qkv.kernel, layer.qkv.bias))

    def projected(third, axes=(0, 2, 1, 3), scale=1.0):
        """By default (B, h, N, d)."""
        flat = ops.add(ops.matmul(rows(tokens), kernels[third] * scale), biases[third] * scale)
        return ops.transpose(ops.reshape(flat, (-1, count, heads, size)), axes)

    logits = ops.matmul(projected(0, scale=size**-0.5), projected(1, axes=(0, 2, 3, 1)))
    gathered = ops.transpose(ops.matmul(ops.softmax(logits, axis=-1), projected(2)), (0, 2, 1, 3))
    return like(layer.out(ops.reshape(gathered, (-1, width))), tokens)


def _mlp(layer: MLPBlock, tokens):
    """(B, N, D) -> (B, N, D)."""
    parts, flat = parts_of(tokens.shape[-1], layer.mlp_dim), rows(tokens)
    split = lambda x, axis: ops.split(ops.convert_to_tensor(x), parts, axis=axis)  # noqa: E731
    ends = zip(split(layer.fc1.kernel, 1), split(layer.fc1.bias, 0), split(layer.fc2.kernel, 0), strict=True)
    hidden = [(layer.activate(ops.add(ops.matmul(flat, kernel), bias)), back) for kernel, bias, back in ends]
    share = layer.fc2.bias / parts
    products = [ops.add(ops.matmul(part, back), share) for part, back in hidden]
    return like(sum(products[1:], products[0]), tokens)
