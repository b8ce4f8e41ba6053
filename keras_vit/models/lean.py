"""A model that skips the patch tokens in its last block where only the class token is used.

B batch, N tokens, D width.
"""

import functools

import keras

from keras_vit.layers import EncoderBlock, LayerNorm, TokenPooling
from keras_vit.layers.capture import is_any_captured
from keras_vit.preprocessing.image_spec import ImageSpec, preprocessing_of
from keras_vit.private import call_behind, calls_in


@keras.saving.register_keras_serializable("keras_vit")
class LeanModel(keras.Model):
    """A functional model, whose last block computes its first token alone where nothing else of it is read.

    Of a classifier on the class token (section 3.1, equation 4) the last block's other tokens are read by that token's
    attention, as they come in: their queries, keys, values and MLP are left out, 1/12 of B/16. The answers are those of
    a `keras.Model` of the same tensors but for rounding; layers keep the outputs that they have there, so that models
    made of these compute all tokens.

    Args:
        inputs, outputs, name: as of a functional `keras.Model`.
    """

    @property
    def preprocessing(self) -> ImageSpec:
        """How images are prepared for the model's weights; see `keras_vit.preprocessing_of`."""
        return preprocessing_of(self)

    # Of Keras's own: it calls what `operation_fn` makes of each layer, which is where a call can say more. Symbolic
    # calls make graphs, clones and shapes, in which all tokens stay.
    def _run_through_graph(self, inputs, operation_fn=lambda operation: operation, call_fn=None):
        symbolic = call_fn is not None or any(keras.backend.is_keras_tensor(x) for x in keras.tree.flatten(inputs))
        block = None if symbolic else block_read_at_first_token(self)

        def told(operation):
            call = operation_fn(operation)
            return functools.partial(call, class_token_only=True) if operation is block else call

        return super()._run_through_graph(inputs, told, call_fn)

    def make_predict_function(self, force=False):
        self._prepare_tracing("predict")
        return super().make_predict_function(force)

    def make_test_function(self, force=False):
        self._prepare_tracing("evaluate")
        return super().make_test_function(force)

    def make_train_function(self, force=False):
        self._prepare_tracing("fit")
        return super().make_train_function(force)

    def _prepare_tracing(self, method):
        """Drop Keras's traced functions if the model has other variables since, as after `enable_lora`.

        Raises:
            ValueError: attention is captured, and the method is not run eagerly.
        """
        eager = self.run_eagerly or (keras.backend.backend() == "torch" and not self.jit_compile)
        if not eager and is_any_captured(self):
            raise ValueError(f"{method} expected no `capture_attention` around it, received one: call model(images) or "
                             "model.compile(run_eagerly=True) first.")  # fmt: skip
        now = tuple(id(weight) for weight in self.weights)
        if now != getattr(self, "_traced_of", now):
            self.predict_function = self.test_function = self.train_function = None
        self._traced_of = now


# Files name Keras's own functional model. Where this package is imported, Keras finds the registered name first and
# makes a `LeanModel`; elsewhere it makes its own.
LeanModel.__name__, LeanModel.__module__ = "Functional", "keras.src.models.functional"


def block_read_at_first_token(model: keras.Model) -> EncoderBlock | None:
    """The block of a functional model of which nothing but the first token is read, or None."""
    nodes = calls_in(model)
    reads = [id(tensor) for node in nodes for tensor in node.input_tensors] + [id(x) for x in model.outputs]
    for pooling in (node for node in nodes if type(node.operation) is TokenPooling):
        tokens = pooling.input_tensors[0]
        while reads.count(id(tokens)) == 1:
            call = call_behind(tokens)
            layer = call.operation
            if type(layer) is EncoderBlock:  # a subclass may compute anything
                again = sum(node.operation is layer for node in nodes) > 1
                return None if again or not layer.supports_class_token_only else layer
            if type(layer) is not LayerNorm:
                break
            tokens = call.input_tensors[0]
    return None
