"""The stages of a run, in each of which images and patches keep their sizes, and the model as a stage computes it.

B batch, H W C image, K classes, P patch, D width.
"""

from dataclasses import dataclass

import keras
import numpy as np
import tensorflow as tf

from keras_vit.evaluate.accuracy import logits_model
from keras_vit.kernels.recompute import Recomputed, with_values
from keras_vit.layers import AxialBlock, EncoderBlock, PatchEmbedding, as_pair
from keras_vit.layers.positions import Positions
from keras_vit.layers.resnet import ResidualUnit
from keras_vit.models.lean import block_read_at_first_token
from keras_vit.weights.resize import resize_kernel


@dataclass(frozen=True)
class Span:
    """Steps of a run that have the same sizes.

    Args:
        begin: updates done before the first of them.
        end: updates done after the last of them.
        input_shape: (height, width, channels) of the images.
        patch_size: (height, width) in place of the model's own; None for that.
    """

    begin: int
    end: int
    input_shape: tuple[int, int, int]
    patch_size: tuple[int, int] | None = None


def spans_of(recipe, steps: int) -> list[Span]:
    """The stages of a recipe's run of so many steps, in order; those too short for a step are left out."""
    found, begin = [], 0
    for stage in recipe.curriculum.stages:
        end = round(stage.until * steps)
        sides = recipe.model.input_shape[:2] if stage.image_size is None else as_pair(stage.image_size)
        patch = None if stage.patch_size is None else as_pair(stage.patch_size)
        found.append(Span(begin, end, (*sides, recipe.model.channels), patch))
        begin = end
    found.append(Span(begin, steps, recipe.model.input_shape))
    return [span for span in found if span.begin < span.end]


class Forward:
    """The logits of a model with other values in place of some of its variables, at a stage's sizes.

    All stages share the model's variables: the position embedding is resized inside the graph, the patch kernel is
    a constant matrix times the model's own, so that gradients reach what is trained.

    Args:
        model: that is trained.
        variables: of it that are trained.
        span: the stage.
        recompute: whether each block's insides are computed again in the backward pass.
    """

    def __init__(self, model: keras.Model, variables: list, span: Span, recompute: bool = False):
        self._variables = variables
        self._mapping = []  # of the call under way
        self.own_layers = []  # of the stage, not of the model
        self._kernel = None  # (stage's variable, model's variable, matrix from the one to the other)
        logits = logits_model(model)
        lean = block_read_at_first_token(logits)  # its insides, those of one token, are not worth a second time
        own = [layer for layer in model.layers if isinstance(layer, PatchEmbedding)]
        patch = span.patch_size if own and span.patch_size not in (None, own[0].patch_size) else None
        if span.patch_size and not own:
            raise ValueError(f"patch_size expected None in a stage of {model.name}, which has no patches, received "
                             f"{span.patch_size}.")  # fmt: skip
        if not recompute and patch is None and tuple(logits.inputs[0].shape[1:]) == span.input_shape:
            self._logits = logits
            return
        resized = patch is not None or tuple(logits.inputs[0].shape[1:]) != span.input_shape
        if resized and any(getattr(layer, "relative_positions", False) for layer in model.layers):
            raise ValueError(f"image_size expected the model's own in a stage of {model.name}, whose relative positions"
                             f" are stored for it, received {span.input_shape[:2]}.")  # fmt: skip
        embedding = PatchEmbedding(own[0].width, patch, dtype=own[0].dtype_policy) if patch else None
        self.own_layers = [embedding] if patch else []
        grid = []  # the embedded patches, which the positions are resized to

        def call(layer, *args, **options):
            if isinstance(layer, Positions):
                return layer(args[0], grid[-1])
            if recompute and layer is not lean and isinstance(layer, EncoderBlock | AxialBlock | ResidualUnit):
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
            self._kernel = (embedding, own[0], _resampling(own[0].patch_size, patch))

    def __call__(self, values: list, states: list, *inputs):
        """Logits (B, K) of images (B, H, W, C) in training, or what else the model puts out.

        Args:
            values: of the trained variables.
            states: (variable, value) of the dropouts' seeds.
            inputs: images of the stage's size, and what else the model takes.
        """
        mapping = [*zip(self._variables, values, strict=True), *states]
        if self._kernel is not None:
            mapping += self._resampled(values)
        self._mapping = mapping
        with with_values(mapping):
            logits = self._logits(inputs[0] if len(inputs) == 1 else list(inputs), training=True)
        self._mapping = []
        return logits

    def _resampled(self, values):
        """The stage's patch embedding from the model's."""
        stage, own, matrix = self._kernel
        known = {id(variable): value for variable, value in zip(self._variables, values, strict=True)}
        kernel, bias = (known.get(id(v), tf.convert_to_tensor(v.value)) for v in (own.kernel, own.bias))
        rows = tf.reshape(kernel, (matrix.shape[1], -1))  # (P * P, C * D)
        kernel = tf.reshape(tf.matmul(tf.constant(matrix), rows), tuple(stage.kernel.shape))
        return [(stage.kernel, kernel), (stage.bias, bias)]


def _resampling(old: tuple[int, int], new: tuple[int, int]) -> np.ndarray:
    """`resize_kernel`, which is linear, as a matrix (P' * P', P * P)."""
    cells = old[0] * old[1]
    basis = np.eye(cells, dtype="float32").reshape(*old, 1, cells)
    return resize_kernel(basis, new).reshape(-1, cells)
