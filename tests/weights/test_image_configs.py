"""How a checkpoint's images are prepared: read, kept on the model, said where it is not [-1, 1], and written out."""

import json

import keras
import numpy as np
import parity
import pytest
from support import GOLDENS, max_difference, needs_tensorflow, randomise

import keras_vit
from keras_vit.cli import main

TINY = keras_vit.Variant("tiny", 16, 1, 24, 2, patch_size=4, image_size=8)
BIT = keras_vit.BiTVariant("bit", (1,), 0.5)
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
DEIT = {
    "do_resize": True,
    "size": {"height": 256, "width": 256},
    "resample": 3,
    "do_center_crop": True,
    "crop_size": {"height": 224, "width": 224},
    "do_normalize": True,
    "image_mean": list(MEAN),
    "image_std": list(STD),
}
TIMM = {"input_size": [3, 8, 8], "interpolation": "bicubic", "crop_pct": 0.9, "mean": list(MEAN), "std": list(STD)}


def saved(folder, layout, **changes):
    """A hub folder with other preprocessing, which transformers states in its own file."""
    keras_vit.save_weights(randomise(keras_vit.build(TINY, classes=3)), folder, layout=layout)
    name, key = ("config.json", "pretrained_cfg") if layout == "timm" else ("preprocessor_config.json", None)
    config = json.loads((folder / name).read_text())
    config = config | {key: changes} if key else changes
    (folder / name).write_text(json.dumps(config))
    return folder


@pytest.mark.parametrize(
    ("layout", "config", "expected"),
    [
        ("timm", TIMM, ("center", "bicubic", 0.9, MEAN, STD)),
        ("timm", {**TIMM, "crop_mode": "squash", "crop_pct": 1.0}, ("squash", "bicubic", 1.0, MEAN, STD)),
        ("hf", DEIT, ("squash", "bicubic", 0.875, MEAN, STD)),
        ("hf", {**DEIT, "size": {"shortest_edge": 256}}, ("center", "bicubic", 0.875, MEAN, STD)),
        ("hf", {**DEIT, "size": 224, "do_center_crop": False}, ("squash", "bicubic", 1.0, MEAN, STD)),
        ("hf", {"size": 224, "resample": 2, "do_normalize": False}, ("squash", "bilinear", 1.0, (0.0,), (1.0,))),
    ],
)
def test_a_config_is_read_and_kept_by_the_model(layout, config, expected, tmp_path, capsys):
    folder = saved(tmp_path / "model", layout, **config)
    capsys.readouterr()
    model = keras_vit.from_pretrained(folder)
    spec = model.preprocessing
    assert (spec.resize_mode, spec.interpolation, spec.crop_fraction, spec.mean, spec.std) == expected
    assert spec.size == (8, 8)
    said = capsys.readouterr().err
    how = str(spec).partition("pixels")[2]  # the size is that of the model
    assert said.count("its images are not scaled to [-1, 1]") == 1 and how in said
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    again = keras_vit.from_pretrained(tmp_path / "model.keras", classes=2)
    inside = keras.Sequential([keras.Input((8, 8, 3)), loaded])
    for other in (loaded, keras.models.clone_model(model), again, inside):
        assert keras_vit.preprocessing_of(other) == spec
    assert main(["weights", "show", str(folder)]) in (0, None)
    assert how in next(line for line in capsys.readouterr().out.splitlines() if line.startswith("  images: "))


@pytest.mark.parametrize("source", ["timm", "hf"])
@pytest.mark.parametrize("target", ["timm", "hf"])
def test_a_conversion_keeps_it(source, target, tmp_path):
    folder = saved(tmp_path / "in", source, **(TIMM if source == "timm" else DEIT))
    main(["weights", "convert", str(folder), str(tmp_path / "out"), "--layout", target])
    before, after = (keras_vit.from_pretrained(path).preprocessing for path in (folder, tmp_path / "out"))
    assert (after.mean, after.std, after.resize_mode) == (MEAN, STD, before.resize_mode)
    assert after.interpolation == "bicubic"
    assert int(8 / after.crop_fraction + 1e-6) == int(8 / before.crop_fraction + 1e-6)  # the same resized image


def test_a_bit_and_a_layout_without_configs(tmp_path, capsys):
    model = randomise(keras_vit.build(TINY, classes=3))
    assert model.preprocessing == keras_vit.ImageSpec(size=(8, 8)) and model.preprocessing.is_plain_scaling
    folder = saved(tmp_path / "model", "timm", **TIMM)
    model = keras_vit.from_pretrained(folder)
    capsys.readouterr()
    keras_vit.save_weights(model, tmp_path / "weights.npz")
    assert "layout 'npz': its readers scale images to [-1, 1], the model's are 8 x 8 pixels" in capsys.readouterr().err
    keras_vit.load_weights(model, tmp_path / "weights.npz")  # whose images are scaled plainly
    assert model.preprocessing.is_plain_scaling
    bit = keras_vit.from_pretrained(GOLDENS / "g6.weights.npz")
    assert bit.preprocessing == keras_vit.ImageSpec() and bit.get_layer("root").image_spec["mean"] == [0.5]


