"""The only file that uses undocumented names of Keras and TensorFlow.

Tested with Keras 3.15.1 and TensorFlow 2.21.0. `tests/test_private.py` fails if a name disappears or another file uses
one.
"""

from __future__ import annotations

import contextlib
import functools
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # some commands do not import Keras
    import keras


def layers_of(layer: keras.layers.Layer) -> list:
    """Return a layer or model and all layers nested in it. `Model.layers` has only the first level."""
    return layer._flatten_layers()


def parts_of(layer: keras.layers.Layer) -> list:
    """Return the layers directly inside a layer."""
    return layer._flatten_layers(include_self=False, recursive=False)


def calls_in(model: keras.Model) -> list:
    """Return the calls (Keras's nodes) in the graph of a functional model.

    A call has `operation`, `input_tensors` and `output_tensors`.
    """
    return [call for calls in model._nodes_by_depth.values() for call in calls]


def run_graph(model: keras.Model, inputs, call):
    """Run the graph of a functional model on other inputs; `call(layer, *args, **kwargs)` calls each layer."""
    return model._run_through_graph(inputs, operation_fn=lambda operation: functools.partial(call, operation))


def call_behind(tensor):
    """Return the call whose output is a symbolic tensor."""
    layer, index, _ = tensor._keras_history
    return layer._inbound_nodes[index]


def call_of(model: keras.Model, layer: keras.layers.Layer):
    """Return the first call of a layer in a model's graph. `layer.output` can belong to another graph."""
    calls = {id(call) for call in calls_in(model)}
    return next(call for call in layer._inbound_nodes if id(call) in calls)


def output_of(model: keras.Model, layer: keras.layers.Layer):
    """Return the output of a layer's first call in a model's graph."""
    return call_of(model, layer).output_tensors[0]


def model_from(inputs: list, outputs, kind: type[keras.Model]) -> keras.Model:
    """Return a functional model from some tensors of a graph to others, as `kind(inputs, outputs)`.

    If one of the tensors is the graph's own input, Keras (3.15) adds a call to its input layer, after which the model
    that the tensors belong to cannot be saved. The call is removed again.
    """
    histories = [tensor._keras_history for tensor in inputs]
    model = kind(inputs, outputs)
    for tensor, history in zip(inputs, histories, strict=True):
        if tensor._keras_history is not history:
            tensor._keras_history = history
            del history.operation._inbound_nodes[history.node_index + 1 :]
    return model


def stored_kernel(dense: keras.layers.Dense):
    """Return the kernel variable of a dense layer, without LoRA adapters; integers if the layer is quantized."""
    return dense._kernel


@contextlib.contextmanager
def adding_variables(layer: keras.layers.Layer):
    """Allow a built layer to get variables inside the `with`."""
    layer._tracker.unlock()
    try:
        yield
    finally:
        layer._tracker.lock()


def track_variable(layer: keras.layers.Layer, variable) -> None:
    """Let a layer that is being built have another layer's variable."""
    layer._track_variable(variable)


def waiting_variables() -> list:
    """Return the variables that Keras initialises when the next stateless scope ends."""
    from keras.src.backend.common import global_state

    return list(global_state.get_global_attribute("uninitialized_variables") or ())


def set_waiting_variables(variables: list) -> None:
    """Set the variables that Keras initialises when the next stateless scope ends."""
    from keras.src.backend.common import global_state

    global_state.set_global_attribute("uninitialized_variables", variables)


def variable_index(optimizer: keras.optimizers.Optimizer, variable) -> int:
    """Return the index of a variable in an optimizer."""
    return optimizer._get_variable_index(variable)


# oneDNN's operations, which TensorFlow's graph rewriting uses; the label selects kernels for plain tensors.
ONEDNN_NORM, ONEDNN_PRODUCT, ONEDNN_LABEL = "_MklLayerNorm", "_MklNativeFusedMatMul", b"MklNameChangeOp"


def release_gradients(graph) -> None:
    """Remove the custom gradients of a TensorFlow graph from TensorFlow's registry, once its gradient was taken.

    TensorFlow never removes them. With a loop around them, they keep the graph in memory for good.
    """
    from tensorflow.python.framework.ops import gradient_registry

    for operation in graph.get_operations():
        if operation.type == "IdentityN":  # `tf.custom_gradient` marks one with the name of the gradient
            try:
                name = operation.get_attr("_gradient_op_type").decode()
            except ValueError:
                continue
            gradient_registry._registry.pop(name, None)


def attribute(**value):
    """Return an attribute of a TensorFlow graph node, such as `attribute(f=1e-6)`."""
    from tensorflow.core.framework.attr_value_pb2 import AttrValue

    if isinstance(value.get("list"), dict):
        value["list"] = AttrValue.ListValue(**value["list"])
    return AttrValue(**value)


def saved_model_message():
    """Return an empty protobuf message for `saved_model.pb`."""
    from tensorflow.core.protobuf import saved_model_pb2

    return saved_model_pb2.SavedModel()


def name_of_dtype(dtype) -> str:
    """Return the protobuf name of a TensorFlow dtype, such as `DT_FLOAT`."""
    from tensorflow.core.framework import types_pb2

    return types_pb2.DataType.Name(dtype.as_datatype_enum)


def calibrated_only(converter) -> bytes:
    """Convert to TFLite in float32, with the measured ranges of all tensors."""
    converter._experimental_calibrate_only = True
    return converter.convert()


def quantize_calibrated(measured: bytes, float_operators: list[str]) -> bytes:
    """Quantise a model of `calibrated_only`, except for the operators named in `float_operators`."""
    from tensorflow.lite.python.convert import mlir_quantize

    return mlir_quantize(measured, denylisted_ops=float_operators)


def onednn_enabled() -> bool:
    """Return whether this process's TensorFlow uses oneDNN's operations."""
    from tensorflow.python.util import _pywrap_util_port

    return _pywrap_util_port.IsMklEnabled()
