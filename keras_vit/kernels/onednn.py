"""Operations of oneDNN that TensorFlow has kernels for, but no names in Python.

TensorFlow puts them into graphs where it finds what they stand for. Products whose kernels are constants are the
fastest, since oneDNN brings the kernel into its own order once; here they are told that their kernels do not change,
and no constant is copied through TensorFlow's graphs (benchmarks/notes has the gains). Gradients are known to tapes
outside the graph alone.

R rows, D width, F width that is put out.
"""

import contextlib
import functools
import os
import platform
from functools import partial

import numpy as np
import tensorflow as tf

from keras_vit.kernels.split_matmuls import biased_matmul
from keras_vit.layers.layernorm import layer_norm
from keras_vit.layers.mlp import gelu, gelu_tanh
from keras_vit.private import ONEDNN_LABEL, ONEDNN_NORM, ONEDNN_PRODUCT, attribute

_ACTIVATIONS = {gelu: b"GeluExact", gelu_tanh: b"GeluApproximate"}


def normed(rows, gamma, beta, epsilon: float):
    """Layer normalisation in a graph: (R, D), (D,) and (D,) of one type, of which `has_norms` -> (R, D)."""
    return _operation(ONEDNN_NORM, [rows, gamma, beta], epsilon=attribute(f=epsilon))


def held_product(rows, kernel, bias, activation=None):
    """`biased_matmul` with a kernel that never changes: what it is run with first is the kernel for good.

    oneDNN's where TensorFlow has it, in bfloat16 (float32 is multiplied faster as it lies) and in graphs that
    TensorFlow runs on a CPU by itself, not by XLA.
    """
    if tf.executing_eagerly() or rows.dtype != tf.bfloat16 or not has_held_products():
        return biased_matmul(rows, kernel, bias, activation)
    y = _held_product(rows, kernel, bias, activation)
    return y if activation is None or activation in _ACTIVATIONS else activation(y)


def _held_product(rows, kernel, bias, activation):
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


def _normed_plainly(rows, gamma, beta, epsilon):
    gamma, beta = (tf.cast(weight, tf.float32) for weight in (gamma, beta))
    return tf.cast(layer_norm(rows, gamma, beta, epsilon), rows.dtype)


def _gradients(again):
    """A gradient of an operation for TensorFlow's registry: that of a function that computes the same."""

    def gradients(operation, gradient):
        with tf.GradientTape() as tape:
            tape.watch(operation.inputs)
            y = again(operation, *operation.inputs)
        return tape.gradient(y, operation.inputs, gradient)

    return gradients


@_gradients
def _of_norm(operation, x, gamma, beta):
    return _normed_plainly(x, gamma, beta, operation.get_attr("epsilon"))


@_gradients
def _of_product(operation, x, kernel, bias):
    fused = operation.get_attr("fused_ops")
    activation = next((function for function, name in _ACTIVATIONS.items() if name in fused), None)
    return biased_matmul(x, kernel, bias, activation)


for _kind, _function in ((ONEDNN_NORM, _of_norm), (ONEDNN_PRODUCT, _of_product)):
    with contextlib.suppress(KeyError):  # there is one: of this module's first import, or TensorFlow's own
        tf.RegisterGradient(_kind)(_function)


@functools.cache
def has_norms(dtype) -> bool:
    """Whether TensorFlow has `normed` here, for this type."""
    weights = np.linspace(1, 2, 4), np.linspace(-1, 1, 4)
    return _agree(partial(normed, epsilon=3.0), partial(_normed_plainly, epsilon=3.0), dtype, *weights)


@functools.cache
def has_held_products() -> bool:
    """Whether TensorFlow has oneDNN's `held_product` here."""
    # Where oneDNN has no product for a processor this ends the process, which a norm does not: one in the same type is
    # asked for first, and only on the processors of which it is known that the one goes with the other.
    if platform.machine() not in ("x86_64", "AMD64") or not has_norms(tf.bfloat16):
        return False
    weights = np.linspace(-1, 1, 4 * 24).reshape(4, 24), np.linspace(1, -1, 24)
    of_all = lambda product: lambda *given: [product(*given, kind) for kind in (None, *_ACTIVATIONS)]  # noqa: E731
    return _agree(of_all(_held_product), of_all(biased_matmul), tf.bfloat16, *weights)


def _agree(call, expected, dtype, *weights) -> bool:
    """Whether a graph of a call of rows and weights runs here on the CPU, and gives what is expected of any rows."""
    if os.environ.get("TF_ENABLE_ONEDNN_OPTS") == "0":
        return False
    with tf.init_scope(), tf.device("CPU"):
        weights = [tf.constant(array, dtype) for array in weights]
        try:
            graph = tf.function(lambda rows: call(rows, *weights), [tf.TensorSpec((None, 4), dtype)], autograph=False)
            for count in (1, 3):
                rows = tf.constant(np.linspace(-1, 2, 4 * count).reshape(count, 4), dtype)
                pairs = zip(tf.nest.flatten(graph(rows)), tf.nest.flatten(expected(rows, *weights)), strict=True)
                if not all(tf.reduce_all(tf.abs(found - wanted) < 0.05) for found, wanted in pairs):
                    return False
        except (ValueError, RuntimeError, tf.errors.OpError):  # no such operation; not for this type
            return False
    return True
