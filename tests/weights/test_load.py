"""Loading files into models of another size: conversions, messages and errors."""

import json
import shutil
import warnings
from dataclasses import replace

import keras
import numpy as np
import pytest
from support import GOLDENS, golden, max_difference, needs_tensorflow, randomise

import keras_vit
from keras_vit.weights.resize import resize_channels, resize_grid, resize_kernel

G1 = GOLDENS / "g1.weights.npz"
ROW = keras_vit.Variant("g1", 48, 3, 112, 3, patch_size=8, image_size=32)


def build(row=ROW, **options):
    return keras_vit.build(row, **{"classes": 11, "classifier_activation": None, **options})


@pytest.mark.parametrize("method", ["official", "timm", "timm_npz", "hf", "dinov2"])
def test_another_grid_is_resized_by_the_method_asked_for(method):
    model = build(input_shape=(48, 24, 3))
    report = keras_vit.load_weights(model, G1, position_resize=method)
    sentence = f"positions resized from (4, 4) to (6, 3) by {method!r}"
    assert report.conversions == [sentence]
    layer = model.get_layer("position_embedding")
    assert layer.conversion == sentence == model.get_config()["layers"][4]["config"]["conversion"]
    with np.load(G1) as file:
        positions = file["Transformer/posembed_input/pos_embedding"]
    grid = resize_grid(positions[0, 1:].reshape(4, 4, 48), (6, 3), method).reshape(18, 48)
    assert max_difference(layer.embedding[0], np.concatenate([positions[0, :1], grid])) == 0
    clone = keras.models.clone_model(model)
    assert clone.get_layer("position_embedding").conversion == sentence
    with pytest.raises(ValueError, match="position_resize expected None or one of .* received 'nearest'"):
        keras_vit.load_weights(model, G1, position_resize="nearest")


@pytest.mark.parametrize("method", ["timm", "timm_npz", "hf", "dinov2"])
def test_torch_resizes_alike(method):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    grid = np.random.default_rng(0).normal(size=(5, 7, 3)).astype("float32")
    options = {
        "timm": {"mode": "bicubic", "antialias": True},
        "timm_npz": {"mode": "bilinear"},
        "hf": {"mode": "bicubic"},
        "dinov2": {"mode": "bicubic"},
    }[method]
    for size in ((3, 4), (10, 9), (5, 1)):
        by = {"size": size}
        if method == "dinov2":  # as Meta's code calls it
            by = {"scale_factor": [(new + 0.1) / old for new, old in zip(size, (5, 7), strict=True)]}
        theirs = torch.nn.functional.interpolate(
            torch.from_numpy(grid).permute(2, 0, 1)[None], align_corners=False, **by, **options
        )
        assert max_difference(resize_grid(grid, size, method), theirs[0].permute(1, 2, 0).numpy()) < 1e-5


def test_a_larger_patch_sees_a_resized_patch_as_the_old_one_saw_the_patch():
    rng = np.random.default_rng(0)
    kernel = rng.normal(size=(4, 4, 3, 5)).astype("float32")
    patch = rng.normal(size=(4, 4, 3)).astype("float32")
    for size in ((8, 8), (7, 5)):
        grown = resize_kernel(kernel, size)
        seen = resize_grid(patch, size, "timm_npz")  # bilinear, half-pixel centers
        assert grown.shape == (*size, 3, 5)
        assert max_difference(np.einsum("hwcd,hwc->d", grown, seen), np.einsum("hwcd,hwc->d", kernel, patch)) < 1e-4
    assert resize_kernel(kernel, (2, 3)).shape == (2, 3, 3, 5)


def test_a_patch_that_lies_the_other_way_is_not_taken_as_it_is(tmp_path):
    """A kernel of (1, 8) patches has as many numbers as one of (8, 1), and axes of length one."""
    row = replace(ROW, patch_size=(1, 8), image_size=8)
    keras_vit.save_weights(randomise(build(row)), tmp_path / "strips.npz")
    report = keras_vit.load_weights(build(replace(row, patch_size=(8, 1))), tmp_path / "strips.npz")
    assert report.resized == ["embedding/kernel"]
    assert report.conversions == ["patch kernel resampled from (1, 8) to (8, 1)"]


