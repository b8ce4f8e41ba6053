"""A model whose first layer also normalises: it takes pixels, and computes as the model did of normalised images."""

import json
from dataclasses import replace

import keras
import numpy as np
import pytest
from photos import CLIP, synthetic
from PIL import Image
from support import max_difference, needs_tensorflow, quick_first, randomise

import keras_vit
from keras_vit import cli
from keras_vit.models.masked import build_masked
from keras_vit.models.model_interface import model_interface
from keras_vit.predict import predict
from keras_vit.preprocessing.image_spec import ImageSpec, store_preprocessing
from keras_vit.preprocessing.inputs import load_image
from keras_vit.weights.image_configs import timm_config

ROW = keras_vit.Variant("tiny", width=16, depth=2, mlp_dim=24, num_heads=2, patch_size=4, image_size=16)
TOWER = replace(ROW, pre_norm=True, patch_bias=False, activation="quick_gelu")
CONV_STEM = replace(ROW, patch_size=2, stem=keras_vit.ConvStem((8, 12), (2, 3)), image_size=24)
IMAGENET = {"mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)}
GREY = (16, 16, 1)
MODELS = {
    "plain scaling": (ROW, {}, {}),
    "imagenet": (ROW, IMAGENET, {}),
    "clip without a bias": (TOWER, CLIP, {}),
    "bgr": (ROW, {**CLIP, "channel_order": "BGR"}, {}),
    "rescaling inside": (ROW, IMAGENET, {"include_preprocessing": True}),
    "rescaling inside, bgr": (TOWER, {**CLIP, "channel_order": "BGR"}, {"include_preprocessing": True}),
    "grey": (ROW, IMAGENET, {"input_shape": GREY}),
    "free size, uneven": (ROW, IMAGENET, {"input_shape": (None, None, 3)}),
    "convolutional stem": (CONV_STEM, CLIP, {"input_shape": (26, 25, 3)}),
    "pixels already": (ROW, {"mean": (0.0,), "std": (1 / 255,)}, {}),
}
QUICK = ("clip without a bias",)


def built(row=ROW, spec=(), **options):
    model = randomise(keras_vit.build(row, classes=5, **options))
    rng = np.random.default_rng(1)
    for variable in model.non_trainable_variables:
        if "moving" in variable.path:
            variable.assign(0.5 + rng.random(variable.shape))
    spec = spec if isinstance(spec, ImageSpec) else ImageSpec(**dict(spec))
    store_preprocessing(model, spec)
    return model


def pixels_for(model, count=4):
    height, width, channels = (side or 18 + i for i, side in enumerate(model.input_shape[1:]))
    return np.stack([synthetic((height, width), i)[..., :channels] for i in range(count)])


@pytest.mark.parametrize("kind", quick_first(MODELS, QUICK, broad=tuple(MODELS)))
def test_the_copy_computes_of_pixels_what_the_model_computes_of_normalised_images(kind, tmp_path):
    row, spec, options = MODELS[kind]
    model = built(row, spec, classifier_activation=None, **options)
    pixels = pixels_for(model)
    before, inputs = [np.asarray(w) for w in model.weights], model_interface(model).inputs_of(pixels.astype("float32"))
    expected = np.asarray(model(inputs))
    for high in (255, 1):
        copy = keras_vit.fold_normalization(model, (0, high))
        found = model_interface(copy)
        assert found.input_range == (0.0, float(high)) and found.takes_pixels == (high == 255)
        stated = copy.preprocessing
        assert (stated.mean, stated.std, stated.channel_order) == ((0,), (1 / high,), "RGB")
        assert "rescaling" not in {layer.name for layer in copy.layers}
        answer = copy((pixels / 255 * high).astype("float32"))
        assert max_difference(answer, expected) < 1e-5 * np.abs(expected).max()
        assert max_difference(copy(found.inputs_of(pixels)), answer) < 1e-5 * np.abs(expected).max()
        copy.save(tmp_path / "copy.keras")
        for read in (keras.saving.load_model, keras_vit.load_model):
            again = read(tmp_path / "copy.keras")
            assert max_difference(again(found.inputs_of(pixels)), copy(found.inputs_of(pixels))) == 0
            assert again.preprocessing == stated
    assert all(np.array_equal(a, b) for a, b in zip(before, model.weights, strict=True))  # the model stays as it is
    assert copy.get_layer("embedding").use_bias or row.stem is not None


@pytest.mark.broad
def test_training_the_copy_of_a_convolutional_stem_gives_the_same_moving_means():
    """The batch norm subtracts what the kernel does not, whether the mean is that of the batch or the moving one."""
    model = built(CONV_STEM, CLIP)
    copy = keras_vit.fold_normalization(model)
    pixels = pixels_for(model).astype("float32")
    answers = model(CLIP_SPEC.normalize(pixels), training=True), copy(pixels, training=True)
    assert max_difference(*answers) < 1e-5
    later = model(CLIP_SPEC.normalize(pixels)), copy(pixels)
    assert max_difference(*later) < 1e-5


CLIP_SPEC = ImageSpec(**CLIP)


@pytest.mark.broad
def test_a_models_own_form_and_the_trained_part_are_kept(tmp_path):
    model = built(TOWER, CLIP, drop_path_rate=0.1, labels=tuple("abcde"))
    model.get_layer("encoder_block_00").trainable = False
    copy = keras_vit.fold_normalization(model)
    assert copy.get_layer("head").labels == ("a", "b", "c", "d", "e")
    assert not copy.get_layer("encoder_block_00").trainable and copy.get_layer("embedding").trainable
    assert type(copy) is type(model) and copy.name == model.name
    shape = (24, 24, 3)
    copy.save(tmp_path / "copy.keras")
    resized = keras_vit.from_pretrained(tmp_path / "copy.keras", input_shape=shape)
    same = built(TOWER, CLIP)
    same.save(tmp_path / "model.keras")
    other = keras_vit.from_pretrained(tmp_path / "model.keras", input_shape=shape)
    pixels = np.stack([synthetic(shape[:2])]).astype("float32")
    assert max_difference(resized(pixels), other(CLIP_SPEC.normalize(pixels))) < 1e-5


@pytest.mark.broad
def test_a_users_own_model_and_adapters_go_along():
    base = built(ROW, IMAGENET, include_top=False)
    own = keras.Sequential([keras.Input((16, 16, 3)), base, keras.layers.Dense(3, "softmax", name="mine")])
    own.layers[-1].kernel.assign(np.random.default_rng(2).normal(size=(16, 3)))
    adapted = built(ROW, IMAGENET)
    adapted.enable_lora(2)
    for variable in adapted.trainable_variables:
        variable.assign(variable + 0.1)
    for model in (own, adapted):
        pixels = np.stack([synthetic((16, 16), i) for i in range(3)]).astype("float32")
        expected = model(ImageSpec(**IMAGENET).normalize(pixels))
        assert max_difference(keras_vit.fold_normalization(model)(pixels), expected) < 1e-5


BORDER = ImageSpec((16, 16), "border", "bicubic", **CLIP)


@pytest.mark.parametrize("mode", ["border", "corner"])
def test_the_specification_states_the_color_of_the_padding(mode):
    copy = keras_vit.fold_normalization(built(ROW, replace(BORDER, resize_mode=mode)))
    assert copy.preprocessing.resize_mode == mode and copy.preprocessing.fill == CLIP["mean"]
    with pytest.raises(ValueError, match=r"layout 'timm' expected images padded with the mean \(0,\)"):
        timm_config(copy.preprocessing, 3, (16, 16))


@pytest.mark.broad
def test_padding_keeps_its_color(tmp_path):
    """`border` pads with the mean of the images, which is no longer the mean of the specification."""
    model = built(ROW, BORDER)
    copy = keras_vit.fold_normalization(model)
    assert copy.preprocessing.fill == CLIP["mean"] and "border padded with (0.481" in str(copy.preprocessing)
    backwards = built(ROW, replace(BORDER, channel_order="BGR"))
    assert keras_vit.fold_normalization(backwards).preprocessing.fill == CLIP["mean"][::-1]
    assert keras_vit.fold_normalization(copy).preprocessing == copy.preprocessing  # twice is once
    Image.fromarray(synthetic((30, 17))).save(tmp_path / "photo.png")
    for one, other in ((model, copy), (backwards, keras_vit.fold_normalization(backwards))):
        images = [load_image(tmp_path / "photo.png", (16, 16, 3), m.preprocessing) for m in (one, other)]
        assert max_difference(*images) == 0 and not np.array_equal(images[0][0, 0], [0, 0, 0])
        scores = [predict(m, [tmp_path / "photo.png"], top=5)[0]["predictions"] for m in (one, other)]
        assert [row["label"] for row in scores[0]] == [row["label"] for row in scores[1]]
        assert max(abs(a["score"] - b["score"]) for a, b in zip(*scores, strict=True)) < 1e-5


@needs_tensorflow
@pytest.mark.broad
def test_an_export_takes_pixels(tmp_path):
    import tensorflow as tf

    from keras_vit.export import export
    from keras_vit.export.tflite import read_metadata

    pytest.importorskip("ai_edge_litert", reason="ai-edge-litert is not installed")
    model = built(TOWER, ImageSpec((16, 16), "center", "bicubic", crop_fraction=0.8, **CLIP))
    images = pixels_for(model, 16).astype("float32")
    for high in (255, 1):
        copy = keras_vit.fold_normalization(model, (0, high))
        report = export(copy, tmp_path / f"out{high}", images, formats=["saved_model", "tflite"])
        manifest = json.loads((report.path / "manifest.json").read_text())
        assert manifest["input"]["range"] == [0, high]
        assert ImageSpec(**manifest["input"]["preprocessing"]) == copy.preprocessing
        assert f"pixels 0 to {high}." in (report.path / "model_card.md").read_text()
        description = read_metadata((report.path / "model.tflite").read_bytes())
        stated = description["normalisation"]
        assert (stated["mean"], stated["std"]) == (0, pytest.approx(255 / high))
        Image.fromarray(synthetic((40, 23))).save(tmp_path / "photo.png")
        loaded = tf.saved_model.load(str(report.path))
        received = loaded.signatures["classify_bytes"](image_bytes=tf.constant([(tmp_path / "photo.png").read_bytes()]))
        expected = model(model.preprocessing.normalize(load_image(tmp_path / "photo.png", (16, 16, 3),
                                                                  model.preprocessing)[None]))  # fmt: skip
        assert max_difference(received["probabilities"], expected) < 1e-5
        inputs = images / 255 * high
        received = loaded.signatures["serving_default"](images=tf.constant(inputs))["probabilities"]
        assert max_difference(received, model(model.preprocessing.normalize(images))) < 1e-5


@needs_tensorflow
@pytest.mark.broad
def test_the_command_folds_on_request(tmp_path, capsys):
    built(ROW, IMAGENET, labels=tuple("abcde")).save(tmp_path / "model.keras")
    words = ["export", str(tmp_path / "model.keras"), "--output", str(tmp_path / "out"), "--formats", "saved_model"]
    assert cli.main([*words, "--fold-normalization"]) == 0
    assert json.loads((tmp_path / "out/1/manifest.json").read_text())["input"]["range"] == [0, 255]
    assert cli.main([*words, "--fold-normalization", "--adapters", "pets=adapter.safetensors"]) == 2
    assert "adapters expected none with --fold-normalization" in capsys.readouterr().err


def with_a_layer_in_front(layer):
    images = keras.Input((16, 16, 3))
    return keras.Model(images, built(ROW, include_top=False)(layer(images)))


REFUSED = {
    "hybrid": (lambda: keras_vit.build(replace(ROW, stem=keras_vit.ResNetStem((1,), 0.5), patch_size=1)),
               r"with 'stem_root' \(StdConv\), for instance one that pads images with zeros"),
    "bit": (lambda: keras_vit.build(keras_vit.BiTVariant("bit", (1, 1), 0.5), input_shape=(32, 32, 3)),
            r"with 'root' \(StdConv\)"),
    "efficientnet": (lambda: keras_vit.build(keras_vit.EfficientNetVariant("net", 0.25, 0.1), input_shape=(32, 32, 3)),
                     r"with 'root' \(ImageConv\)"),
    "masked": (lambda: build_masked(ROW, 4, "mean_colour", input_shape=(16, 16, 3)),
               r"expected one input \(batch, height, width, channels\), received inputs"),
    "augmented": (lambda: with_a_layer_in_front(keras.layers.RandomFlip()), r"\(RandomFlip\)"),
    "rescaled": (lambda: with_a_layer_in_front(keras.layers.Rescaling(2.0, -1.0)),
                 r"expected layers 'rescaling\w*' that take pixels in 0..255, received others"),
}  # fmt: skip


@pytest.mark.parametrize("kind", quick_first(REFUSED, ("hybrid", "rescaled"), broad=tuple(REFUSED)))
def test_what_cannot_be_exact_is_refused_by_name(kind):
    make, sentence = REFUSED[kind]
    with pytest.raises(ValueError, match=sentence):
        keras_vit.fold_normalization(make())


def test_another_range_is_refused():
    with pytest.raises(ValueError, match=r"value_range expected one of \(\(0, 255\), \(0, 1\)\), received \(-1, 1\)"):
        keras_vit.fold_normalization(built(), (-1, 1))