def test_a_model_that_takes_pixels_normalises_them_as_the_config_states(tmp_path, capsys):
    folder = saved(tmp_path / "model", "timm", **TIMM)
    pixels = np.random.default_rng(0).integers(0, 256, (2, 8, 8, 3)).astype("uint8")
    expected = keras_vit.from_pretrained(folder)((pixels / 255 - np.float32(MEAN)).astype("float32") / np.float32(STD))
    capsys.readouterr()
    model = keras_vit.from_pretrained(folder, include_preprocessing=True)
    assert "its layer 'rescaling' normalises pixels as the config states" in capsys.readouterr().err
    assert max_difference(model(pixels), expected) < 1e-5
    model.save(tmp_path / "model.keras")
    again = keras_vit.from_pretrained(tmp_path / "model.keras", classes=3)
    for other in (keras_vit.load_model(tmp_path / "model.keras"), again):
        assert max_difference(other.predict(pixels, verbose=0), expected) < 1e-5
    keras_vit.save_weights(model, tmp_path / "plain.npz")
    keras_vit.load_weights(again, tmp_path / "plain.npz")  # after it has predicted
    plain = keras_vit.from_pretrained(tmp_path / "plain.npz", activation=model.get_layer("encoder_block_00").activation)
    scaled = plain(keras_vit.preprocess_input(pixels))
    assert max_difference(again.predict(pixels, verbose=0), scaled) < 1e-5


def test_a_file_of_our_own_says_its_images_when_it_is_loaded(tmp_path, capsys):
    keras_vit.from_pretrained(saved(tmp_path / "model", "timm", **TIMM)).save(tmp_path / "model.keras")
    capsys.readouterr()
    for load in (keras_vit.from_pretrained, keras_vit.load_model):
        load(tmp_path / "model.keras")
        assert capsys.readouterr().err.count("its images are not scaled to [-1, 1]") == 1


@needs_tensorflow
@pytest.mark.parametrize("takes_pixels", [False, True])
def test_a_model_that_is_trained_on_has_the_preprocessing_of_its_training(takes_pixels, tmp_path):
    from keras_vit.train.model import build_model
    from keras_vit.train.recipe import Data, Model, Recipe

    folder = saved(tmp_path / "model", "timm", **TIMM)
    settings = Model(TINY, weights=str(folder), image_size=8, include_preprocessing=takes_pixels)
    spec = build_model(Recipe("tuned", settings, Data("digits")), ("a", "b")).preprocessing
    assert (spec.resize_mode, spec.interpolation, spec.crop_fraction) == ("center", "bicubic", 0.9)
    resized = build_model(Recipe("tuned", settings, Data("digits", resize=9)), ("a", "b")).preprocessing
    assert (resized.resize_mode, resized.interpolation, resized.crop_fraction) == ("squash", "bilinear", 1.0)
    assert (spec.mean, spec.std) == (resized.mean, resized.std) == (MEAN, STD)


def test_what_no_config_states_is_assumed_aloud(tmp_path, capsys):
    keras_vit.save_weights(randomise(keras_vit.build(TINY)), tmp_path, layout="hf")
    keras_vit.from_pretrained(tmp_path)
    assert "images" not in capsys.readouterr().err
    (tmp_path / "preprocessor_config.json").unlink()
    keras_vit.from_pretrained(tmp_path)
    assert "assumed, because no config states it: its images are scaled to [-1, 1]" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("layout", "change"),
    [
        ("timm", {"crop_mode": "stretch"}),
        ("timm", {"mean": "grey"}),
        ("timm", {"crop_pct": -1}),
        ("hf", {"resample": 9}),
        ("hf", {"image_std": [0, 0, 0]}),
        ("hf", {"size": "large"}),
    ],
)
def test_a_mistake_in_a_config_gets_a_sentence(layout, change, tmp_path):
    folder = saved(tmp_path / "model", layout, **{**(TIMM if layout == "timm" else DEIT), **change})
    with pytest.raises(ValueError, match="the config of .* expected values of preprocessing, received") as error:
        keras_vit.from_pretrained(folder)
    assert "\n" not in str(error.value)


def test_timm_and_transformers_prepare_images_as_the_written_configs_say(tmp_path):
    from PIL import Image

    timm, transformers = parity.timm(), parity.transformers()
    for layout in ("timm", "hf"):
        folder = saved(tmp_path / layout, "timm", **TIMM)
        keras_vit.save_weights(keras_vit.from_pretrained(folder), tmp_path / f"{layout}_out", layout=layout)
    image = Image.fromarray(np.random.default_rng(0).integers(0, 255, (20, 30, 3)).astype("uint8"))
    config = json.loads((tmp_path / "timm_out" / "config.json").read_text())["pretrained_cfg"]
    theirs = timm.data.create_transform(**timm.data.resolve_data_config(pretrained_cfg=config))(image).numpy()
    expected = timm.data.create_transform(**timm.data.resolve_data_config(pretrained_cfg=TIMM))(image).numpy()
    np.testing.assert_array_equal(theirs, expected)
    processor = transformers.AutoImageProcessor.from_pretrained(tmp_path / "hf_out", backend="pil")
    np.testing.assert_allclose(np.asarray(processor(image)["pixel_values"][0]), expected, atol=0.02)
