"""The stages of a run, each with fixed image and patch sizes, and the model at the sizes of a stage.

B batch, H W C image, K classes, P patch, D width.
"""

from dataclasses import dataclass, replace

import keras
import numpy as np
import tensorflow as tf

from keras_vit.evaluate.accuracy import logits_model
from keras_vit.kernels.recompute import Recomputed, with_values
from keras_vit.layers import AxialBlock, EncoderBlock, PatchEmbedding, as_pair
from keras_vit.layers.embedding import Positions
from keras_vit.layers.resnet import ResidualUnit
from keras_vit.models.vision_model import class_token_only_block
from keras_vit.train.moving import InInference, frozen_norms, moving_averages
from keras_vit.train.recipe.updates import head_steps
from keras_vit.weights.resize import resize_kernel


@dataclass(frozen=True)
class Span:
    """Consecutive steps of a run with the same image size and patch size.

    Args:
        begin, end: numbers of updates.
        input_shape: (height, width, channels) of the images.
        patch_size: size of a patch; None for the model's own.
        head_only: whether only the head is trained.
        optimizer_begin: number of updates before the optimizer started anew.
    """

    begin: int
    end: int
    input_shape: tuple[int, int, int]
    patch_size: tuple[int, int] | None = None
    head_only: bool = False
    optimizer_begin: int = 0

    @property
    def restarts(self) -> bool:
        """Whether the optimizer starts anew with this stage, after the head was trained alone."""
        return 0 < self.optimizer_begin == self.begin


def spans_of(recipe, steps: int) -> list[Span]:
    """Return the stages of a run of `steps` steps, in order, without those shorter than one step."""
    spans, begin = [], 0
    for stage in recipe.curriculum.stages:
        end = round(stage.until * steps)
        sides = recipe.model.input_shape[:2] if stage.image_size is None else as_pair(stage.image_size)
        patch = None if stage.patch_size is None else as_pair(stage.patch_size)
        spans.append(Span(begin, end, (*sides, recipe.model.channels), patch))
        begin = end
    spans.append(Span(begin, steps, recipe.model.input_shape))
    cut = head_steps(recipe, steps)
    heads = [replace(span, end=min(span.end, cut), head_only=True) for span in spans]
    spans = heads + [replace(span, begin=max(span.begin, cut), optimizer_begin=cut) for span in spans]
    return [span for span in spans if span.begin < span.end]


