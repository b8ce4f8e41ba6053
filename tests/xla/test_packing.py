"""`predict` packs kernels that stay as they are, and answers by the weights of now."""

import dataclasses
from concurrent.futures import ThreadPoolExecutor

import keras
import numpy as np
import pytest
import tensorflow as tf
from support import max_difference, needs_tensorflow, randomise

import keras_vit
from keras_vit.layers import EncoderBlock, MultiHeadSelfAttention
from keras_vit.models.lean import LeanModel
from keras_vit.xla import onednn, packing

pytestmark = needs_tensorflow
ROW = keras_vit.Variant("row", width=32, depth=3, mlp_dim=64, num_heads=4, patch_size=4, image_size=16)
IMAGES = np.random.default_rng(1).standard_normal((6, 16, 16, 3)).astype("float32")
ROUNDING = 0.15  # of the answers' spread, in bfloat16


def built(dtype="mixed_bfloat16", **options):
    return randomise(keras_vit.build(ROW, classes=5, classifier_activation=None, dtype=dtype, **options))


def off(answer, model):
    """How far an answer to `IMAGES` is from the model's, over the spread of those."""
    expected = np.asarray(model(IMAGES), "float32")
    return max_difference(answer, expected[: len(answer)]) / expected.std()


@pytest.fixture
def products(monkeypatch):
    """The held products that were traced, a list; `predict` packs in its third call."""
    if not onednn.has_held_products():
        pytest.skip("TensorFlow has no such product by oneDNN here")
    traced, form = [], onednn.held_product
    monkeypatch.setattr(onednn, "held_product", lambda *args: traced.append(1) or form(*args))
    monkeypatch.setattr(packing, "PATIENCE", 3)
    return traced


@pytest.mark.parametrize("dtype", ["bfloat16", "mixed_bfloat16"])
def test_predict_packs_kernels_that_stay_as_they_are(products, dtype):
    model = built(dtype)
    answers = model.predict(IMAGES[:4], batch_size=2, verbose=0)
    assert not products and off(answers, model) < ROUNDING
    answers = model.predict(IMAGES, batch_size=2, verbose=0)
    of_blocks = 2 * (4 + 2) + 2  # two whole ones, and the last one's MLP
    assert len(products) == of_blocks and off(answers, model) < ROUNDING
    assert off(model.predict(IMAGES, batch_size=2, verbose=0), model) < ROUNDING
    assert off(model.predict(IMAGES, batch_size=4, verbose=0), model) < ROUNDING
    assert len(products) == of_blocks, "traced and packed once for all sizes"
    for count in (1, 5, 6):
        assert off(model.predict_on_batch(IMAGES[:count]), model) < ROUNDING
    assert len(products) == of_blocks, "and of whoever gives them"


def changed_by_assignment(model):
    for weight in model.get_layer("encoder_block_01").weights:
        weight.assign(weight[::-1])


def changed_in_place(model):
    for weight in model.get_layer("encoder_block_01").weights:
        weight.value.assign_add(tf.random.stateless_normal(weight.shape, (1, 2), stddev=0.2))


def changed_by_a_loop_of_ones_own(model):
    optimizer = keras.optimizers.SGD(0.02)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(model(IMAGES))
    optimizer.apply(tape.gradient(loss, [w.value for w in model.trainable_variables]), model.trainable_variables)


def changed_by_training(model):
    model.compile(keras.optimizers.SGD(0.02), "mse")
    model.predict(IMAGES, batch_size=1, verbose=0)
    assert model.predict_function._seen
    model.train_on_batch(IMAGES, np.ones((6, 5), "float32"))
    assert not model.predict_function._seen, "training has the memory"


