"""Which part of an image speaks for a class: Grad-CAM, and attention times its gradient.

L encoder blocks, B batch, h heads, N tokens, K classes, (down, across) grid, F features.
"""

from collections.abc import Sequence

import keras
import numpy as np
from keras import ops

from keras_vit.analysis.capturing import as_input, attention_layers, capture
from keras_vit.analysis.gradients import gradients
from keras_vit.composed import flattened
from keras_vit.layers import capture_attention
from keras_vit.models.token_layout import token_layout
from keras_vit.private import call_of, output_of


def grad_cam(
    model: keras.Model,
    images,
    classes: int | Sequence[int] | None = None,
    layer: str | None = None,
    batch_size: int = 32,
) -> np.ndarray:
    """Where a feature map speaks for a class (Selvaraju et al., arXiv 1610.02391): (B, down, across), not negative.

    max(0, sum_f a_f M_f): M the feature map, a_f the mean over it of the gradient of the class's logit. In units of
    the logit, a cell's share of it to first order; a map of zeros says that nothing spoke for the class.

    Args:
        model: a model with a classifier.
        images: (B, H, W, C) as the model takes them.
        classes: one class for all images, or one each; the best of each where None.
        layer: whose output to look at, a map or tokens; where None the last map in front of the answer: BiT's `relu`,
            a hybrid's last stage of the stem, and in a plain ViT what its last block is given, for behind that block
            the patches of a `token` head have no more say.
        batch_size: images that go through the model at once.

    Raises:
        ValueError: the model has no classifier or no such layer, a class is none of its, or images do not fit it.
    """
    model = flattened(model)
    images, logits = as_input(model, images), _logits(model)
    features = _features(model, layer)
    grid = [_output(model, "embedding")] if len(features.shape) == 3 else []
    to_features = keras.Model(model.inputs[0], [features, logits, *grid])
    # Blocks with a convolution inside look at the embedded patches, too: so the images stay an input.
    to_logits = keras.Model([model.inputs[0], features], logits)
    chosen = _chosen(classes, images, logits.shape[-1])
    cams = []
    for start in range(0, len(images), batch_size):
        part = ops.convert_to_tensor(images[start : start + batch_size])
        found, scores, *patches = to_features(part, training=False)
        picked = _one_hot(chosen and chosen[start : start + batch_size], scores)
        score = lambda x, part=part, picked=picked: ops.sum(to_logits([part, x], training=False) * picked)  # noqa: E731
        (slope,) = gradients(score, [found])
        found = ops.convert_to_numpy(ops.cast(found, "float32"))
        if found.ndim == 3:
            shape, own = patches[0].shape, token_layout(model, layer).patches
            found, slope = (x[:, own].reshape(*shape[:3], x.shape[-1]) for x in (found, slope))
        cams.append(np.maximum((found * slope.mean(axis=(1, 2), keepdims=True)).sum(axis=-1), 0))
    return np.concatenate(cams)


def gradient_attention(
    model: keras.Model, images, classes: int | Sequence[int] | None = None, batch_size: int = 32
) -> np.ndarray:
    """Attention times its gradient for a class, through all blocks: (B, H, W, C) -> (B, down, across), not negative.

    R_l = R_(l-1) + mean_h max(0, A_l * dy/dA_l) R_(l-1), R_0 = I, y the class's logit (Chefer et al., arXiv
    2103.15679, equations 5 and 6), read where the model's answer is: the class token's row, the mean of the patches'
    rows for `gap` (less its share of R_0, which says nothing), and for `map` what the probe's own max(0, A * dy/dA)
    makes of the rows.

    Args and raises: as `grad_cam`; also a ValueError where the model has no attention.
    """
    model = flattened(model)
    blocks, probes = attention_layers(model)
    images, logits = as_input(model, images), _logits(model)
    forward = keras.Model(model.inputs[0], logits)
    watched = [block.attention for block in blocks] + probes
    chosen = _chosen(classes, images, logits.shape[-1])
    maps = []
    for first in range(0, len(images), batch_size):
        part = images[first : first + batch_size]
        attention = capture(model, part, batch_size)
        weights = list(attention.weights) + ([] if attention.probe is None else [attention.probe[:, :, None]])
        picked = _one_hot(chosen and chosen[first : first + batch_size], forward(part, training=False))
        slopes = _slopes(forward, part, picked, watched, weights)
        steps = [np.maximum(a * slope, 0).mean(axis=1) for a, slope in zip(weights, slopes, strict=True)]
        start = steps.pop()[:, 0] if probes else attention.read_from()  # (B, N)
        flow = start
        for step in steps[::-1]:  # (B, N, N), last block first
            flow = flow + (flow[:, None] @ step)[:, 0]
        flow = flow if probes else flow - start
        maps.append(attention.on_grid(flow))
    return np.concatenate(maps)


def _slopes(forward, images, picked, watched, weights):
    """Gradients of the picked logits by the attention weights: by what is added to them."""

    def score(*added):
        # JAX traces this function for the gradient, and drops it afterwards.
        with capture_attention(watched, lambda i, weight: weight + ops.cast(added[i], weight.dtype), traced=True):
            return ops.sum(forward(images, training=False) * picked)

    return gradients(score, [np.zeros_like(weight) for weight in weights])


def _logits(model):
    if "head" not in {layer.name for layer in model.layers}:
        raise ValueError(f"model expected a classifier, received {model.name!r} without the layer 'head'.")
    return _output(model, "head")


def _output(model, name):
    return output_of(model, model.get_layer(name))


def _features(model, name):
    """The symbolic output of the layer, or of the last feature map."""
    known = [layer.name for layer in model.layers]
    if name is not None:
        if name not in known:
            raise ValueError(f"layer expected one of {model.name}'s layers {known}, received {name!r}.")
        output = _output(model, name)
        if len(output.shape) not in (3, 4):
            raise ValueError(f"layer expected one that puts out a map or tokens, received {name!r} of {output.shape}.")
        return output
    stages = [name for name in known if name.startswith("stem_stage") and "_unit" not in name]
    stages = stages or [name for name in known if name == "stem_root_pool"]
    if stages:
        return _output(model, stages[-1])
    blocks = [name for name in known if name.startswith("encoder_block_")]
    if blocks:
        return call_of(model, model.get_layer(blocks[-1])).input_tensors[0]
    if "relu" in known:
        return _output(model, "relu")
    raise ValueError(f"layer expected the name of a layer that puts out a map of {model.name!r}, received None.")


def _chosen(classes, images, count):
    """One class an image, or None for the best of each."""
    if classes is None:
        return None
    one = isinstance(classes, int | np.integer)
    chosen = [int(label) for label in ([classes] * len(images) if one else classes)]
    if len(chosen) != len(images) or not all(0 <= label < count for label in chosen):
        wanted = f"{len(images)} of 0 to {count - 1}, one an image"
        raise ValueError(f"classes expected {wanted}, received {classes!r}.")
    return chosen


def _one_hot(chosen, scores):
    chosen = ops.argmax(scores, axis=-1) if chosen is None else ops.convert_to_tensor(chosen, "int32")
    return ops.one_hot(chosen, scores.shape[-1], dtype=scores.dtype)
