"""Compute attention and MLPs by smaller matmuls, for OpenVINO and for frozen weights.

Query, key and value have a matmul each, because OpenVINO copies the output of one that is split. The scale of the
queries is part of their kernel. The hidden layer of an MLP is split into parts, so that the kernels and activations of
a part are still in a core's cache for the second matmul. Each matmul has a bias, because TensorFlow's oneDNN prepacks
only kernels of matmuls with a bias.

B batch, N tokens, R flattened tokens, D width, F output width, M MLP width, h heads, d = D / h.
"""

from collections.abc import Callable
from functools import partial

import keras
from keras import ops

from keras_vit.layers.attention import MultiHeadSelfAttention
from keras_vit.layers.base import flatten_tokens, is_plain_dense, unflatten_tokens
from keras_vit.layers.mlp import MLPBlock
from keras_vit.layers.override import Override, override_of
from keras_vit.private import layers_of

MAX_VALUES = 600_000  # values of a part's kernel: 1.2 MB in bfloat16, within a core's cache of 1 or 2 MB
TILE, MIN_WIDTH = 64, 256  # the width of a part is a multiple of the first, and at least the second


def biased_matmul(x, kernel, bias, activation: Callable | None = None):
    """Return activation(x kernel + bias): (R, D), (D, F) and (F,) -> (R, F)."""
    y = ops.add(ops.matmul(x, kernel), bias)
    return y if activation is None else activation(y)


def query_key_scores(query, key):
    """Return the dot products of queries and keys: (B, h, N, d) and (B, N, h, d) -> (B, h, N, N)."""
    return ops.matmul(query, ops.transpose(key, (0, 2, 3, 1)))


def split_overrides(
    model: keras.Model,
    weights: dict | None = None,
    matmul: Callable = biased_matmul,
    scores: Callable = query_key_scores,
) -> list[Override]:
    """Return overrides of attention and MLPs by smaller matmuls, for `split_layers`.

    Args:
        model: the model.
        weights: `split_weights` of the model, or tensors instead; layers that are not in it get no override. If None,
            each call splits the current weights.
        matmul: a function with the signature of `biased_matmul`.
        scores: a function with the signature of `query_key_scores`.
    """
    functions = {_attention: (matmul, scores), _mlp: (matmul,)}
    return [
        Override(layer, "forward", partial(forward, layer, _pairs_of(layer, split, weights), *functions[forward]))
        for layer, split, forward in split_layers(model)
        if weights is None or layer in weights
    ]


def _pairs_of(layer, split, weights):
    return partial(split, layer) if weights is None else partial(weights.get, layer)


def split_weights(model: keras.Model, dtype: str | None = None) -> dict:
    """Return the current weights of `split_layers`: layer -> (kernel, bias) of each matmul, as tensors."""
    return {layer: split(layer) for layer, split, _ in split_layers(model, dtype)}


def split_layers(model: keras.Model, dtype: str | None = None):
    """Yield (layer, function that splits its weights into pairs of kernel and bias, forward function).

    Attention with relative positions or an inner norm, MLPs with a convolution or a gate, subclasses, and layers with
    another dense layer inside are left out.

    Args:
        model: the model.
        dtype: compute dtype of the layers; None for any.
    """
    for layer in layers_of(model):
        if dtype not in (None, layer.compute_dtype):
            continue
        if type(layer) is MultiHeadSelfAttention and not layer.relative_positions:
            functions, parts = (_split_attention, _attention), (layer.qkv, layer.out)
        elif type(layer) is MLPBlock and not layer.kernel_size:
            functions, parts = (_split_mlp, _mlp), (layer.fc1, layer.fc2)
        else:
            continue
        if all(map(is_plain_dense, parts)):
            yield layer, *functions


def mlp_parts(width: int, mlp_dim: int) -> int:
    """Return the fewest equal parts of an MLP whose kernels have at most `MAX_VALUES` values; 1 if none fit."""
    counts = (n for n in range(1, mlp_dim // MIN_WIDTH + 1) if mlp_dim % (n * TILE) == 0)
    return next((n for n in counts if width * mlp_dim <= n * MAX_VALUES), 1)


def _split_attention(layer: MultiHeadSelfAttention) -> list:
    """Return kernel (D, D) and bias (D,) of the query, the key, the value and the output."""
    query, key, value = zip(*(_split(weight, 3, -1) for weight in (layer.qkv.kernel, layer.qkv.bias)), strict=True)
    scale = (query[1].shape[0] // layer.num_heads) ** -0.5
    return _as_computed(layer, [[weight * scale for weight in query], key, value, (layer.out.kernel, layer.out.bias)])


def _split_mlp(layer: MLPBlock) -> list:
    """Return kernel and bias of each part: (D, M / parts) and (M / parts,), then (M / parts, D) and (D,)."""
    parts = mlp_parts(*layer.fc1.kernel.shape)
    first = zip(_split(layer.fc1.kernel, parts, 1), _split(layer.fc1.bias, parts, 0), strict=True)
    share = ops.convert_to_tensor(layer.fc2.bias) / parts
    return _as_computed(layer, [*first, *((kernel, share) for kernel in _split(layer.fc2.kernel, parts, 0))])


def _split(weight, parts, axis):
    return ops.split(ops.convert_to_tensor(weight), parts, axis=axis)


def _as_computed(layer, pairs):
    """Return pairs of weights in the dtype that the layer computes in."""
    return [[ops.cast(ops.convert_to_tensor(weight), layer.compute_dtype) for weight in pair] for pair in pairs]


def _attention(layer: MultiHeadSelfAttention, pairs, matmul, scores, tokens):
    """Compute attention: (B, N, D) -> (B, N, D)."""
    count, width = ops.shape(tokens)[1:]
    flat, (query, key, value, out) = flatten_tokens(tokens), pairs()

    def projected(pair):
        """Return a projection by heads, (B, N, h, d)."""
        return ops.reshape(matmul(flat, *pair), (-1, count, layer.num_heads, width // layer.num_heads))

    by_head = (0, 2, 1, 3)
    logits = scores(ops.transpose(projected(query), by_head), projected(key))
    weights = ops.softmax(logits, axis=-1)
    capture = override_of(layer, "attention_weights")
    weights = capture(weights) if capture else weights
    attended = ops.transpose(ops.matmul(weights, ops.transpose(projected(value), by_head)), by_head)
    return unflatten_tokens(matmul(ops.reshape(attended, (-1, width)), *out), tokens)


def _mlp(layer: MLPBlock, pairs, matmul, tokens):
    """Compute an MLP: (B, N, D) -> (B, N, D)."""
    pairs, flat = pairs(), flatten_tokens(tokens)
    parts = len(pairs) // 2
    hidden = [matmul(flat, *pair, layer.activate) for pair in pairs[:parts]]
    outputs = [matmul(part, *pair) for part, pair in zip(hidden, pairs[parts:], strict=True)]
    return unflatten_tokens(sum(outputs[1:], outputs[0]), tokens)