@pytest.mark.parametrize(
    "change", [changed_by_assignment, changed_in_place, changed_by_a_loop_of_ones_own, changed_by_training]
)
def test_predict_answers_by_the_weights_of_now(products, change):
    model = built()
    model.predict(IMAGES, batch_size=1, verbose=0)
    for _ in range(2):
        assert products
        before = np.asarray(model(IMAGES), "float32")
        change(model)
        products.clear()
        first = model.predict_on_batch(IMAGES)
        assert max_difference(first, before) > 2 * ROUNDING * before.std()
        assert off(first, model) < ROUNDING and not products, "with the first call it does not pack"
        # For longer each time, since it packed in vain.
        assert off(model.predict(np.tile(IMAGES, (4, 1, 1, 1)), batch_size=1, verbose=0)[-6:], model) < ROUNDING
        assert products


def test_weights_may_change_within_a_call_of_predict(products):
    model = built()
    bias = model.get_layer("encoder_block_01").mlp.fc2.bias

    class Swap(keras.callbacks.Callback):
        def on_predict_batch_begin(self, batch, logs=None):
            if batch == 3:
                bias.assign(bias + np.linspace(-3, 3, ROW.width))

    old = np.asarray(model(IMAGES), "float32")
    answers = model.predict(IMAGES, batch_size=1, verbose=0, callbacks=[Swap()])
    assert products and max_difference(answers[:3], old[:3]) < ROUNDING * old.std()
    assert max_difference(answers[3:], np.asarray(model(IMAGES), "float32")[3:]) < ROUNDING * old.std()
    assert max_difference(old, np.asarray(model(IMAGES), "float32")) > 2 * ROUNDING * old.std()


class Sharp(MultiHeadSelfAttention):
    def split(self, qkv):
        query, key, value = super().split(qkv)
        return 3 * query, key, value


class WithGradient(LeanModel):
    """Answers with the gradient of its answers by the images."""

    def predict_step(self, data):
        images = data[0]
        with tf.GradientTape() as tape:
            tape.watch(images)
            loss = tf.reduce_sum(super().predict_step((images,)) ** 2)
        return tape.gradient(loss, images)


def test_a_subclass_of_attention_keeps_its_form(products):
    model = built(pooling="gap")
    for layer in model.layers:
        if isinstance(layer, EncoderBlock):
            layer.attention.__class__ = Sharp
    assert off(model.predict(IMAGES, batch_size=1, verbose=0), model) < ROUNDING
    assert len(products) == 2 * 3, "MLPs"


def test_a_predict_step_with_gradients_keeps_them(products):
    model = built()
    model = WithGradient(model.input, model.output)
    answers = [model.predict_on_batch(IMAGES) for _ in range(5)]
    assert not products and np.abs(answers[0]).max() > 0
    assert all(max_difference(answer, answers[0]) == 0 for answer in answers)


def test_adapters_are_weights_too(products):
    model = built()
    model.predict(IMAGES, batch_size=1, verbose=0)
    dense = model.get_layer("encoder_block_00").mlp.fc1
    dense.enable_lora(4)
    model.predict(IMAGES, batch_size=1, verbose=0)
    for weight in (dense.lora_kernel_a, dense.lora_kernel_b):
        weight.assign(np.random.default_rng(2).normal(0, 1, weight.shape))
    products.clear()
    assert off(model.predict(np.tile(IMAGES, (4, 1, 1, 1)), batch_size=1, verbose=0)[-6:], model) < ROUNDING
    assert products


def test_it_can_be_turned_off_and_is_within_graphs_and_of_several_steps(products):
    model = built()
    model.predict_on_batch(IMAGES)
    call = tf.function(lambda x: model.predict_function([(x,)]), autograph=False)
    for _ in range(4):
        assert off(call(IMAGES), model) < ROUNDING
    assert not products and isinstance(model.predict_function, packing.Packing)
    for setting in ("packs_kernels", "steps"):
        model = built()
        if setting == "steps":
            model.compile(steps_per_execution=2)
        else:
            model.packs_kernels = False
        for _ in range(4):
            assert off(model.predict(IMAGES, batch_size=2, verbose=0), model) < ROUNDING
        assert not products and not isinstance(model.predict_function, packing.Packing)


