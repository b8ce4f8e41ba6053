"""Clipping by the norm of all gradients."""

import pytest
import tensorflow as tf
from support import needs_tensorflow

from keras_vit.train.optim.gradients import clip_scale, global_norm

pytestmark = needs_tensorflow


def test_the_norm_is_of_all_in_float32():
    norm = global_norm([tf.constant([3.0, 0.0]), tf.constant([[[4.0]]], tf.bfloat16)])
    assert norm.dtype == tf.float32 and float(norm) == pytest.approx(5.0)


def test_clipping_makes_no_norm_larger():
    assert float(clip_scale(5.0, 1.0)) == pytest.approx(0.2)
    assert float(clip_scale(5.0, 10.0)) == 1.0 and float(clip_scale(0.0, 1.0)) == 1.0
    assert clip_scale(5.0, None) is None
