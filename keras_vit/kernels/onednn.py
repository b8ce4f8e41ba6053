"""Call oneDNN operations for which TensorFlow has kernels, but no Python names.

TensorFlow's graph rewriting inserts them. A matmul whose kernel is constant is the fastest, because oneDNN prepacks the
kernel once. Here the kernel is an input that is declared constant, so no constant is copied through TensorFlow's
graphs. The gradients work only for tapes outside of the graph.

R flattened tokens, D width, F output width.
"""

import contextlib
import functools
import os
import platform
from functools import partial

import numpy as np
import tensorflow as tf

from keras_vit.kernels.split_matmuls import biased_matmul
from keras_vit.layers.encoder import layer_norm
from keras_vit.layers.mlp import gelu, gelu_tanh
from keras_vit.private import ONEDNN_LABEL, ONEDNN_NORM, ONEDNN_PRODUCT, attribute

_ACTIVATIONS = {gelu: b"GeluExact", gelu_tanh: b"GeluApproximate"}


def fused_layer_norm(rows, gamma, beta, epsilon: float):
    """Add oneDNN's layer norm to a graph: (R, D), (D,) and (D,) of one dtype with `has_layer_norm` -> (R, D)."""
    return _operation(ONEDNN_NORM, [rows, gamma, beta], epsilon=attribute(f=epsilon))


def prepacked_matmul(rows, kernel, bias, activation=None):
    """Return `biased_matmul` with a frozen kernel: oneDNN caches the kernel of the first call and ignores later ones.

    oneDNN's operation is used in bfloat16, in graphs that TensorFlow runs on a CPU without XLA, where TensorFlow has
    it. In float32 a prepacked kernel is slower.
    """
    if tf.executing_eagerly() or rows.dtype != tf.bfloat16 or not has_prepacked_matmul():
        return biased_matmul(rows, kernel, bias, activation)
    y = _prepacked_matmul(rows, kernel, bias, activation)
    return y if activation is None or activation in _ACTIVATIONS else activation(y)


def _prepacked_matmul(rows, kernel, bias, activation):
    fused = [b"BiasAdd", _ACTIVATIONS[activation]] if activation in _ACTIVATIONS else [b"BiasAdd"]
    return _operation(
        ONEDNN_PRODUCT,
        [rows, kernel, bias],
        num_args=attribute(i=1),
        is_filter_const=attribute(b=True),
        fused_ops=attribute(list={"s": fused}),
        _kernel=attribute(s=ONEDNN_LABEL),
    )


def _operation(kind, inputs, **attributes):
    dtype = inputs[0].dtype
    attributes["T"] = attribute(type=dtype.as_datatype_enum)
    graph, name = tf.compat.v1.get_default_graph(), kind.removeprefix("_Mkl")
    return graph.create_op(kind, inputs, [dtype], name=name, attrs=attributes).outputs[0]


def _reference_norm(rows, gamma, beta, epsilon):
    gamma, beta = (tf.cast(weight, tf.float32) for weight in (gamma, beta))
    return tf.cast(layer_norm(rows, gamma, beta, epsilon), rows.dtype)


def _gradients(reference):
    """Return a gradient for TensorFlow's registry: the gradient of a function that computes the same values."""

    def gradients(operation, gradient):
        with tf.GradientTape() as tape:
            tape.watch(operation.inputs)
            y = reference(operation, *operation.inputs)
        return tape.gradient(y, operation.inputs, gradient)

    return gradients


@_gradients
def _norm_gradient(operation, x, gamma, beta):
    return _reference_norm(x, gamma, beta, operation.get_attr("epsilon"))


@_gradients
def _matmul_gradient(operation, x, kernel, bias):
    fused = operation.get_attr("fused_ops")
    activation = next((function for function, name in _ACTIVATIONS.items() if name in fused), None)
    return biased_matmul(x, kernel, bias, activation)


for _kind, _function in ((ONEDNN_NORM, _norm_gradient), (ONEDNN_PRODUCT, _matmul_gradient)):
    with contextlib.suppress(KeyError):  # registered before, by an earlier import or by TensorFlow
        tf.RegisterGradient(_kind)(_function)


@functools.cache
def has_layer_norm(dtype) -> bool:
    """Return whether `fused_layer_norm` works on this machine for a dtype."""
    weights = np.linspace(1, 2, 4), np.linspace(-1, 1, 4)
    return _agree(partial(fused_layer_norm, epsilon=3.0), partial(_reference_norm, epsilon=3.0), dtype, *weights)


@functools.cache
def has_prepacked_matmul() -> bool:
    """Return whether oneDNN's matmul with a frozen kernel works on this machine."""
    # Without a oneDNN matmul for the processor, a test call ends the process; a call of the norm only raises. On x86
    # either both exist or neither, so the norm is tested first.
    if platform.machine() not in ("x86_64", "AMD64") or not has_layer_norm(tf.bfloat16):
        return False
    weights = np.linspace(-1, 1, 4 * 24).reshape(4, 24), np.linspace(1, -1, 24)
    with_all = lambda matmul: lambda *inputs: [matmul(*inputs, kind) for kind in (None, *_ACTIVATIONS)]  # noqa: E731
    return _agree(with_all(_prepacked_matmul), with_all(biased_matmul), tf.bfloat16, *weights)


def _agree(call, expected, dtype, *weights) -> bool:
    """Return whether a graph of `call` runs on this CPU and returns the values of `expected`."""
    if os.environ.get("TF_ENABLE_ONEDNN_OPTS") == "0":
        return False
    with tf.init_scope(), tf.device("CPU"):
        weights = [tf.constant(array, dtype) for array in weights]
        try:
            graph = tf.function(lambda rows: call(rows, *weights), [tf.TensorSpec((None, 4), dtype)], autograph=False)
            for count in (1, 3):
                rows = tf.constant(np.linspace(-1, 2, 4 * count).reshape(count, 4), dtype)
                pairs = zip(tf.nest.flatten(graph(rows)), tf.nest.flatten(expected(rows, *weights)), strict=True)
                if not all(tf.reduce_all(tf.abs(received - wanted) < 0.05) for received, wanted in pairs):
                    return False
        except (ValueError, RuntimeError, tf.errors.OpError):  # no such operation, or not for this dtype
            return False
    return True
