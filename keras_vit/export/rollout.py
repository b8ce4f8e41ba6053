"""Compute attention rollout inside a graph, with the values of `keras_vit.analysis.rollout_maps`.

B batch, h heads, N tokens, D width, (down, across) patch grid.
"""

from keras import ops

from keras_vit.layers import MeanPooling
from keras_vit.models.token_layout import token_layout


def attention_layers(model) -> list:
    """Return the attention layers of the blocks in order, and the attention pooling if there is one.

    Returns an empty list for a model whose blocks do not attend from every patch to every patch, or whose attention
    weights can be negative.
    """
    layers = {layer.name: layer for layer in model.layers}
    blocks = [layer for name, layer in sorted(layers.items()) if name.startswith("encoder_block_")]
    if not blocks or not all(hasattr(block, "attention_weights") for block in blocks):
        return []
    if any(getattr(block.attention, "differential", None) is not None for block in blocks):
        return []
    if any(getattr(block.attention, "window", 0) for block in blocks):
        return []
    pooling = layers.get("pooling")
    return [block.attention for block in blocks] + [pooling] * hasattr(pooling, "attention_weights")


def rollout(model, weights, grid):
    """Return the attention rollout from the pooled token to the patches: (B, down, across).

    Heads are averaged, and skip connections have half of the weight (Abnar & Zuidema, arXiv 2005.00928; appendix D.8 of
    the ViT paper).

    Args:
        model: the model.
        weights: attention weights of its `attention_layers`, (B, h, N, N); for attention pooling (B, h, 1, N).
        grid: (down, across), ints or scalar tensors.
    """
    layers = {layer.name: layer for layer in model.layers}
    blocks = [name for name in layers if name.startswith("encoder_block_")]
    weights, layout = [ops.cast(weight, "float32") for weight in weights], token_layout(model)
    flow = _start(weights, len(blocks), layers.get("pooling"), layout)  # (B, 1, N)
    for attention in weights[: len(blocks)][::-1]:
        flow = (flow + ops.matmul(flow, ops.mean(attention, axis=1))) / 2
    return ops.reshape(flow[:, 0, layout.patches], (ops.shape(flow)[0], *grid))  # a wrong grid fails here


def _start(weights, depth, pooling, layout):
    """Return the weights with which pooling averages the tokens of the last block: (B, 1, N)."""
    if len(weights) > depth:
        return ops.mean(weights[-1], axis=1)  # attention pooling
    ones = ops.ones_like(weights[-1][:, 0, :1])  # (B, 1, N)
    averaged = layout.class_token is None if pooling is None else isinstance(pooling, MeanPooling)
    if not averaged:
        return ones * ops.one_hot(layout.class_token, ops.shape(ones)[2], dtype="float32")
    count = ops.cast(ops.shape(ones)[2] - layout.prefix_tokens, "float32")
    if not layout.prefix:
        return ones / count
    patches = ones[..., layout.patches] / count  # mean pooling omits the prefix tokens
    return ops.concatenate([0 * ones[..., : layout.prefix_tokens], patches], axis=-1)
