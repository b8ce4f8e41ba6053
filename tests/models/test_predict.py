"""`predict` and `evaluate` are the plain model, at every call and after every kind of write to its weights."""

import keras
import numpy as np
import pytest
from support import needs_tensorflow, randomise

import keras_vit

ROW = keras_vit.Variant("row", width=32, depth=2, mlp_dim=64, num_heads=4, patch_size=4, image_size=16)
IMAGES = np.random.default_rng(1).standard_normal((6, 16, 16, 3)).astype("float32")


def built(dtype="float32"):
    return randomise(keras_vit.build(ROW, classes=5, classifier_activation=None, dtype=dtype))


def traced(model):
    """What the model answers in a graph, as `predict` has one."""
    import tensorflow as tf

    return np.asarray(tf.function(lambda images: model(images, training=False))(IMAGES))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "mixed_bfloat16"])
def test_the_twentieth_answer_is_the_first_bit_for_bit(dtype):
    model = built(dtype)
    first, *others = (model.predict_on_batch(IMAGES) for _ in range(20))
    assert all(np.array_equal(answer, first) for answer in others)
    assert np.array_equal(model.predict(IMAGES, verbose=0), first)
    if keras.backend.backend() == "tensorflow":
        assert np.array_equal(first, traced(model))


def by_assigning(model):
    for weight in model.weights:
        weight.assign(weight + 0.1)


def by_setting_all(model):
    model.set_weights([weight + 0.1 for weight in model.get_weights()])


def in_place(model):
    """Through arrays that share the weights' memory, of which TensorFlow hears nothing."""
    import tensorflow as tf

    for weight in model.weights:
        view = tf.convert_to_tensor(weight.value).__array__()
        np.add(view, np.asarray(0.1, view.dtype), out=view)


def by_adapters(model):
    rng = np.random.default_rng(2)
    for name in ("encoder_block_00", "encoder_block_01"):
        dense = model.get_layer(name).mlp.fc1
        dense.enable_lora(4)
        dense.lora_kernel_b.assign(rng.normal(0, 1, dense.lora_kernel_b.shape))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_predict_and_evaluate_answer_by_the_weights_of_now(dtype):
    model, zeros = built(dtype), np.zeros((6, 5), "float32")
    model.compile(loss="mse")
    on_tensorflow = keras.backend.backend() == "tensorflow"
    shared = [in_place] if on_tensorflow else []
    for _ in range(10):
        before = model.predict_on_batch(IMAGES).astype("float32")
    for change in (by_assigning, by_setting_all, *shared, by_adapters):
        change(model)
        # a graph of its own: on CPUs that compute in bfloat16 an eager call rounds otherwise
        expected = traced(model) if on_tensorflow else keras.ops.convert_to_numpy(model(IMAGES))
        expected = expected.astype("float32")
        answer, moved = model.predict_on_batch(IMAGES).astype("float32"), np.abs(expected - before).max()
        assert np.abs(answer - expected).max() < 0.1 * moved > 0.005, change.__name__
        loss = model.evaluate(IMAGES, zeros, verbose=0)
        assert loss == pytest.approx(np.mean(expected**2), rel=0.02), change.__name__
        before = expected


@needs_tensorflow
def test_training_with_new_adapters_asks_to_compile_anew():
    """Keras would go on training the kernels that `enable_lora` has frozen."""
    model, ones = built(), np.ones((6, 5), "float32")
    model.compile("sgd", "mse")
    model.train_on_batch(IMAGES, ones)
    dense = model.get_layer("encoder_block_00").mlp.fc1
    dense.enable_lora(4)
    frozen = np.asarray(dense._kernel)
    with pytest.raises(Exception, match=r"[Uu]nknown variable"):
        model.train_on_batch(IMAGES, ones)
    assert np.array_equal(frozen, np.asarray(dense._kernel))
    model.compile("sgd", "mse")
    model.train_on_batch(IMAGES, ones)
    assert np.abs(np.asarray(dense.lora_kernel_b)).max() > 0 and np.array_equal(frozen, np.asarray(dense._kernel))
