"""Clipping by the norm of all gradients."""

import numpy as np
import pytest
import tensorflow as tf
from support import needs_tensorflow

from keras_vit.train.gradients import clip_by_norm

pytestmark = needs_tensorflow


def test_clipping_is_by_the_norm_of_all():
    gradients = [tf.constant([3.0, 0.0]), tf.constant([[4.0]])]
    clipped, norm = clip_by_norm(gradients, 1.0)
    assert float(norm) == pytest.approx(5.0)
    assert np.allclose(clipped[0], [0.6, 0.0]) and np.allclose(clipped[1], [[0.8]])
    assert np.allclose(clip_by_norm(gradients, 10.0)[0][1], [[4.0]])
    assert np.allclose(clip_by_norm(gradients, None)[0][1], [[4.0]])
    assert np.allclose(clip_by_norm([tf.zeros(2)], 1.0)[0][0], 0.0)


def test_gradients_of_both_types_are_clipped_to_float32():
    clipped, norm = clip_by_norm([tf.constant([3.0, 0.0]), tf.constant([[[4.0]]], tf.bfloat16)], 1.0)
    assert float(norm) == pytest.approx(5.0) and {gradient.dtype for gradient in clipped} == {tf.float32}
    assert np.allclose(clipped[0], [0.6, 0.0]) and np.allclose(clipped[1], [[[0.8]]])