class Forward:
    """Computes the logits of a model with given values of its trained variables, at the sizes of a stage.

    All stages share the variables of the model, so that gradients reach them: the position embedding is resized inside
    the graph, and the patch kernel is a constant matrix times the model's kernel. With `recompute`, the backward pass
    recomputes the activations of each block.
    """

    def __init__(self, model: keras.Model, variables: list, span: Span, recompute: bool = False):
        self._variables = variables
        self._mapping = []  # (variable, value) pairs of the current call
        self.own_layers = []  # layers that the model does not have
        self._kernel = None  # (stage's variable, model's variable, matrix from the one to the other)
        self._moving = moving_averages(model)
        frozen = frozen_norms(model, variables)
        logits = logits_model(model)
        last = class_token_only_block(logits)  # computes the class token only, which is not worth recomputing
        embeddings = [layer for layer in model.layers if isinstance(layer, PatchEmbedding)]
        patch = span.patch_size if embeddings and span.patch_size not in (None, embeddings[0].patch_size) else None
        if span.patch_size and not embeddings:
            raise ValueError(f"patch_size expected None in a stage of {model.name}, which has no patches, received "
                             f"{span.patch_size}.")  # fmt: skip
        if not recompute and not frozen and patch is None and tuple(logits.inputs[0].shape[1:]) == span.input_shape:
            self._logits = logits
            return
        resized = patch is not None or tuple(logits.inputs[0].shape[1:]) != span.input_shape
        if resized and any(map(_is_stored_for_one_size, model.layers)):
            raise ValueError(f"image_size expected the model's own in a stage of {model.name}, whose relative positions"
                             f" are stored for it, received {span.input_shape[:2]}.")  # fmt: skip
        original = embeddings[0] if embeddings else None
        embedding = None
        if patch:
            embedding = PatchEmbedding(original.width, patch, original.use_bias, dtype=original.dtype_policy)
        self.own_layers = [embedding] if patch else []
        grid = []  # the embedded patches; positions are resized to their grid

        def call(layer, *args, **options):
            if isinstance(layer, Positions):
                return layer(args[0], grid[-1])
            if layer.name in frozen:
                return InInference(layer)(*args)
            if getattr(layer, "attention_options", None) and "rope" in layer.attention_options:
                args = (args[0], grid[-1])
            if recompute and layer is not last and isinstance(layer, EncoderBlock | AxialBlock | ResidualUnit):
                return Recomputed(layer, lambda: self._mapping)(*args, **options)
            output = layer(*args, **options)
            if isinstance(layer, PatchEmbedding):
                grid.append(output)
            return output

        inputs = [keras.Input(span.input_shape, name="images")]
        inputs += [keras.Input(x.shape[1:], dtype=x.dtype, name=x.name) for x in logits.inputs[1:]]
        self._logits = keras.models.clone_model(
            logits,
            input_tensors=inputs if len(inputs) > 1 else inputs[0],
            clone_function=lambda layer: embedding if patch and isinstance(layer, PatchEmbedding) else layer,
            call_function=call,
        )
        if patch:
            self._kernel = (embedding, original, _resampling(original.patch_size, patch))

    def __call__(self, values: list, states: list, *inputs):
        """Return the model's output in training, logits (B, K) for a classifier."""
        return self.with_moving(values, states, *inputs)[0]

    def with_moving(self, values: list, states: list, *inputs):
        """Return the model's output in training, and the new values of `moving_averages(model)`.

        `states` are (variable, value) of the seeds of the dropout layers. `inputs` begin with images (B, H, W, C).
        """
        mapping = [*zip(self._variables, values, strict=True), *states]
        if self._kernel is not None:
            mapping += self._resampled(values)
        self._mapping = mapping
        with with_values(mapping) as scope:
            logits = self._logits(inputs[0] if len(inputs) == 1 else list(inputs), training=True)
        self._mapping = []
        updates = [scope.get_current_value(variable) for variable in self._moving]
        moving = [v.value if new is None else new for v, new in zip(self._moving, updates, strict=True)]
        return logits, [tf.convert_to_tensor(value) for value in moving]

    def _resampled(self, values):
        """Return (variable, value) of the stage's patch embedding, computed from the model's."""
        stage, original, matrix = self._kernel
        known = {id(variable): value for variable, value in zip(self._variables, values, strict=True)}
        value_of = lambda variable: known.get(id(variable), tf.convert_to_tensor(variable.value))  # noqa: E731
        flat = tf.reshape(value_of(original.kernel), (matrix.shape[1], -1))  # (P * P, C * D)
        kernel = tf.reshape(tf.matmul(tf.constant(matrix), flat), tuple(stage.kernel.shape))
        return [(stage.kernel, kernel), *([(stage.bias, value_of(original.bias))] if original.use_bias else [])]


def _resampling(old: tuple[int, int], new: tuple[int, int]) -> np.ndarray:
    """Return the matrix (P' * P', P * P) of `resize_kernel`, which is linear."""
    cells = old[0] * old[1]
    basis = np.eye(cells, dtype="float32").reshape(*old, 1, cells)
    return resize_kernel(basis, new).reshape(-1, cells)


def _is_stored_for_one_size(layer) -> bool:
    """Return whether a block has relative positions, biases or windows, which are stored for one number of tokens."""
    options = getattr(layer, "attention_options", None) or {}
    return getattr(layer, "relative_positions", False) or bool({"relative_bias", "window"} & options.keys())
