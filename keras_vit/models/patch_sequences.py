"""Make a model of padded patch sequences out of a model of images, with the same variables.

B batch, N patches with padding, P patch height or width, C channels.
"""

import math

import keras

from keras_vit import layers
from keras_vit.checks import is_whole
from keras_vit.composed import flattened
from keras_vit.layers.dropout import Dropout
from keras_vit.layers.embedding import PrefixTokens
from keras_vit.layers.position_weights import require_sequence_method
from keras_vit.models.token_layout import token_layout
from keras_vit.models.variants import VARIANTS
from keras_vit.models.vision_model import VisionModel
from keras_vit.private import call_of, run_graph
from keras_vit.weights.naflex import naflex_resize

# Layers of tokens that compute the same for any number of patches.
_ALIKE = (keras.layers.InputLayer, layers.GridToTokens, PrefixTokens, Dropout)
_ALIKE += (layers.LayerNorm, layers.RMSNorm, layers.Prompts)
# Class -> its class for padded sequences, None for its own; the further inputs of that class.
_CHANGED = {
    layers.PatchEmbedding: (layers.SequenceEmbedding, ()),
    layers.PositionEmbedding: (layers.SequencePositions, ("coordinates", "valid")),
    layers.FactorizedPositions: (layers.SequenceFactorizedPositions, ("coordinates", "valid")),
    layers.EncoderBlock: (None, ("padding",)),
    layers.MeanPooling: (layers.MaskedMeanPooling, ("valid",)),
    layers.AttentionPooling: (None, ("padding",)),
}


def patch_sequence_model(
    model: keras.Model, max_patches: int | None = None, position_resize: str | None = None
) -> keras.Model:
    """Return a model of padded patch sequences that shares `model`'s variables.

    Each image has a grid of its own, to which positions are resized. No token attends to padding, and padding is not
    pooled. `keras_vit.patch_sequences` makes the inputs. Names in timm: `patches`, `patch_coord`, `patch_valid`.

    Args:
        model: a ViT for images, with learned or factorized positions that are added to the tokens. Convolutions, rotary
            positions and biases of the attention are not supported.
        max_patches: N, if it is fixed; None if it is free at run time.
        position_resize: method as in `load_weights`, except `dinov2`. None for the method of the loaded file's
            publisher; without a file, for that of the row in timm, else `timm`, and `timm_npz` of factorized positions.

    Returns:
        A `keras.Model` of a dict with `patches` (B, N, P * P * C), `coordinates` (B, N, 2), the row and column of each
        patch, and `valid` (B, N), which is False for padding. Its output is that of `model`, in which tokens without
        pooling are those of the padded sequence.

    Raises:
        ValueError: the model has a layer that needs one grid, or an argument is out of range.
    """
    model = flattened(model)
    if max_patches is not None and not is_whole(max_patches):
        raise ValueError(f"max_patches expected a positive int or None, received {max_patches!r}.")
    embedding = _require_plain(model)
    resize = require_sequence_method(_method(model, position_resize))
    inputs = {
        "patches": keras.Input(
            (max_patches, math.prod(embedding.kernel.shape[:-1])), name="patches", dtype=model.inputs[0].dtype
        ),
        "coordinates": keras.Input((max_patches, 2), name="coordinates", dtype="int32"),
        "valid": keras.Input((max_patches,), name="valid", dtype="bool"),
    }
    prefix = token_layout(model).prefix_tokens
    mask = layers.PaddingMask(prefix, name="padding_mask", dtype=embedding.dtype_policy)
    further = {**inputs, "padding": mask(inputs["valid"])}
    made: dict[str, keras.layers.Layer] = {}

    def call(layer, *args, **options):
        if isinstance(layer, layers.GridToTokens):
            return args[0]
        change = next((change for kind, change in _CHANGED.items() if isinstance(layer, kind)), None)
        if change is None:
            return layer(*args, **options)
        kind, names = change
        if layer.name not in made:
            made[layer.name] = _for_sequences(layer, kind or type(layer), resize)
        with layers.use_initial_values(_variables_of(model)):
            return made[layer.name](args[0], *(further[name] for name in names))

    outputs = keras.tree.flatten(run_graph(model, [inputs["patches"]], call))
    _require_shared(model, made.values())
    return VisionModel(inputs, outputs[0] if len(outputs) == 1 else outputs, name=f"{model.name}_sequences")


