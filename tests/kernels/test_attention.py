"""The elementwise loops of attention against plain operations in float64."""

import numpy as np
import pytest
import tensorflow as tf
from support import need_rounded_bfloat16

from keras_vit.kernels import attention

DTYPES = [("float32", 1e-5), ("bfloat16", 2**-8)]


def _numbers(dtype, *shapes):
    return [tf.cast(tf.random.stateless_normal(shape, (i, 1)), dtype) for i, shape in enumerate(shapes)]


def _exact(tensor):
    return np.asarray(tf.cast(tensor, tf.float64))


@pytest.mark.parametrize(("dtype", "rounding"), DTYPES)
def test_query_key_and_value_are_cut_apart_with_their_bias_and_the_scale(dtype, rounding):
    qkv, bias = _numbers(dtype, (2, 5, 3, 4, 12), (3 * 4 * 12,))
    scale = np.array([12**-0.5, 1.0, 1.0])[:, None, None]
    expected = (_exact(qkv) + _exact(bias).reshape(3, 4, 12)) * scale
    for part, found in enumerate(attention.split_heads(qkv, bias)):
        assert found.dtype == qkv.dtype
        np.testing.assert_allclose(_exact(found), expected[:, :, part].transpose(0, 2, 1, 3), rtol=rounding, atol=1e-6)


def test_a_querys_gradient_has_the_scale_to_more_digits_than_bfloat16_has():
    """48 ** -0.5 rounded to bfloat16 is 0.13 % too small: of all numbers alike, which no average takes off."""
    need_rounded_bfloat16()
    (gradient,) = _numbers("bfloat16", (2, 4, 50, 48))
    found, expected = _exact(attention.query_gradient(gradient)), _exact(gradient) * 48**-0.5
    np.testing.assert_allclose(found, expected, rtol=2**-8)
    assert abs((found * expected).sum() / (expected**2).sum() - 1) < 2e-4


@pytest.mark.parametrize(("dtype", "rounding"), DTYPES)
def test_the_two_together_are_softmaxs_gradient(dtype, rounding):
    logits, value, gradient = _numbers(dtype, (2, 4, 5, 5), (2, 4, 5, 12), (2, 5, 4, 12))
    of_head = tf.transpose(gradient, (0, 2, 1, 3))
    with tf.GradientTape() as tape:
        wide = tf.cast(logits, tf.float64)
        tape.watch(wide)
        weights = tf.nn.softmax(wide)
        gathered = weights @ tf.cast(value, tf.float64)
    expected = tape.gradient(gathered, wide, tf.cast(of_head, tf.float64))
    weights, gathered = (tf.cast(a, dtype) for a in (weights, tf.transpose(gathered, (0, 2, 1, 3))))
    sums = attention.head_dot_products(gathered, gradient)
    assert sums.dtype == tf.float32 and sums.shape == (2, 4, 5, 1)
    found = attention.logits_gradient(weights, tf.matmul(of_head, value, transpose_b=True), sums)
    assert found.dtype == logits.dtype
    bound = 8 * rounding * float(np.abs(expected).max())
    np.testing.assert_allclose(_exact(found), expected, rtol=0, atol=bound)
