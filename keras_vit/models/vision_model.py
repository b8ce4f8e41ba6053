"""The functional model class of this package. It skips the patch tokens in the last block if nothing uses them.

B batch, N tokens, D width.
"""

import keras

from keras_vit.kernels.dispatch import choose_backend_operations
from keras_vit.layers import EncoderBlock, LayerNorm, RMSNorm, TokenPooling
from keras_vit.layers.capture import is_any_captured
from keras_vit.layers.override import Override, overriding
from keras_vit.models.adapt import adapt_model, adapted_variables, freeze_all_but
from keras_vit.models.adapt_settings import Adapt
from keras_vit.models.html_summary import html_summary
from keras_vit.preprocessing.image_spec import ImageSpec, preprocessing_of
from keras_vit.private import call_behind, calls_in, layers_of

choose_backend_operations()


@keras.saving.register_keras_serializable("keras_vit")
class VisionModel(keras.Model):
    """A functional model that skips the patch tokens in the last block when only the class token is used.

    A classifier on the class token reads no other output of the last block (section 3.1, equation 4). The queries,
    keys, values and MLP of the other tokens are then skipped. The outputs equal those of a
    `keras.Model` of the same tensors up to rounding. Models that are made from this model's layers compute all tokens.

    Args:
        inputs, outputs, name: as for a functional `keras.Model`.
    """

    @property
    def preprocessing(self) -> ImageSpec:
        """How images are prepared for the model's weights; see `keras_vit.preprocessing_of`."""
        return preprocessing_of(self)

    def enable_lora(self, rank: int = 8, alpha: float | None = None, where: tuple = ("query", "value")) -> None:
        """Add LoRA adapters, and freeze all other variables except the classifier's, as keras-hub's backbones do.

        Args:
            rank, alpha, where: as in `keras_vit.train.recipe.Adapt`.
        """
        adapt_model(self, Adapt("lora", rank, alpha, tuple(where)))
        freeze_all_but(self, adapted_variables(self, "lora"))

    def _repr_html_(self) -> str:
        """Return a table of the model's properties, which a notebook shows."""
        return html_summary(self)

    def call(self, inputs, training=None, mask=None, **kwargs):
        # Symbolic calls make graphs, clones and shapes, which keep all tokens.
        symbolic = any(keras.backend.is_keras_tensor(x) for x in keras.tree.flatten(inputs))
        block = None if symbolic else class_token_only_block(self)
        with overriding([Override(block, "class_token_only", bool)] if block else []):
            return super().call(inputs, training=training, mask=mask, **kwargs)

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
        """Drop Keras's traced functions if the model's variables have changed since, for instance by `enable_lora`.

        Raises:
            ValueError: attention is captured, and the method is not run eagerly.
        """
        eager = self.run_eagerly or (keras.backend.backend() == "torch" and not self.jit_compile)
        if not eager and is_any_captured(self):
            raise ValueError(f"{method} expected no `capture_attention` around it, received one: call model(images) or "
                             "model.compile(run_eagerly=True) first.")  # fmt: skip
        variables = tuple(id(weight) for weight in self.weights)
        if variables != getattr(self, "_traced_variables", variables):
            self.predict_function = self.test_function = self.train_function = None
        self._traced_variables = variables


# Files state Keras's own functional class. If this package is imported, Keras finds the registered name first and
# creates a `VisionModel`; otherwise Keras creates its own class.
VisionModel.__name__, VisionModel.__module__ = "Functional", "keras.src.models.functional"


def class_token_only_block(model: keras.Model) -> EncoderBlock | None:
    """Return the block of a functional model whose class token is its only output that is used, or None."""
    nodes = calls_in(model)
    reads = [id(tensor) for node in nodes for tensor in node.input_tensors] + [id(x) for x in model.outputs]
    for pooling in (node for node in nodes if type(node.operation) is TokenPooling):
        tokens = pooling.input_tensors[0]
        while reads.count(id(tokens)) == 1:
            call = call_behind(tokens)
            layer = call.operation
            if type(layer) is EncoderBlock:  # a subclass may compute anything
                called_again = sum(_calls(node.operation, layer) for node in nodes) > 1
                return None if called_again or not layer.supports_class_token_only else layer
            if type(layer) not in (LayerNorm, RMSNorm):
                break
            tokens = call.input_tensors[0]
    return None


def _calls(operation, layer) -> bool:
    """Return whether an operation of a graph is a layer, or a model that contains it."""
    return operation is layer or isinstance(operation, keras.Model) and layer in layers_of(operation)
