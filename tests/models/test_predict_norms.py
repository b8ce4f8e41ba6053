"""What `predict` and `evaluate` trace of a model normalises by oneDNN; nothing else does."""

from concurrent.futures import ThreadPoolExecutor

import keras
import numpy as np
import pytest
from support import max_difference, randomise

import keras_vit
from keras_vit.layers import LayerNorm, layernorm

ROW = keras_vit.Variant("row", width=16, depth=2, mlp_dim=24, num_heads=4, patch_size=4, image_size=16)
IMAGES = np.random.default_rng(1).standard_normal((3, 16, 16, 3)).astype("float32")


def built():
    return randomise(keras_vit.build(ROW, classes=5, classifier_activation=None))


@pytest.fixture
def by_onednn(monkeypatch):
    """The layer norms that have been asked of oneDNN, a list."""
    if keras.backend.backend() != "tensorflow":
        pytest.skip("TensorFlow alone has such norms")
    from keras_vit.xla import norms

    if not norms.onednn_has("float32", "float32"):
        pytest.skip("TensorFlow has no layer normalisation by oneDNN here")
    asked, form = [], norms.layer_normed
    monkeypatch.setattr(norms, "layer_normed", lambda *args, **options: asked.append(1) or form(*args, **options))
    return asked


def test_predict_and_evaluate_normalise_by_onednn(by_onednn):
    model = built()
    expected = model(IMAGES)
    model.compile(loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    plain_loss = model.loss(np.arange(3), expected)
    assert not by_onednn
    for images in (IMAGES, IMAGES[:2]):
        assert max_difference(model.predict(images, verbose=0), expected[: len(images)]) < 1e-5
    assert len(by_onednn) >= 2 * 2 + 1
    by_onednn.clear()
    assert model.evaluate(IMAGES, np.arange(3), verbose=0) == pytest.approx(float(plain_loss), rel=1e-5)
    assert len(by_onednn) >= 2 * 2 + 1
    by_onednn.clear()
    model(IMAGES)
    assert not by_onednn, "the model's own calls have the plain form, which exports take"


@pytest.mark.parametrize("how", ["jit_compile", "run_eagerly", "functions run eagerly", "own"])
def test_where_onednn_cannot_be_predict_has_the_plain_norms(how, by_onednn, request):
    import tensorflow as tf

    model = built()
    if how == "functions run eagerly":
        request.addfinalizer(lambda: tf.config.run_functions_eagerly(False))
        tf.config.run_functions_eagerly(True)
    elif how != "own":
        model.compile(**{how: True})
    else:
        for layer in model._flatten_layers():
            if isinstance(layer, LayerNorm):
                layer.norm = lambda *args: layernorm.layer_norm(*args)
    assert max_difference(model.predict_on_batch(IMAGES), model(IMAGES)) < 1e-5
    assert not by_onednn


def test_other_threads_keep_the_plain_norms_while_predict_is_traced(by_onednn):
    model, found = built(), []
    other = keras.Model(model.input, model.get_layer("pooling").output)
    expected = other(IMAGES)
    head, call = model.get_layer("head"), model.get_layer("head").call

    def traced(*args, **options):
        asked = len(by_onednn)
        with ThreadPoolExecutor(1) as pool:
            found.append(pool.submit(lambda: max_difference(other(IMAGES), expected)).result())
        assert 0 < asked == len(by_onednn)
        return call(*args, **options)

    head.call = traced
    model.predict(IMAGES, verbose=0)
    assert found and max(found) < 1e-5


def test_replicas_normalise_by_onednn_too(by_onednn):
    import tensorflow as tf

    with tf.distribute.MirroredStrategy(["CPU:0"]).scope():
        model = built()
        model.compile(loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
    expected = model(IMAGES)
    assert max_difference(model.predict(IMAGES, verbose=0), expected) < 1e-5 and by_onednn
    loss, _ = model.evaluate(IMAGES, np.arange(3), verbose=0)
    assert loss == pytest.approx(float(model.loss(np.arange(3), expected)), rel=1e-5)
