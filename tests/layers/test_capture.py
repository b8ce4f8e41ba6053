"""What `capture_attention` changes ends with the `with`, whatever function was called inside."""

import keras
import numpy as np
import pytest
from support import max_difference, needs_tensorflow, randomise

import keras_vit
import keras_vit.analysis
from keras_vit.layers import EncoderBlock, capture_attention

ROW = keras_vit.Variant("row", width=16, depth=2, mlp_dim=24, num_heads=4, patch_size=4, image_size=16)
IMAGES = np.random.default_rng(1).standard_normal((3, 16, 16, 3)).astype("float32")
TRACES = keras.backend.backend() != "torch"
NO_CAPTURE = (
    "expected no `capture_attention` around it|capture_attention expected eager calls"  # JAX traces `evaluate` earlier
)
TRACED = "capture_attention expected eager calls"
SILENT = (
    "capture_attention expected every layer to compute inside the `with`, received nothing from attention, attention"
)


def built():
    return randomise(keras_vit.build(ROW, classes=5, classifier_activation=None))


def attentions(model):
    return [layer.attention for layer in model._flatten_layers() if isinstance(layer, EncoderBlock)]


def ablated(index, weights):
    return 0 * weights


def answer_of(model):
    with capture_attention(attentions(model), ablated):
        answer = model(IMAGES, training=False)
    assert max_difference(answer, model(IMAGES)) > 1e-2
    return answer


@pytest.mark.parametrize("traced_before", [False, True])
@pytest.mark.parametrize("method", ["predict", "predict_on_batch", "evaluate"])
def test_keras_methods_refuse_and_answer_as_ever_afterwards(method, traced_before):
    if not TRACES:
        pytest.skip("torch computes eagerly")
    model, zeros = built(), np.zeros((3, 5), "float32")
    model.compile(loss="mse")
    calls = {
        "predict": lambda: model.predict(IMAGES, verbose=0),
        "predict_on_batch": lambda: model.predict_on_batch(IMAGES),
        "evaluate": lambda: np.asarray(model.evaluate(IMAGES, zeros, verbose=0)),
    }
    call, expected = calls[method], np.asarray(model(IMAGES))
    expected = np.mean(expected**2) if method == "evaluate" else expected
    if traced_before:
        call()
    with pytest.raises(ValueError, match=NO_CAPTURE), capture_attention(attentions(model), ablated):
        call()
    assert max_difference(call(), expected) < 1e-5


def test_run_eagerly_predict_is_changed_inside_alone():
    """Batch by batch, each layer by its own index."""
    model, indices = built(), []
    model.compile(loss="mse", run_eagerly=TRACES)
    before, expected = model.predict(IMAGES, verbose=0), answer_of(model)
    with capture_attention(attentions(model), lambda i, weights: indices.append(i) or 0 * weights) as seen:
        inside = model.predict(IMAGES, batch_size=1, verbose=0)
    assert max_difference(inside, expected) < 1e-5 and indices == [0, 1] * 3 and len(seen) == 6
    assert max_difference(model.predict(IMAGES, verbose=0), before) < 1e-6


@pytest.mark.parametrize("traced_before", [False, True])
def test_a_model_around_ours_is_refused_too(traced_before):
    if not TRACES:
        pytest.skip("torch computes eagerly")
    vit = built()
    model = keras.Sequential([keras.Input((16, 16, 3)), vit, keras.layers.Dense(2)])
    expected = keras.ops.convert_to_numpy(model(IMAGES))
    if traced_before:
        model.predict_on_batch(IMAGES)
    sentence = SILENT if traced_before else "capture_attention expected eager calls, received one that is traced"
    with pytest.raises(ValueError, match=sentence), capture_attention(attentions(vit), ablated):
        model.predict_on_batch(IMAGES)
    assert max_difference(model.predict_on_batch(IMAGES), expected) < 1e-5


@needs_tensorflow
def test_a_function_of_the_users_is_refused_unless_it_is_to_keep_the_change():
    import tensorflow as tf

    model = built()
    expected, changed = np.asarray(model(IMAGES)), answer_of(model)
    call = tf.function(lambda images: model(images, training=False), autograph=False)
    with (
        pytest.raises(ValueError, match=TRACED),
        capture_attention(attentions(model), ablated),
    ):
        call(IMAGES)
    assert max_difference(call(IMAGES), expected) < 1e-5
    with pytest.raises(ValueError, match=SILENT), capture_attention(attentions(model), ablated):
        call(IMAGES)
    kept = tf.function(lambda images: model(images, training=False), autograph=False)
    with capture_attention(attentions(model), ablated, traced=True):
        kept(IMAGES)
    assert max_difference(kept(IMAGES), changed) < 1e-5
    assert max_difference(model(IMAGES), expected) == 0


@needs_tensorflow
def test_compiled_refuses_it_too():
    model = built()
    expected = np.asarray(model(IMAGES))
    for options in ({}, {"frozen": True}):
        answer = keras_vit.compiled(model, **options)
        with (
            pytest.raises(ValueError, match=TRACED),
            capture_attention(attentions(model), ablated),
        ):
            answer(IMAGES)
        assert max_difference(answer(IMAGES), expected) < 1e-5


def test_an_analysis_inside_replaces_the_outer_one_and_says_so():
    """The outer change would be missing from what it returns."""
    model = built()
    with pytest.raises(ValueError, match=SILENT), capture_attention(attentions(model), ablated):
        keras_vit.analysis.attention_maps(model, IMAGES)
    maps = keras_vit.analysis.attention_maps(model, IMAGES)
    np.testing.assert_allclose(maps.sum(axis=-1), 1, rtol=1e-5)
