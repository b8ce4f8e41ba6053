"""Attention and its output projection for training on CPUs against the reference."""

from functools import partial

import numpy as np
import pytest
import tensorflow as tf
from kernels.saved_activations import saved_activations
from support import first_quick, need_rounded_bfloat16

import keras_vit
from keras_vit.kernels import token_sums
from keras_vit.kernels import training_attention as attended
from keras_vit.kernels.training import attention_forward
from keras_vit.layers import capture_attention
from keras_vit.layers.override import Override, overriding


def _numbers(dtype="float32"):
    """Projections of 5 images of 9 tokens for 2 heads, their bias, and a kernel."""
    shapes = (5, 9, 3, 2, 4), (24,), (8, 8)
    return [tf.cast(tf.random.stateless_normal(shape, (0, 0)), dtype) for shape in shapes]


def _attention(dtype="float32"):
    attention = keras_vit.layers.MultiHeadSelfAttention(2, dtype=dtype)
    attention.build((None, 9, 8))
    return attention


def _plain(dtype="float32"):
    """The reference of `attention_and_projection()`."""
    attention = _attention(dtype)

    def plain(qkv, bias, kernel):
        attended = attention._attend(qkv + tf.reshape(bias, (3, 2, 4)), training=False)
        return tf.reshape(attended, (-1, 8)) @ kernel

    return plain


@pytest.mark.broad
@pytest.mark.parametrize("many", [False, True])
def test_attention_saves_its_projections_and_the_attended_values_of_many_tokens(many, monkeypatch):
    monkeypatch.setattr(attended, "MANY_TOKENS", 9 if many else 10)
    monkeypatch.setattr(token_sums, "SAVE_BELOW", 45)
    numbers = _numbers()
    expected = [("float32", (5, 9, 3, 2, 4))] + [("float32", (45, 8))] * many
    assert saved_activations(attended.attention_and_projection(), numbers, 5 * 9 * 8) == expected
    assert {("float32", (5, 2, 9, 9)), ("float32", (45, 8))} <= set(saved_activations(_plain(), numbers, 5 * 9 * 8))
    assert ("float32", (5, 2, 9, 9)) in saved_activations(
        attended.attention_and_projection(recompute=False), numbers, 5 * 9 * 8
    )


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_weights_are_saved_for_few_tokens_and_without_recompute(dtype, monkeypatch):
    for few, recompute, times in ((46, True, True), (45, True, False), (45, False, True)):
        monkeypatch.setattr(token_sums, "SAVE_BELOW", few)
        found = saved_activations(attended.attention_and_projection(recompute), _numbers(dtype), 5 * 9 * 8)
        assert found.count((dtype, (5, 2, 9, 9))) == times


def _names_before(operation):
    """Of all operations that a graph runs before this one."""
    known, ahead = set(), [operation]
    while ahead:
        operation = ahead.pop()
        ahead += [o for o in (*operation.control_inputs, *(i.op for i in operation.inputs)) if o.name not in known]
        known.add(operation.name)
    return known


def test_images_are_cut_up_for_the_gradient_no_sooner_than_it_is_there(monkeypatch):
    """Cut up they are a copy, which would stay in memory from the forward pass on."""
    monkeypatch.setattr(attended, "MANY_TOKENS", 9)
    qkv, bias, kernel = _numbers()

    @tf.function
    def gradients(qkv):
        with tf.GradientTape() as tape:
            tape.watch(qkv)
            y = attended.attention_and_projection()(qkv, bias, kernel)
        by_y = tf.identity(2 * y, "by_y")
        return tape.gradient(y, qkv, by_y)

    operations = gradients.get_concrete_function(qkv).graph.get_operations()
    cuts = [operation for operation in operations if operation.type == "TensorListFromTensor"]
    late = {cut.name for cut in cuts if "by_y" in _names_before(cut)}
    assert len(cuts) == 4 and len(late) == 3


@pytest.mark.parametrize("batch", first_quick([None, 5]))
@pytest.mark.parametrize(("dtype", "bound"), [("float32", 1e-5), ("bfloat16", 2**-6)])
@pytest.mark.parametrize("many", [False, True])
def test_attention_has_the_plain_value_and_gradients(many, dtype, bound, batch, monkeypatch):
    if dtype == "bfloat16":
        need_rounded_bfloat16()
    monkeypatch.setattr(attended, "MANY_TOKENS", 9 if many else 10)
    qkv, bias, kernel = _numbers(dtype)

    def all_of(form):
        @tf.function(input_signature=[tf.TensorSpec((batch, *qkv.shape[1:]), dtype)])
        def both(qkv):
            with tf.GradientTape() as tape:
                tape.watch([qkv, bias, kernel])
                y = form(qkv, bias, kernel)
                of_y = tf.reduce_sum(tf.cast(y, tf.float32) ** 2)
            whole = (batch, 2, 9, 9)  # all images' weights
            operations = tf.compat.v1.get_default_graph().get_operations()
            seen.append(any(output.shape == whole for op in operations for output in op.outputs))
            return y, *tape.gradient(of_y, [qkv, bias, kernel])

        seen = []
        return seen, [tf.cast(found, tf.float32) for found in both(qkv)]

    (whole, found), (_, expected) = all_of(attended.attention_and_projection()), all_of(_plain(dtype))
    assert whole == [not many]
    for new, old in zip(found, expected, strict=True):
        np.testing.assert_allclose(new, old, rtol=0, atol=bound * float(tf.reduce_max(tf.abs(old))))


def test_of_an_unknown_number_of_tokens_it_is_the_same():
    qkv, bias, kernel = _numbers()

    @tf.function(input_signature=[tf.TensorSpec((None, None, *qkv.shape[2:]))])
    def gradient(qkv):
        with tf.GradientTape() as tape:
            tape.watch(qkv)
            y = attended.attention_and_projection()(qkv, bias, kernel)
        return tape.gradient(y, qkv, y)

    with tf.GradientTape() as tape:
        tape.watch(qkv)
        y = _plain()(qkv, bias, kernel)
    np.testing.assert_allclose(gradient(qkv), tape.gradient(y, qkv, y), rtol=0, atol=1e-4)


def test_watched_weights_are_seen_while_training(monkeypatch):
    monkeypatch.setattr(attended, "MANY_TOKENS", 9)
    attention = _attention()
    forward = partial(attention_forward, attention, attended.attention_and_projection())
    with overriding([Override(attention, "forward", forward, training=True)]), capture_attention([attention]) as seen:
        attention(tf.ones((5, 9, 8)), training=True)
    assert [tuple(weights.shape) for weights in seen] == [(5, 2, 9, 9)]
