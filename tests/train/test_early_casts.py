"""Kernels that are cast to bfloat16 before a pass, so that their gradients come in it."""

from dataclasses import replace

import keras
import numpy as np
import pytest
import tensorflow as tf
from support import first_quick, max_difference, need_rounded_bfloat16, needs_tensorflow
from train import test_step
from train.test_step import IMAGES, LABELS, RECIPE, TARGETS, with_optimizer

from keras_vit.kernels.recompute import with_values
from keras_vit.train import step
from keras_vit.train.state import first_state

pytestmark = needs_tensorflow
MIXED = replace(RECIPE, precision="mixed_bfloat16")
KERNELS = {"qkv", "out", "fc1", "fc2"}  # of products; the patches' is a convolution's, the head computes in float32


def _early(recipe):
    state = first_state(recipe, LABELS, 100, tf.distribute.get_strategy())
    early = step.early_casts(state.model, state.trained)
    return {variable.path for variable, cast in zip(state.trained, early, strict=True) if cast}


def test_they_are_the_kernels_of_products_in_bfloat16():
    paths = _early(MIXED)
    assert len(paths) == 2 * len(KERNELS) and {path.split("/")[-2] for path in paths} == KERNELS
    assert all(path.endswith("/kernel") for path in paths)
    assert not _early(RECIPE) and not _early(replace(RECIPE, precision="mixed_float16"))


@pytest.mark.parametrize(
    ("recipe", "narrow"),
    first_quick(
        [
            (MIXED, True),
            (with_optimizer(MIXED, accumulate=2), False),
            (with_optimizer(MIXED, clip_norm=1e-3), True),
            (with_optimizer(MIXED, sam=0.05), True),
            (replace(MIXED, recompute=True), True),
        ]
    ),
    ids=["plain", "in parts", "clipped", "sam", "recomputed"],
)
def test_they_change_the_gradients_type_and_no_number(recipe, narrow, monkeypatch):
    need_rounded_bfloat16()
    found = []
    for cast in (True, False):
        with monkeypatch.context() as patch:
            if not cast:
                patch.setattr(step, "early_casts", lambda model, variables: [False] * len(variables))
            state, update = test_step.start(recipe)
            seen, plainly = set(), state.optimizer.update_step

            def spied(gradient, *rest, seen=seen, plainly=plainly):
                seen.add(gradient.dtype)
                plainly(gradient, *rest)

            patch.setattr(state.optimizer, "update_step", spied)
            update(IMAGES, TARGETS), update(IMAGES, TARGETS)
            assert (tf.bfloat16 in seen) == (cast and narrow)
        found.append([np.asarray(variable) for variable in state.trained])
    assert max(max_difference(new, old) for new, old in zip(*found, strict=True)) < 1e-6


def test_a_variable_has_the_value_that_it_is_given_in_that_ones_type():
    variable = keras.Variable(np.ones(3, "float32"))
    with with_values([(variable, tf.constant([1.0, 2.0, 3.0], tf.bfloat16))]):
        assert variable.value.dtype == tf.bfloat16
    assert variable.value.dtype == tf.float32
