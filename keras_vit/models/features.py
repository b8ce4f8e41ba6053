"""Make models that return intermediate outputs of a model."""

import keras

from keras_vit.composed import flattened
from keras_vit.layers import TokensToGrid
from keras_vit.models.token_layout import has_patches, token_layout
from keras_vit.models.vision_model import VisionModel
from keras_vit.private import call_of, output_of


def feature_model(model: keras.Model, layers: list[str], as_grid: bool = False) -> keras.Model:
    """Return a model that shares `model`'s weights and outputs what the named layers output.

    Args:
        model: a model of this package, or one of Keras's with such a model inside.
        layers: names of its layers, for instance `["encoder_block_05", "encoder_norm"]`.
        as_grid: True reshapes the patch tokens to their grid and drops the tokens in front of them.

    Returns:
        A `keras.Model` with one output per name, in a list if there are several: tokens (B, N, D), or with `as_grid`
        maps (B, H / P, W / P, D).

    Raises:
        ValueError: `model` has no layer of that name, or `as_grid` is requested for an output without tokens.
    """
    model = flattened(model)
    known = [layer.name for layer in model.layers]
    outputs = []
    for name in layers:
        if name not in known:
            raise ValueError(f"layers expected names of {model.name}'s layers {known}, received {name!r}.")
        # The output of the first call, if the model calls a layer several times.
        output = output_of(model, model.get_layer(name))
        if as_grid and len(output.shape) != 4:
            output = _on_grid(model, name, output)
        outputs.append(output)
    return keras.Model(model.input, outputs[0] if len(outputs) == 1 else outputs, name=f"{model.name}_features")


def _on_grid(model, name, output):
    if len(output.shape) != 3 or not has_patches(model):
        raise ValueError(f"as_grid expected layers that output tokens, received {name!r} of shape {output.shape}.")
    prefix_tokens = token_layout(model, name).prefix_tokens
    return TokensToGrid(prefix_tokens, name=f"{name}_grid")(output, output_of(model, model.get_layer("embedding")))


def head_features(model: keras.Model) -> keras.Model:
    """Return a model that outputs the input of the classifier: images (B, H, W, C) -> (B, D).

    Without a classifier, the output is the model's own.
    """
    model = flattened(model)
    heads = [layer for layer in model.layers if layer.name == "head"]
    return VisionModel(model.inputs[0], call_of(model, heads[0]).input_tensors[0] if heads else model.outputs[0])