def test_patch_size_and_channels_of_a_file():
    model = build(patch_size=16, input_shape=(64, 64, 1))
    report = keras_vit.load_weights(model, G1)
    sentence = "patch kernel resampled from (8, 8) to (16, 16); input channels summed from 3 to 1"
    assert report.conversions == [sentence] == [model.get_layer("embedding").conversion]
    grey = np.random.default_rng(0).uniform(-1, 1, (2, 32, 32, 1)).astype("float32")
    one, three = build(input_shape=(32, 32, 1)), build()
    keras_vit.load_weights(one, G1)
    keras_vit.load_weights(three, G1)
    assert max_difference(one(grey), three(np.repeat(grey, 3, axis=-1))) < 1e-5
    kernel = np.random.default_rng(0).normal(size=(1, 1, 3, 4)).astype("float32")
    six = resize_channels(kernel, 6)
    np.testing.assert_allclose(six[:, :, :3], kernel / 2, rtol=1e-6)
    np.testing.assert_allclose(six[:, :, 3:], kernel / 2, rtol=1e-6)
    assert resize_channels(kernel, 4).shape == (1, 1, 4, 4)
    hybrid = keras_vit.from_pretrained(GOLDENS / "g5.weights.npz", input_shape=(64, 64, 4))
    truth = "; weight standardisation undoes the scale, so that the root's responses change"
    assert hybrid.get_layer("stem_root").conversion == "input channels repeated and rescaled from 3 to 4" + truth
    bit = keras_vit.from_pretrained(GOLDENS / "g6.weights.npz", input_shape=(64, 64, 1))
    assert bit.get_layer("root").conversion == "input channels summed from 3 to 1" + truth
    rgb = keras_vit.from_pretrained(GOLDENS / "g6.weights.npz")
    grey = np.random.default_rng(0).uniform(-1, 1, (2, 64, 64, 1)).astype("float32")
    ratios = np.asarray(bit.get_layer("root")(grey)) / np.asarray(rgb.get_layer("root")(np.repeat(grey, 3, axis=-1)))
    factors = np.median(ratios, axis=(0, 1, 2))
    assert (factors < 0.9).all() and np.ptp(factors) > 0.1 and np.median(np.abs(ratios / factors - 1)) < 1e-4


def test_a_head_of_another_size_starts_anew_with_a_note(capsys):
    model = build(classes=5)
    before = keras.ops.convert_to_numpy(model.get_layer("head").kernel)
    report = keras_vit.load_weights(model, G1)
    note = "the classifier of 11 classes is ignored; the model's 5 classes keep their initial values"
    assert report.conversions == [note] == [model.get_layer("head").conversion]
    assert set(report.unused_top) == {"head/kernel", "head/bias"}
    assert note in capsys.readouterr().err
    assert max_difference(model.get_layer("head").kernel, before) == 0
    trunk = keras_vit.feature_model(model, ["pooling"])
    assert max_difference(trunk(golden("g1")["images"]), golden("g1")["pre_logits"]) < 2e-5
    fine = keras_vit.from_pretrained(GOLDENS / "g2.weights.npz", classes=4, representation_size=None)
    assert fine.output_shape == (None, 4)


def test_the_same_classes_on_other_features_are_no_new_head():
    with pytest.raises(ValueError, match="left over in the file: pre_logits/bias, pre_logits/kernel"):
        keras_vit.from_pretrained(GOLDENS / "g2.weights.npz", representation_size=None)


def test_a_later_exact_load_forgets_the_conversion():
    model = build(input_shape=(48, 48, 3))
    keras_vit.load_weights(model, G1)
    assert model.get_layer("position_embedding").conversion
    path = GOLDENS / "g1.weights.npz"
    same = build()
    keras_vit.load_weights(same, path)
    assert same.get_layer("position_embedding").conversion is None


def changed(tmp_path, **changes):
    with np.load(G1) as file:
        values = dict(file)
    for name, value in changes.items():
        values[name.replace("__", "/")] = value
    np.savez(tmp_path / "changed.npz", **values)
    return tmp_path / "changed.npz"


def test_a_head_of_zeros_and_numbers_that_are_none_warn(tmp_path):
    path = changed(tmp_path, head__kernel=np.zeros((48, 11), "float32"))
    with pytest.warns(UserWarning, match="'head/kernel' is all zeros: this classifier was never trained"):
        keras_vit.load_weights(build(), path)
    broken = np.full(48, np.nan, "float32")
    with pytest.warns(UserWarning, match="'Transformer/encoder_norm/bias' holds values that are not finite"):
        keras_vit.load_weights(build(), changed(tmp_path, Transformer__encoder_norm__bias=broken))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        large = np.full(48, 1e30, "float32")  # its square is infinite, it is not
        keras_vit.load_weights(build(), changed(tmp_path, Transformer__encoder_norm__bias=large))


