"""Sums in functions that XLA compiles."""

import ast
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from support import first_quick

from keras_vit.kernels import attention, norms, updates
from keras_vit.kernels.token_sums import sum_in_xla, xla_compiled

# XLA gives YNNPACK sums of 32,768 numbers and more: 50 rows are left after halvings.
X, MEAN = tf.ones((2, 400, 768)), tf.ones((2, 1, 768))
ROWS, RATE, GAMMA = tf.ones((400, 768)), tf.ones((400, 1)), tf.ones(768)
SUMS = {
    "pixels": (norms._sums, X),
    "pixels of one image": (norms._sums, X[:1]),
    "squares of pixels": (norms._sums_of_squares, X, MEAN),
    "gradients of pixels": (norms._sums_with, X, X, MEAN, MEAN, GAMMA, GAMMA),
    "rows": (norms._normed, ROWS, GAMMA, GAMMA, 1e-6),
    "gradients of rows": (norms._layer_norm_gradients, ROWS, ROWS, RATE, RATE, GAMMA),
    "heads": (attention.head_dot_products, tf.ones((8, 197, 12, 64)), tf.ones((8, 197, 12, 64))),
    "squares of a gradient": (updates.sum_of_squares, tf.ones((2**15 + 1, 8))),
}


@pytest.mark.parametrize("name", SUMS)
def test_no_sum_is_ynnpacks_which_ends_the_process_where_two_threads_begin_it_at_once(name):
    """A list of constants in XLA's thunk of it has no lock (TensorFlow 2.21); `--strategy cores` met that."""
    function, *given = SUMS[name]
    program = function.experimental_get_compiler_ir(*given)
    assert "__ynn_fusion" not in program(stage="optimized_hlo")


@pytest.mark.parametrize("path", sorted(Path(norms.__file__).parent.glob("*.py")), ids=lambda path: path.stem)
def test_no_function_that_xla_compiles_asks_for_such_a_sum(path):
    functions = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef)]
    ours = [node for node in functions if "xla_compiled" in map(ast.unparse, node.decorator_list)]
    assert ours or path.stem not in ("activations", "attention", "norms", "updates")
    calls = [node for function in ours for node in ast.walk(function) if isinstance(node, ast.Attribute)]
    assert not [node.attr for node in calls if node.attr.startswith("reduce_")]


def test_what_is_looked_for_is_in_a_plain_sum():
    """If it no longer is, `sum_in_xla` may be `tf.reduce_sum` again, if that is as fast."""
    program = xla_compiled(lambda x: tf.reduce_sum(x, axis=1)).experimental_get_compiler_ir(X)
    assert "__ynn_fusion" in program(stage="optimized_hlo")


@pytest.mark.parametrize("shape", [(7, 5), (24, 5), (1, 24, 5), (3, 12, 5), (3, 7, 5)])
@pytest.mark.parametrize("known", first_quick([False, True]))
def test_the_sum_over_rows(shape, known):
    x = tf.random.stateless_normal(shape, (0, 1))
    signature = None if known else [tf.TensorSpec((None,) * (len(shape) - 1) + shape[-1:])]
    found = tf.function(sum_in_xla, input_signature=signature, jit_compile=True)(x)
    np.testing.assert_allclose(found, np.sum(x, axis=-2, dtype="float64"), rtol=1e-5, atol=1e-6)
