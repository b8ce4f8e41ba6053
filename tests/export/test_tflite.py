"""TFLite files equal the goldens, and have builtin operators only and the names of the signature."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from support import (
    TOLERANCE,
    first_quick,
    golden,
    golden_model,
    max_difference,
    needs_tensorflow,
    quick_first,
    randomise,
)

import keras_vit
from keras_vit.evaluate.accuracy import logits_model
from keras_vit.export import optional, tflite
from keras_vit.layers.encoder import layer_norm
from keras_vit.layers.override import Override, overriding

pytestmark = needs_tensorflow
TINY = keras_vit.Variant("tiny", width=16, depth=2, mlp_dim=24, num_heads=2, patch_size=4, image_size=8)
KINDS = {
    "map": {"pooling": "map"},
    "rectangular": {"patch_size": (4, 2), "input_shape": (8, 10, 3)},
    "uneven": {"input_shape": (11, 9, 3)},
    "grey": {"input_shape": (8, 8, 1)},
    "pixels": {"include_preprocessing": True},
    "exact gelu": {"activation": "gelu"},
    "headless": {"include_top": False},
}


def tiny(**options):
    return randomise(keras_vit.build(TINY, **{"classes": 7, **options}))


@pytest.mark.parametrize("name", first_quick(["g1", "g2", "g3"]))
def test_goldens_hold(name):
    expected = golden(name)
    answer = tflite.runner(tflite.convert(golden_model(name)))(images=expected["images"])
    assert answer.keys() == {"logits", "probabilities"}
    assert max_difference(answer["logits"], expected["logits"]) < TOLERANCE


@pytest.mark.parametrize("kind", quick_first(KINDS, ("uneven", "exact gelu"), broad=("rectangular", "grey")))
def test_every_kind_converts_to_builtin_operators(kind):
    model = tiny(**KINDS[kind])
    flatbuffer = tflite.convert(model)
    operators = tflite.operators(flatbuffer)
    assert operators and not any(name.startswith("CUSTOM") for name in operators)
    images = np.random.default_rng(0).uniform(-1, 1, (3, *model.input_shape[1:])).astype("float32")
    answer = tflite.runner(flatbuffer)(images=images)
    assert max_difference(answer["features" if kind == "headless" else "probabilities"], model(images)) < 1e-5
    if kind != "headless":  # probabilities hardly tell one GELU from the other
        assert max_difference(answer["logits"], logits_model(model)(images)) < 1e-5


def test_the_graph_stays_as_clean_as_it_was_written():
    """The graph has one fused GELU per block, one matmul per dense layer, and no shape arithmetic."""
    operators = tflite.operators(tflite.convert(tiny()))
    assert operators["GELU"] == 2
    # patches; 4 in the first block; 6 in the last one, whose query, key and value are separate; head
    assert operators["FULLY_CONNECTED"] == 1 + 4 + 6 + 1
    assert operators["BATCH_MATMUL"] == 2 * 2
    assert not {"SHAPE", "GATHER", "WHILE", "IF"} & operators.keys()


def test_half_precision_halves_the_weights_and_stays_close():
    model = golden_model("g1")
    half = tflite.convert(model, "float16")
    images = golden("g1")["images"]
    assert len(half) < len(tflite.convert(model)) - 1.5 * model.count_params()
    assert max_difference(tflite.runner(half)(images=images)["logits"], golden("g1")["logits"]) < 1e-2


def test_a_model_outside_tflites_operators_is_refused_by_their_names():
    images = keras.Input((8, 8, 3))
    with pytest.raises(ValueError, match="of TFLite's builtin operators, received one with Erfinv.$"):
        tflite.convert(keras.Model(images, keras.ops.erfinv(images)))


def test_a_file_with_foreign_operators_is_refused_by_their_names():
    module = tf.Module()
    module.inverse = tf.function(lambda x: tf.linalg.inv(x), [tf.TensorSpec((2, 2))], autograph=False)
    converter = tf.lite.TFLiteConverter.from_concrete_functions([module.inverse.get_concrete_function()], module)
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS, tf.lite.OpsSet.SELECT_TF_OPS]
    flatbuffer = converter.convert()
    assert tflite.operators(flatbuffer) == {"CUSTOM:FlexMatrixInverse": 1}
    with pytest.raises(ValueError, match="builtin operators only, received CUSTOM:FlexMatrixInverse"):
        tflite.require_builtin(flatbuffer)


def test_a_free_image_size_and_an_unknown_dtype_are_refused():
    with pytest.raises(ValueError, match=r"fixed image size, received input shape \(None, None, 3\)"):
        tflite.convert(tiny(input_shape=(None, None, 3)))
    with pytest.raises(ValueError, match="precision expected one of .*, received 'int4'"):
        tflite.convert(tiny(), "int4")


def test_without_its_interpreter_the_sentence_says_what_to_install(monkeypatch):
    def missing(name):
        raise ModuleNotFoundError(f"No module named {name!r}")

    monkeypatch.setattr(optional.importlib, "import_module", missing)
    with pytest.raises(
        ValueError, match=r"expected the package ai-edge-litert, found none: pip install 'keras-vit-zoo\[formats\]'"
    ):
        tflite.runner(b"")


@pytest.mark.broad
@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_scales_are_measured_on_all_tokens(precision):
    """The class tokens alone are too few values: other images exceed their range."""
    pytest.importorskip("ai_edge_litert", reason="extra `formats` is not installed")
    model, seen = tiny(), []
    layer = model.get_layer("encoder_norm")
    norm = lambda x, *args: seen.append(x.shape[1]) or layer_norm(x, *args)  # noqa: E731
    images = np.random.default_rng(0).uniform(-1, 1, (2, *model.input_shape[1:])).astype("float32")
    with overriding([Override(layer, "norm", norm)]):
        tflite.convert(model, precision, calibration=images)
    assert set(seen) == ({1} if precision == "float32" else {model.get_layer("encoder_norm").output.shape[1]})