def test_everything_wrong_is_listed_at_once_and_nothing_changes(tmp_path):
    with np.load(G1) as file:
        values = dict(file)
    values.pop("cls")
    values["Transformer/encoder_norm/scale"] = np.ones(47, "float32")
    values["surprise"] = np.ones(3, "float32")
    np.savez(tmp_path / "wrong.npz", **values)
    model = build()
    before = model.get_weights()
    with pytest.raises(ValueError, match="does not fit the model") as error:
        keras_vit.load_weights(model, tmp_path / "wrong.npz")
    for part in (
        r"Transformer/encoder_norm/scale (expected (48,), received (47,))",
        "missing from the file: class_token/token",
        "left over in the file: surprise",
    ):
        assert part in str(error.value)
    assert all((old == new).all() for old, new in zip(before, model.get_weights(), strict=True))
    values["Transformer/encoder_norm/scale"] = np.ones(48, "float32")
    np.savez(tmp_path / "wrong.npz", **values)
    with pytest.raises(ValueError, match="missing .*: class_token/token; left over .*: surprise; strict=False ignores"):
        keras_vit.load_weights(model, tmp_path / "wrong.npz", strict=False)
    assert all((old == new).all() for old, new in zip(before, model.get_weights(), strict=True))


def test_mistakes_are_found_before_anything_changes(tmp_path):
    with pytest.raises(ValueError, match="position_resize expected None or one of .* received 'offical'"):
        keras_vit.load_weights(build(), G1, position_resize="offical")  # though no grid is resized
    shutil.copy(GOLDENS / "h1.weights.safetensors", tmp_path / "model.safetensors")
    config = json.loads((GOLDENS / "h1.config.json").read_text()) | {"hidden_act": "tanhshrink"}
    (tmp_path / "config.json").write_text(json.dumps(config))
    model = build(classes=7)
    before = model.get_weights()
    with pytest.raises(ValueError, match="expected a known 'hidden_act', received 'tanhshrink'"):
        keras_vit.load_weights(model, tmp_path)
    larger = build(input_shape=(48, 48, 3), classes=7)
    embedding = np.asarray(larger.get_layer("embedding").kernel)
    with pytest.raises(ValueError, match="position_resize expected None or one of .* received 'offical'"):
        keras_vit.load_weights(larger, G1, position_resize="offical")
    assert max_difference(larger.get_layer("embedding").kernel, embedding) == 0
    assert all((old == new).all() for old, new in zip(before, model.get_weights(), strict=True))


def test_a_model_that_computes_otherwise_than_the_files_origin_is_noted():
    model = build(keras_vit.Variant("t1", 48, 3, 120, 3, 8, image_size=32))
    report = keras_vit.load_weights(model, GOLDENS / "t1.weights.safetensors")
    assert report.notes[0] == "the model has activation='gelu_tanh', files of this layout come from 'gelu'"


def test_a_builder_given_weights_of_other_classes_refuses_them():
    with pytest.raises(ValueError, match=r"classes expected 11, as in '.*g1\.weights\.npz', received 12\."):
        build(classes=12, weights=str(GOLDENS / "g1.weights.npz"))
    with pytest.raises(ValueError, match=r"classes expected 7, as in '.*g6\.weights\.npz', received 1000\."):
        keras_vit.BiT_R50x1(weights=str(GOLDENS / "g6.weights.npz"))
    assert build(include_top=False, weights=str(GOLDENS / "g1.weights.npz")).output_shape == (None, 48)


@needs_tensorflow
def test_after_from_pretrained_others_still_train():
    from_file = keras_vit.from_pretrained(G1)
    other = keras.Sequential([keras.Input((2,)), keras.layers.Dropout(0.5), keras.layers.Dense(1)])
    with keras.StatelessScope():  # what training loops open, and what Keras starts waiting variables at the end of
        pass
    other.compile("sgd", "mse")
    other.fit(np.ones((4, 2)), np.ones(4), verbose=0)
    assert np.isfinite(from_file(golden("g1")["images"])).all()


@pytest.mark.parametrize("name", ["g1", "g4", "g6", "h1"])
def test_from_pretrained_draws_no_random_numbers_for_what_the_file_holds(name, monkeypatch):
    def refuse(initializer, shape, dtype=None):
        raise AssertionError(f"drew {shape}")

    for initializer in (keras.initializers.RandomNormal, keras.initializers.RandomUniform):
        monkeypatch.setattr(initializer, "__call__", refuse)
    monkeypatch.setattr(keras.initializers.VarianceScaling, "__call__", refuse)
    keras_vit.from_pretrained(next(GOLDENS.glob(f"{name}.weights.*")))
    with pytest.raises(AssertionError, match="drew"):  # the next model starts as ever
        keras_vit.build(keras_vit.Variant("tiny", 16, 1, 24, 2, patch_size=4, image_size=8))


def test_where_positions_or_the_classifier_do_not_fit_the_rest_still_comes_from_the_file(capsys):
    whole = keras_vit.from_pretrained(G1)
    other = keras_vit.from_pretrained(G1, input_shape=(48, 48, 3), classes=3)
    blocks = (model.get_layer("encoder_block_00").weights for model in (whole, other))
    for old, new in zip(*blocks, strict=True):
        np.testing.assert_array_equal(old, new)
    assert "positions resized" in capsys.readouterr().err and not np.asarray(other.get_layer("head").kernel).any()
