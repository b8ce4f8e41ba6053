"""Attention and MLPs by smaller products, for OpenVINO and weights that do not change (benchmarks/notes: the gains).

Query, key and value have a product each, since OpenVINO copies what one product is cut into; the queries' scale is part
of their kernel. An MLP's hidden numbers come in parts, so that a part's kernels and numbers are still in a core's cache
when the second product takes them. Each product has a bias: TensorFlow's oneDNN lays out the kernels of no others.

B batch, N tokens, R rows, D width, F width that is put out, M MLP width, h heads, d = D / h.
"""

from collections.abc import Callable
from functools import partial

import keras
from keras import ops

from keras_vit.layers.base import as_made, like, rows, taking_forms
from keras_vit.layers.encoder import MultiHeadSelfAttention
from keras_vit.layers.mlp import MLPBlock
from keras_vit.layers.watching import watch_of
from keras_vit.private import layers_of

NUMBERS = 600_000  # of a part's kernel at most: 1.2 MB in bfloat16, where a core's cache has 1 or 2
TILE, NARROWEST = 64, 256  # what a part's width is a multiple of, and its least


def biased_product(x, kernel, bias, activation: Callable | None = None):
    """activation(x kernel + bias): (R, D), (D, F) and (F,) -> (R, F)."""
    y = ops.add(ops.matmul(x, kernel), bias)
    return y if activation is None else activation(y)


def products_with_keys(query, key):
    """Each query's products with the keys: (B, h, N, d) and (B, N, h, d) -> (B, h, N, N)."""
    return ops.matmul(query, ops.transpose(key, (0, 2, 3, 1)))


def parted_products(
    model: keras.Model,
    kernels: dict | None = None,
    product: Callable = biased_product,
    scores: Callable = products_with_keys,
    place: Callable | None = None,
):
    """Have a model compute so inside the `with`, but attention with relative positions and MLPs with a convolution.

    Args:
        model: whose layers are told, in this thread alone.
        kernels: `parted_kernels` of it, or tensors in their place, for the layers that are told alone; without them
            each call cuts the weights it finds.
        product: called as `biased_product` is.
        scores: called as `products_with_keys` is.
        place: as of `taking_forms`.
    """
    forms, multiply = [], {_attention: (product, scores), _mlp: (product,)}
    for layer, cut, form in parted_layers(model):
        if kernels is None or layer in kernels:
            pairs = partial(cut, layer) if kernels is None else partial(kernels.get, layer)
            forms.append((layer, partial(form, layer, pairs, *multiply[form])))
    return taking_forms(forms, place)


def parted_kernels(model: keras.Model, dtype: str | None = None) -> dict:
    """Each of `parted_layers`, of one type if any -> kernel and bias of each of its products, as tensors of now."""
    return {layer: cut(layer) for layer, cut, _ in parted_layers(model, dtype)}


def parted_layers(model: keras.Model, dtype: str | None = None):
    """Those that can compute so: (layer, what cuts its weights into pairs of kernel and bias, its form) each.

    Subclasses may compute anything, as may what someone has put in a dense layer's place.

    Args:
        model: whose layers are looked at.
        dtype: that they must compute in, if any.
    """
    for layer in layers_of(model):
        if dtype not in (None, layer.compute_dtype):
            continue
        if type(layer) is MultiHeadSelfAttention and not layer.relative_positions:
            form, parts = (_cut_attention, _attention), (layer.qkv, layer.out)
        elif type(layer) is MLPBlock and not layer.kernel_size:
            form, parts = (_cut_mlp, _mlp), (layer.fc1, layer.fc2)
        else:
            continue
        if all(map(as_made, parts)):
            yield layer, *form


def parts_of(width: int, mlp_dim: int) -> int:
    """The fewest equal parts of an MLP with kernels of `NUMBERS` at most, `NARROWEST` or wider; 1 if none are."""
    counts = (n for n in range(1, mlp_dim // NARROWEST + 1) if mlp_dim % (n * TILE) == 0)
    return next((n for n in counts if width * mlp_dim <= n * NUMBERS), 1)


def _cut_attention(layer: MultiHeadSelfAttention) -> list:
    """Of queries, keys, values and what is put out: (D, D) and (D,) each."""
    query, key, value = zip(*(_split(weight, 3, -1) for weight in (layer.qkv.kernel, layer.qkv.bias)), strict=True)
    scale = (query[1].shape[0] // layer.num_heads) ** -0.5
    return _as_computed(layer, [[weight * scale for weight in query], key, value, (layer.out.kernel, layer.out.bias)])


def _cut_mlp(layer: MLPBlock) -> list:
    """Of the parts of both products: (D, M / parts) and (M / parts,) each, then (M / parts, D) and (D,) each."""
    parts = parts_of(*layer.fc1.kernel.shape)
    ahead = zip(_split(layer.fc1.kernel, parts, 1), _split(layer.fc1.bias, parts, 0), strict=True)
    share = ops.convert_to_tensor(layer.fc2.bias) / parts
    return _as_computed(layer, [*ahead, *((kernel, share) for kernel in _split(layer.fc2.kernel, parts, 0))])


def _split(weight, parts, axis):
    return ops.split(ops.convert_to_tensor(weight), parts, axis=axis)


def _as_computed(layer, pairs):
    """Pairs of weights in the type that the layer computes in."""
    return [[ops.cast(ops.convert_to_tensor(weight), layer.compute_dtype) for weight in pair] for pair in pairs]


def _attention(layer: MultiHeadSelfAttention, pairs, product, scores, tokens):
    """(B, N, D) -> (B, N, D)."""
    count, width = ops.shape(tokens)[1:]
    flat, (query, key, value, out) = rows(tokens), pairs()

    def projected(pair):
        """(B, N, h, d)."""
        return ops.reshape(product(flat, *pair), (-1, count, layer.num_heads, width // layer.num_heads))

    by_head = (0, 2, 1, 3)
    logits = scores(ops.transpose(projected(query), by_head), projected(key))
    weights = ops.softmax(logits, axis=-1)
    watch = watch_of(layer)
    weights = watch(weights) if watch else weights
    gathered = ops.transpose(ops.matmul(weights, ops.transpose(projected(value), by_head)), by_head)
    return like(product(ops.reshape(gathered, (-1, width)), *out), tokens)


def _mlp(layer: MLPBlock, pairs, product, tokens):
    """(B, N, D) -> (B, N, D)."""
    pairs, flat = pairs(), rows(tokens)
    parts = len(pairs) // 2
    hidden = [product(flat, *pair, layer.activate) for pair in pairs[:parts]]
    products = [product(part, *pair) for part, pair in zip(hidden, pairs[parts:], strict=True)]
    return like(sum(products[1:], products[0]), tokens)