def _for_sequences(layer, kind: type, resize: str) -> keras.layers.Layer:
    """Return the layer for padded sequences in place of a layer."""
    if isinstance(layer, layers.AttentionPooling):  # takes the mask as it is
        return layer
    changes = {}
    if isinstance(layer, layers.EncoderBlock):
        changes["attention_options"] = {**(layer.attention_options or {}), "masked": True}
    elif hasattr(layer, "resize"):
        changes["resize"] = resize
    return kind.from_config({**layer.get_config(), **changes})


def _variables_of(model):
    """Return a function for `use_initial_values` that lets new layers share the variables of the same paths."""
    variables = {variable.path: variable for variable in model.variables}
    return lambda path, shape: variables.get(path)


def _require_shared(model, made) -> None:
    """Raise a ValueError if a new layer has a variable of its own."""
    known = {id(variable) for variable in model.variables}
    own = [weight.path for layer in made for weight in layer.weights if id(weight) not in known]
    if own:
        raise ValueError(f"model expected layers that were built by keras_vit, received other paths than {own[0]!r}.")


def _require_plain(model) -> keras.layers.Layer:
    """Return the patch embedding of a model whose layers work on sequences of any grid.

    Raises:
        ValueError: another layer, or positions that were resized to the size of the images.
    """
    if [len(tensor.shape) for tensor in model.inputs] != [4]:
        names = [tensor.name for tensor in model.inputs]
        raise ValueError(f"model expected one input of images, received {model.name!r} with inputs {names}.")
    calls = (call_of(model, layer) for layer in model.layers)
    if misfit := next((found for call in calls if (found := _misfit(call))), None):
        raise ValueError(
            f"model expected layers that work on patch sequences of any grid, received {model.name!r} with {misfit}."
        )
    embeddings = [layer for layer in model.layers if isinstance(layer, layers.PatchEmbedding)]
    if not embeddings or call_of(model, embeddings[-1]).input_tensors[0] is not model.inputs[0]:
        raise ValueError(f"model expected a patch embedding of its images, received {model.name!r} without one.")
    return embeddings[-1]


def _misfit(call) -> str | None:
    """Return the name of a layer, and of its part, that needs one grid for all images; None for others."""
    layer = call.operation
    if all(len(tensor.shape) == 2 for tensor in call.input_tensors) and call.input_tensors:  # after pooling
        return None
    if isinstance(layer, layers.EncoderBlock):
        options = layer.attention_options or {}
        parts = {name: options.get(name) for name in ("rope", "relative_bias", "window", "masked")}
        parts |= {name: getattr(layer, name) for name in ("relative_positions", "mlp_kernel_size")}
        return next((f"{name} in {layer.name!r}" for name, value in parts.items() if value), None)
    if isinstance(layer, (*_ALIKE, *_CHANGED, layers.TokenPooling)):
        return None
    return f"{layer.name!r} ({type(layer).__name__})"


def _method(model, position_resize: str | None) -> str:
    """Return the method by which the stored positions are resized.

    Raises:
        ValueError: no method is requested, and the model's positions are not those of its file.
    """
    if position_resize is not None:
        return position_resize
    positions = [layer for layer in model.layers if hasattr(layer, "resize")]
    for layer in positions:
        if "resized" in (layer.conversion or ""):
            raise ValueError(
                f"model expected the positions as its file stores them, received {model.name!r} with {layer.conversion}"
                ": load the file with the input_shape of the stored grid, or pass position_resize."
            )
    if stored := next((layer.resize for layer in positions if layer.resize), None):
        return stored
    row = next((row for row in VARIANTS if row.name == model.name and row.timm_name), None)
    of_row = naflex_resize({"architecture": row.timm_name}) if row else None
    factorized = any(isinstance(layer, layers.FactorizedPositions) for layer in positions)
    return of_row or ("timm_npz" if factorized else "timm")
