"""Quantized models and models with LoRA's adapters: every faster way to compute them answers as they do, or refuses."""

import numpy as np
import pytest
from support import adapt, max_difference, needs_tensorflow, quantize, randomise, trained_on_cpu

import keras_vit
from keras_vit.kernels.split_matmuls import split_layers, split_overrides
from keras_vit.layers.override import overriding

ROW = keras_vit.Variant("tiny", width=16, depth=2, mlp_dim=24, num_heads=2, patch_size=4, image_size=8)
IMAGES = np.random.default_rng(0).uniform(-1, 1, (3, 8, 8, 3)).astype("float32")


def built():
    return randomise(keras_vit.build(ROW, classes=5))


def both():
    return [pytest.param(lambda: quantize(built(), "int8"), id="int8"), pytest.param(lambda: adapt(built()), id="lora")]


@pytest.mark.broad
@needs_tensorflow
@pytest.mark.parametrize("make", both())
@pytest.mark.parametrize("options", [{"frozen": True}, pytest.param({"whole": True}, marks=pytest.mark.large)])
def test_compiled_answers_as_the_model_does(make, options):
    model = make()
    assert max_difference(keras_vit.compiled(model, **options)(IMAGES), model(IMAGES)) < 1e-6


@pytest.mark.broad
def test_products_in_parts_have_the_adapters_and_leave_integers_alone():
    model = adapt(built())
    expected = model(IMAGES)
    with overriding(split_overrides(model)):
        assert max_difference(model(IMAGES), expected) < 1e-6
    assert list(split_layers(model)) and not list(split_layers(quantize(built(), "int8")))


@pytest.mark.broad
@needs_tensorflow
@pytest.mark.parametrize("make", both())
def test_the_forms_for_training_on_cpus_answer_as_the_plain_ones_do(make):
    model = make()
    expected = model(IMAGES, training=True)
    with trained_on_cpu(model):
        assert max_difference(model(IMAGES, training=True), expected) < 1e-6


def test_a_published_layout_has_the_adapters_merged_and_says_so(tmp_path, capsys):
    model = adapt(built())
    keras_vit.save_weights(model, tmp_path / "merged.npz")
    assert "LoRA's adapters of 9 dense layers are merged into their kernels" in capsys.readouterr().err
    plain = built()
    keras_vit.load_weights(plain, tmp_path / "merged.npz")
    assert max_difference(plain(IMAGES), model(IMAGES)) < 1e-6
    keras_vit.save_weights(model, tmp_path / "own.keras")
    capsys.readouterr()
    again = keras_vit.from_pretrained(tmp_path / "own.keras", classifier_activation="softmax")
    assert "adapters of 9 dense layers are merged" in capsys.readouterr().err
    assert max_difference(again(IMAGES), model(IMAGES)) < 1e-6
    assert keras_vit.load_model(tmp_path / "own.keras").get_layer("head").lora_enabled


@pytest.mark.broad
def test_integers_are_read_whole_or_refused(tmp_path):
    model = quantize(built(), "int8")
    keras_vit.save_weights(model, tmp_path / "int8.keras")
    assert max_difference(keras_vit.from_pretrained(tmp_path / "int8.keras")(IMAGES), model(IMAGES)) == 0
    with pytest.raises(ValueError, match="expected float weights, received 9 quantized layers"):
        keras_vit.from_pretrained(tmp_path / "int8.keras", classes=3)
    with pytest.raises(ValueError, match="keras_vit.load_model opens it"):
        keras_vit.load_weights(built(), tmp_path / "int8.keras", strict=False)
    with pytest.raises(ValueError, match="layout 'npz' expected float weights"):
        keras_vit.save_weights(model, tmp_path / "int8.npz")
    keras_vit.save_weights(built(), tmp_path / "float.npz")
    with pytest.raises(ValueError, match="load the weights first, then quantize"):
        keras_vit.load_weights(model, tmp_path / "float.npz")
    with pytest.raises(ValueError, match="load the weights first, then call enable_lora"):
        keras_vit.load_weights(adapt(built()), tmp_path / "float.npz")


@pytest.mark.broad
@needs_tensorflow
def test_a_quantized_model_is_exported_as_a_saved_model_alone(tmp_path):
    from keras_vit.export import export

    model = quantize(built(), "int8")
    for options in ({"formats": ["tflite"]}, {"formats": ["saved_model"], "dtype": "bfloat16"}):
        with pytest.raises(ValueError, match="of a model quantized to int8"):
            export(model, tmp_path / "refused", **options)


@needs_tensorflow
@pytest.mark.large
@pytest.mark.parametrize("make", both())
def test_a_saved_model_answers_as_the_model_does(make, tmp_path):
    import tensorflow as tf

    from keras_vit.export import export

    model = make()
    report = export(model, tmp_path / "tiny", formats=["saved_model"])
    answer = tf.saved_model.load(str(report.path)).signatures["serving_default"](images=IMAGES)["probabilities"]
    assert max_difference(answer, model(IMAGES)) < 1e-6
