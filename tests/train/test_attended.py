"""Attention and its product as training on CPUs computes them, beside the plain form."""

import numpy as np
import pytest
import tensorflow as tf
from support import need_rounded_bfloat16
from train.kept import kept

import keras_vit
from keras_vit.train import attended
from keras_vit.xla import rows


def _attention(dtype="float32"):
    """A layer of 2 heads, projections of 5 images of 9 tokens, and a kernel."""
    attention = keras_vit.layers.MultiHeadSelfAttention(2, dtype=dtype)
    attention.build((None, 9, 8))
    return attention, *(tf.cast(tf.random.stateless_normal(s, (0, 0)), dtype) for s in ((5, 9, 3, 2, 4), (8, 8)))


@pytest.mark.parametrize("many", [False, True])
def test_attention_keeps_its_projections_and_of_many_tokens_what_it_gathered(many, monkeypatch):
    monkeypatch.setattr(attended, "MANY", 9 if many else 10)
    attention, qkv, kernel = _attention()
    expected = [("float32", (5, 9, 3, 2, 4))] + [("float32", (45, 8))] * many
    assert kept(attended.attended_product(attention), [qkv, kernel], 5 * 9 * 8) == expected
    plain = kept(lambda qkv, kernel: attention.attend(qkv) @ kernel, [qkv, kernel], 5 * 9 * 8)
    assert {("float32", (5, 2, 9, 9)), ("float32", (45, 8))} <= set(plain)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_of_few_rows_in_bfloat16_the_weights_are_kept(dtype, monkeypatch):
    attention, qkv, kernel = _attention(dtype)
    for few, times in ((46, dtype == "bfloat16"), (45, False)):
        monkeypatch.setattr(rows, "FEW", few)
        found = kept(attended.attended_product(attention), [qkv, kernel], 5 * 9 * 8)
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
    """Cut up they are a copy, which would be kept from the forward pass on."""
    monkeypatch.setattr(attended, "MANY", 9)
    attention, qkv, kernel = _attention()

    @tf.function
    def gradients(qkv):
        with tf.GradientTape() as tape:
            tape.watch(qkv)
            y = attended.attended_product(attention)(qkv, kernel)
        by_y = tf.identity(2 * y, "by_y")
        return tape.gradient(y, qkv, by_y)

    operations = gradients.get_concrete_function(qkv).graph.get_operations()
    cuts = [operation for operation in operations if operation.type == "TensorListFromTensor"]
    late = {cut.name for cut in cuts if "by_y" in _names_before(cut)}
    assert len(cuts) == 4 and len(late) == 3


@pytest.mark.parametrize("batch", [5, None])
@pytest.mark.parametrize(("dtype", "bound"), [("float32", 1e-5), ("bfloat16", 2**-6)])
@pytest.mark.parametrize("many", [False, True])
def test_attention_has_the_plain_value_and_gradients(many, dtype, bound, batch, monkeypatch):
    if dtype == "bfloat16":
        need_rounded_bfloat16()
    monkeypatch.setattr(attended, "MANY", 9 if many else 10)
    attention, qkv, kernel = _attention(dtype)

    def all_of(form):
        @tf.function(input_signature=[tf.TensorSpec((batch, *qkv.shape[1:]), dtype)])
        def both(qkv):
            with tf.GradientTape() as tape:
                tape.watch([qkv, kernel])
                y = form(qkv, kernel)
                of_y = tf.reduce_sum(tf.cast(y, tf.float32) ** 2)
            whole = (batch, 2, 9, 9)  # all images' weights
            operations = tf.compat.v1.get_default_graph().get_operations()
            seen.append(any(output.shape == whole for op in operations for output in op.outputs))
            return y, *tape.gradient(of_y, [qkv, kernel])

        seen = []
        return seen, [tf.cast(found, tf.float32) for found in both(qkv)]

    (whole, found), (_, expected) = all_of(attended.attended_product(attention)), all_of(
        lambda qkv, kernel: attention.attend(qkv) @ kernel
    )  # fmt: skip
    assert whole == [not many]
    for new, old in zip(found, expected, strict=True):
        np.testing.assert_allclose(new, old, rtol=0, atol=bound * float(tf.reduce_max(tf.abs(old))))


def test_watched_weights_are_seen_while_training(monkeypatch):
    monkeypatch.setattr(attended, "MANY", 9)
    attention, *_ = _attention()
    attention.attended_product_in_training = attended.attended_product(attention)
    seen = []
    attention.watch = lambda weights: seen.append(weights.shape) or weights
    attention(tf.ones((5, 9, 8)), training=True)
    assert seen == [(5, 2, 9, 9)]