def test_a_third_size_of_images_is_answered_by_keras_own(products):
    model = built(input_shape=(None, None, 3))
    for side in (8, 12, 16, 8, 12, 16):
        images = np.random.default_rng(side).standard_normal((2, side, side, 3)).astype("float32")
        expected = np.asarray(model(images), "float32")
        for _ in range(4):
            assert max_difference(model.predict_on_batch(images), expected) < ROUNDING * expected.std()
    assert len(products) == 2 * 14


def test_labels_and_numbers_beside_images_do_not_matter(products):
    model = built()
    for label in (np.ones(2), np.ones((2, 3)), np.float32(1)):
        data = tf.data.Dataset.from_tensors((IMAGES[:2], label)).repeat(4)
        assert off(model.predict(data, verbose=0)[:2], model) < ROUNDING
    assert len(products) == 14


def test_it_waits_longer_where_it_packed_in_vain_and_no_longer_where_it_paid(products):
    model, last = built(), []
    for calls in (4, 8, 30, 4):
        products.clear()
        changed_by_assignment(model)
        for _ in range(calls):
            model.predict_on_batch(IMAGES)
        last.append((model.predict_function._patience, bool(products)))
    assert last == [(3, True), (6, True), (12, True), (3, True)]


def test_without_the_product_predict_is_keras_own(monkeypatch):
    monkeypatch.setattr(onednn, "has_held_products", lambda: False)
    monkeypatch.setattr(packing, "PATIENCE", 1)
    model = built("bfloat16")
    assert model.predict_on_batch(IMAGES).shape == (6, 5)
    assert not isinstance(model.predict_function, packing.Packing)
    keras_own = model.predict_function
    monkeypatch.setattr(onednn, "has_held_products", lambda: True)
    wrapped = packing.packing(model, keras_own)
    assert isinstance(wrapped, packing.Packing) and packing.packing(model, wrapped) is wrapped


@pytest.mark.parametrize("how", ["float32", "run_eagerly", "jit_compile", "replicas", "relative"])
def test_elsewhere_predict_is_keras_own(products, how):
    if how == "replicas":
        with tf.distribute.MirroredStrategy(["CPU:0"]).scope():
            model = built()
    else:
        model = built(*(["float32"] if how == "float32" else []))
    if how == "relative":
        row = dataclasses.replace(ROW, positions="relative", mlp_kernel_size=3)
        model = randomise(keras_vit.build(row, classes=5, classifier_activation=None, dtype="mixed_bfloat16"))
    if how in ("run_eagerly", "jit_compile"):
        model.compile(**{how: True})
    for _ in range(4):
        assert off(model.predict_on_batch(IMAGES), model) < ROUNDING
    assert not products and not isinstance(model.predict_function, packing.Packing)


def test_threads_may_share_a_model(products):
    model = built()
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: model.predict_on_batch(IMAGES), range(24)))
    assert products and max(off(answer, model) for answer in answers) < ROUNDING
    assert isinstance(model.predict_function, packing.Packing)
    changed_by_assignment(model)
    assert off(model.predict_on_batch(IMAGES), model) < ROUNDING


def test_where_functions_run_eagerly_predict_is_keras_own(products, request, monkeypatch):
    monkeypatch.setattr(onednn, "has_held_products", onednn.has_held_products.__wrapped__)  # asked anew
    early, late = built(), built()
    early.predict(IMAGES, batch_size=1, verbose=0)
    products.clear()
    request.addfinalizer(lambda: tf.config.run_functions_eagerly(False))
    tf.config.run_functions_eagerly(True)
    for model in (early, late):
        assert off(model.predict_on_batch(IMAGES), model) < ROUNDING
    assert not products


def test_compiling_a_model_anew_lets_go_of_what_was_packed(products):
    model = built()
    model.predict(IMAGES, batch_size=1, verbose=0)
    model.compile(run_eagerly=True)
    assert off(model.predict(IMAGES, verbose=0), model) < ROUNDING
    assert not isinstance(model.predict_function, packing.Packing)
