"""The official code's own outputs for plain ViTs, from its released and its current layout."""

import keras
import numpy as np
import pytest
from support import (
    GOLDENS,
    MANIFEST,
    TOLERANCE,
    golden,
    golden_model,
    max_difference,
    need_rounded_bfloat16,
    needs_tensorflow,
)

import keras_vit

WEIGHTS = [("g1", "g1"), ("g2", "g2"), ("g3", "g3"), ("g3", "g3_linen")]


@pytest.mark.parametrize(("name", "weights"), WEIGHTS)
def test_logits_and_features_equal_the_official_code(name, weights):
    model, expected = golden_model(name, weights), golden(name)
    stages = keras_vit.feature_model(model, ["encoder_norm", model.layers[-2].name, "head"])
    encoded, pre_logits, logits = stages(expected["images"])
    assert max_difference(encoded, expected["encoded"]) < TOLERANCE
    assert max_difference(pre_logits, expected["pre_logits"]) < TOLERANCE
    assert max_difference(logits, expected["logits"]) < TOLERANCE
    assert model.count_params() == MANIFEST[name]["params"]


@pytest.mark.parametrize("name", ["g7_6x6", "g7_4x6", "g7_3x3"])
def test_another_resolution_resizes_the_position_embedding(name):
    expected = golden(name)
    model = golden_model("g1", weights=None, input_shape=expected["images"].shape[1:])
    report = keras_vit.load_weights(model, GOLDENS / "g1.weights.npz")
    assert report.resized == ["Transformer/posembed_input/pos_embedding"]
    assert max_difference(model.get_layer("position_embedding").embedding, expected["pos_embedding"]) < TOLERANCE
    assert max_difference(model(expected["images"]), expected["logits"]) < TOLERANCE


def test_one_model_of_free_size_serves_every_resolution():
    model = golden_model("g1", input_shape=(None, None, 3))
    for name in ("g1", "g7_6x6", "g7_4x6", "g7_3x3"):
        expected = golden(name)
        assert max_difference(model(expected["images"]), expected["logits"]) < TOLERANCE
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        traced = tf.function(model, input_signature=[tf.TensorSpec((None, None, None, 3))])
        for name in ("g1", "g7_6x6", "g7_4x6", "g7_3x3"):
            expected = golden(name)
            assert max_difference(traced(expected["images"]), expected["logits"]) < TOLERANCE


@pytest.mark.parametrize(("name", "weights"), WEIGHTS)
def test_written_files_are_the_read_ones(name, weights, tmp_path):
    layout = "linen" if weights.endswith("linen") else "npz"
    path = tmp_path / "weights.npz"
    keras_vit.save_weights(golden_model(name, weights), path, layout=layout)
    with np.load(path) as written, np.load(GOLDENS / f"{weights}.weights.npz") as read:
        assert set(written) == set(read)
        for key in read:
            np.testing.assert_array_equal(written[key], read[key])
    assert [file.name for file in tmp_path.iterdir()] == ["weights.npz"]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"representation_size": 7}, "missing from the file: pre_logits/kernel, pre_logits/bias"),
        ({"pooling": "gap"}, "left over in the file: cls"),
    ],
)
def test_a_file_that_does_not_fit_changes_nothing(options, sentence):
    model = golden_model("g1", **{"weights": None, **options})
    before = model.get_weights()
    with pytest.raises(ValueError, match=sentence):
        keras_vit.load_weights(model, GOLDENS / "g1.weights.npz")
    for old, new in zip(before, model.get_weights(), strict=True):
        np.testing.assert_array_equal(old, new)


def test_another_number_of_heads_does_not_load_silently():
    row = MANIFEST["g1"]
    variant = keras_vit.Variant("other", row["hidden"], row["layers"], row["mlp_dim"], num_heads=4, patch_size=8)
    model = keras_vit.build(variant, input_shape=(32, 32, 3), classes=11)
    with pytest.raises(ValueError, match=r"query/kernel \(expected \(48, 4, 12\), received \(48, 3, 16\)\)"):
        keras_vit.load_weights(model, GOLDENS / "g1.weights.npz")


def test_a_headless_model_leaves_the_classifier_out():
    model = golden_model("g2", weights=None, include_top=False, representation_size=None)
    report = keras_vit.load_weights(model, GOLDENS / "g2.weights.npz")
    assert report.unused_top == ["head/bias", "head/kernel", "pre_logits/bias", "pre_logits/kernel"]


def test_files_that_are_no_weights_are_refused(tmp_path):
    model = golden_model("g1", weights=None)
    with pytest.raises(FileNotFoundError, match="source expected a file of weights, found nothing"):
        keras_vit.load_weights(model, tmp_path / "absent.npz")
    (tmp_path / "text.npz").write_text("no weights")
    with pytest.raises(ValueError, match="source expected a whole .npz archive"):
        keras_vit.load_weights(model, tmp_path / "text.npz")


@needs_tensorflow
def test_the_goldens_hold_in_bfloat16_within_its_rounding():
    need_rounded_bfloat16()
    expected = golden("g1")
    model = golden_model("g1", dtype="mixed_bfloat16")
    assert max_difference(model(expected["images"]), expected["logits"]) < 2**-6 * np.abs(expected["logits"]).max()
