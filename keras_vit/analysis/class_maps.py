"""Class activation maps: Grad-CAM, and attention times its gradient.

L encoder blocks, B batch, h heads, N tokens, K classes, (down, across) grid, F features.
"""

from collections.abc import Sequence

import keras
import numpy as np
from keras import ops

from keras_vit.analysis.arrays import as_model_input, split_batches, to_float32
from keras_vit.analysis.capturing import capture, encoder_blocks
from keras_vit.analysis.gradients import gradients
from keras_vit.composed import flattened
from keras_vit.layers import capture_attention
from keras_vit.models.token_layout import token_layout
from keras_vit.private import call_of, model_from, output_of


def grad_cam(
    model: keras.Model,
    images,
    classes: int | Sequence[int] | None = None,
    layer: str | None = None,
    batch_size: int = 32,
) -> np.ndarray:
    """Return Grad-CAM maps of a class (Selvaraju et al., arXiv 1610.02391): (B, down, across), not negative.

    max(0, sum_f a_f M_f) with the feature map M, and the spatial mean a_f of the gradient of the class's logit.

    Args:
        model: a model with a classifier.
        images: (B, H, W, C) in the model's input range.
        classes: one class for all images, or one per image; the predicted classes if None.
        layer: name of a layer that outputs a map or tokens. By default the last feature map before the output: `relu`
            of a BiT, `swish` of an EfficientNet, the last stage of a hybrid's stem, and the input of the last block of
            a plain ViT, because the output of a `token` head does not depend on the patches after the last block.
        batch_size: images per forward pass.

    Raises:
        ValueError: the model has no classifier or no such layer, a class is out of range, or the images do not have
            the model's input shape or range.
    """
    model = flattened(model)
    images, logits = as_model_input(model, images), _logits(model)
    feature_map = _feature_map(model, layer)
    embedding = [_output(model, "embedding")] if len(feature_map.shape) == 3 else []
    to_features = keras.Model(model.inputs[0], [feature_map, logits, *embedding])
    # The images stay an input, because blocks with a convolution also take the embedded patches.
    to_logits = model_from([model.inputs[0], feature_map], logits, keras.Model)
    classes = _class_per_image(classes, images, logits.shape[-1])
    maps = []
    for i, batch in enumerate(split_batches(images, batch_size)):
        batch = ops.convert_to_tensor(batch)
        features, scores, *embedded = to_features(batch, training=False)
        one_hot = _one_hot(classes, i * batch_size, scores)
        score = lambda x, batch=batch, one_hot=one_hot: ops.sum(to_logits([batch, x], training=False) * one_hot)  # noqa: E731
        (gradient,) = gradients(score, [features])
        features = to_float32(features)
        if features.ndim == 3:
            grid, patches = embedded[0].shape[:3], token_layout(model, layer).patches
            features, gradient = (x[:, patches].reshape(*grid, x.shape[-1]) for x in (features, gradient))
        maps.append(np.maximum((features * gradient.mean(axis=(1, 2), keepdims=True)).sum(axis=-1), 0))
    return np.concatenate(maps)


def gradient_attention(
    model: keras.Model, images, classes: int | Sequence[int] | None = None, batch_size: int = 32
) -> np.ndarray:
    """Return attention times its gradient for a class, through all blocks: (B, down, across), not negative.

    R_l = R_(l-1) + mean_h max(0, A_l * dy/dA_l) R_(l-1), R_0 = I, with the class's logit y (Chefer et al., arXiv
    2103.15679, equations 5 and 6). The returned row of R_L is that of the class token, or the mean over the patches
    for `gap`, without its share of R_0. For `map` the rows are weighted with max(0, A * dy/dA) of the probe.

    Args and raises: as `grad_cam`; also a ValueError if the model has no attention.
    """
    model = flattened(model)
    blocks, poolings = encoder_blocks(model)
    images, logits = as_model_input(model, images), _logits(model)
    forward = keras.Model(model.inputs[0], logits)
    layers = [block.attention for block in blocks] + poolings
    classes = _class_per_image(classes, images, logits.shape[-1])
    maps = []
    for i, batch in enumerate(split_batches(images, batch_size)):
        attention = capture(model, batch, batch_size)
        weights = list(attention.weights) + ([] if attention.probe is None else [attention.probe[:, :, None]])
        one_hot = _one_hot(classes, i * batch_size, forward(batch, training=False))
        slopes = _attention_gradients(forward, batch, one_hot, layers, weights)
        steps = [np.maximum(a * slope, 0).mean(axis=1) for a, slope in zip(weights, slopes, strict=True)]
        start = steps.pop()[:, 0] if poolings else attention.pooling_weights()  # (B, N)
        relevance = start
        for step in steps[::-1]:  # (B, N, N), last block first
            relevance = relevance + (relevance[:, None] @ step)[:, 0]
        maps.append(attention.on_grid(relevance if poolings else relevance - start))
    return np.concatenate(maps)


def _attention_gradients(forward, images, one_hot, layers, weights):
    """Return the gradients of the selected logits with respect to the attention weights of each layer.

    Zeros are added to the weights, and the gradients are taken with respect to the zeros.
    """

    def score(*offsets):
        # JAX traces this function for the gradient only.
        with capture_attention(layers, lambda i, weight: weight + ops.cast(offsets[i], weight.dtype), traced=True):
            return ops.sum(forward(images, training=False) * one_hot)

    return gradients(score, [np.zeros_like(weight) for weight in weights])


def _logits(model):
    if "head" not in {layer.name for layer in model.layers}:
        raise ValueError(f"model expected a classifier, received {model.name!r} without the layer 'head'.")
    return _output(model, "head")


def _output(model, name):
    return output_of(model, model.get_layer(name))


def _feature_map(model, name):
    """Return the symbolic output of the named layer, or the last feature map before the output."""
    names = [layer.name for layer in model.layers]
    if name is not None:
        if name not in names:
            raise ValueError(f"layer expected one of {model.name}'s layers {names}, received {name!r}.")
        output = _output(model, name)
        if len(output.shape) not in (3, 4):
            raise ValueError(f"layer expected one that outputs a map or tokens, received {name!r} of {output.shape}.")
        return output
    stages = [name for name in names if name.startswith("stem_stage") and "_unit" not in name]
    stages = stages or [name for name in names if name == "stem_root_pool"]
    if stages:
        return _output(model, stages[-1])
    blocks = [name for name in names if name.startswith("encoder_block_")]
    if blocks:
        return call_of(model, model.get_layer(blocks[-1])).input_tensors[0]
    for last in ("relu", "swish"):  # of a BiT, of an EfficientNet
        if last in names:
            return _output(model, last)
    raise ValueError(f"layer expected the name of a layer of {model.name!r} that outputs a map, received None.")


def _class_per_image(classes, images, count):
    """Return a list with one class per image; None stays None."""
    if classes is None:
        return None
    single = isinstance(classes, int | np.integer)
    per_image = [int(label) for label in ([classes] * len(images) if single else classes)]
    if len(per_image) != len(images) or not all(0 <= label < count for label in per_image):
        raise ValueError(
            f"classes expected {len(images)} values from 0 to {count - 1}, one per image, received {classes!r}."
        )
    return per_image


def _one_hot(classes, start, scores):
    """Return one-hot vectors of the classes from `start` on, or of the highest scores if `classes` is None."""
    if classes is None:
        labels = ops.argmax(scores, axis=-1)
    else:
        labels = ops.convert_to_tensor(classes[start : start + len(scores)], "int32")
    return ops.one_hot(labels, scores.shape[-1], dtype=scores.dtype)
