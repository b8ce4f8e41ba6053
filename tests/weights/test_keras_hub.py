"""keras-hub's preset folders and `.keras` files, as keras-hub writes them."""

import numpy as np
import pytest
from support import max_difference

import keras_vit

IMAGES = np.random.default_rng(0).uniform(-1, 1, (2, 32, 32, 3)).astype("float32")
SIZES = {"image_shape": (32, 32, 3), "patch_size": 8, "num_layers": 2, "num_heads": 3, "hidden_dim": 24}
DINO = SIZES | {"intermediate_dim": 48}
KINDS = {
    "ViT": ("ViTBackbone", SIZES | {"mlp_dim": 40}),
    "ViT, no class token": ("ViTBackbone", SIZES | {"mlp_dim": 40, "use_class_token": False}),
    "DeiT": ("DeiTBackbone", DINO),
    "DINOv2": ("DINOV2Backbone", DINO | {"position_embedding_shape": (64, 64, 3)}),
    "DINOv2, registers": (
        "DINOV2Backbone",
        DINO | {"num_register_tokens": 2, "position_embedding_shape": (32, 32, 3), "use_mask_token": False},
    ),
    "DINOv2, gated": ("DINOV2Backbone", DINO | {"use_swiglu_ffn": True, "position_embedding_shape": (32, 32, 3)}),
    "DINOv3": ("DINOV3Backbone", DINO | {"num_register_tokens": 2}),
    "DINOv3, gated": (
        "DINOV3Backbone",
        DINO | {"use_gated_mlp": True, "hidden_activation": "silu", "use_key_bias": False, "rope_theta": 50.0},
    ),
}


def keras_hub():
    return pytest.importorskip("keras_hub", reason="keras-hub is not installed")


def filled(model):
    """The model with other values in every variable of floats."""
    rng = np.random.default_rng(1)
    for variable in model.weights:
        variable.assign(rng.normal(0, 0.3, variable.shape).astype("float32"))
    return model


def backbone(name):
    kind, options = KINDS[name]
    return filled(getattr(keras_hub().models, kind)(**options))


FORMS = [("ViT", "weights"), *((name, form) for name in KINDS for form in ("folder", "keras"))]


@pytest.mark.parametrize(("name", "form"), FORMS)
def test_a_backbone_computes_alike(name, form, tmp_path, capsys):
    model = backbone(name)
    expected = np.asarray(model({key: IMAGES for key in model.input} if isinstance(model.input, dict) else IMAGES))
    path = tmp_path / ("model.keras" if form == "keras" else "preset")
    model.save(path) if form == "keras" else model.save_to_preset(str(path))
    capsys.readouterr()
    ours = keras_vit.from_pretrained(path / "model.weights.h5" if form == "weights" else path)
    assert ours.get_layer("encoder_block_00").num_heads == 3  # a model of this package
    assert max_difference(ours(IMAGES), expected) < 2e-5 * np.abs(expected).max()
    assert "preprocess_input" in capsys.readouterr().err  # nothing states how images are prepared
    assert max_difference(keras_vit.load_model(path)(IMAGES), ours(IMAGES)) == 0
    if form == "folder" and name != "DeiT":
        keras_vit.save_weights(ours, tmp_path / "back", layout="keras_hub")
        again = keras_hub().models.Backbone.from_preset(str(tmp_path / "back"))
        inputs = {key: IMAGES for key in again.input} if isinstance(again.input, dict) else IMAGES
        assert max_difference(np.asarray(again(inputs)), expected) < 2e-5 * np.abs(expected).max()
        assert max_difference(keras_vit.from_pretrained(tmp_path / "back")(IMAGES), ours(IMAGES)) < 1e-6


@pytest.mark.parametrize("form", ["folder", "keras"])
@pytest.mark.parametrize("options", [{}, {"intermediate_dim": 7}])
def test_a_classifier_computes_alike_and_its_converter_states_the_images(options, form, tmp_path):
    hub = keras_hub()
    converter = hub.layers.ViTImageConverter((32, 32), scale=1 / 127.5, offset=-1)
    images = hub.models.ViTImageClassifierPreprocessor(image_converter=converter)
    model = hub.models.ViTImageClassifier(backbone=backbone("ViT"), num_classes=5, preprocessor=images, **options)
    expected = np.asarray(filled(model)(IMAGES))
    path = tmp_path / ("model.keras" if form == "keras" else "preset")
    model.save(path) if form == "keras" else model.save_to_preset(str(path))
    ours = keras_vit.from_pretrained(path)
    assert max_difference(ours(IMAGES), expected) < 2e-5 * np.abs(expected).max()
    keras_vit.save_weights(ours, tmp_path / "back", layout="keras_hub")
    again = hub.models.ImageClassifier.from_preset(str(tmp_path / "back"))
    assert max_difference(np.asarray(again(IMAGES)), expected) < 2e-5 * np.abs(expected).max()
    back = keras_vit.from_pretrained(tmp_path / "back")
    assert max_difference(back(IMAGES), ours(IMAGES)) < 1e-6
    assert (back.preprocessing.size, back.preprocessing.resize_mode) == ((32, 32), ours.preprocessing.resize_mode)
    assert back.preprocessing.mean == pytest.approx((0.5,) * 3)
    if form == "folder":
        assert ours.preprocessing.size == (32, 32) and ours.preprocessing.mean == pytest.approx((0.5,), abs=1e-6)
    other = keras_vit.from_pretrained(path, classes=3, input_shape=(48, 48, 3))
    assert other.output_shape == (None, 3)


def test_what_computes_otherwise_is_refused_by_name(tmp_path):
    hub = keras_hub()
    gap = hub.models.ViTImageClassifier(backbone=backbone("ViT"), num_classes=5, pooling="gap")
    gap.save_to_preset(str(tmp_path / "gap"))  # averages the class token, too
    with pytest.raises(ValueError, match="received one of ViTBackbone with pooling='gap'"):
        keras_vit.from_pretrained(tmp_path / "gap")
    vgg = hub.models.VGGBackbone(stackwise_num_repeats=[1], stackwise_num_filters=[4], image_shape=(16, 16, 3))
    vgg.save_to_preset(str(tmp_path / "vgg"))
    vgg.save(tmp_path / "vgg.keras")
    for path in (tmp_path / "vgg", tmp_path / "vgg.keras"):
        with pytest.raises(
            ValueError, match="expected a keras-hub model with a backbone among ViTBackbone, .*received"
        ):
            keras_vit.from_pretrained(path)


def test_what_keras_hub_lacks_is_named_when_written(tmp_path):
    row = keras_vit.Variant("tiny", 24, 2, 48, 3, patch_size=8, image_size=32)
    sentences = {
        "expected activation='gelu' in keras-hub's ViTBackbone, received 'gelu_tanh'": {},
        "expected a model like those of transformers, .* received one with pooling='map'": {"pooling": "map"},
    }
    for sentence, options in sentences.items():
        with pytest.raises(ValueError, match=sentence):
            keras_vit.save_weights(keras_vit.build(row, classes=3, **options), tmp_path / "out", layout="keras_hub")
    with pytest.raises(ValueError, match="path expected a folder for layout 'keras_hub', received"):
        keras_vit.save_weights(keras_vit.build(row, classes=3), tmp_path / "out.h5", layout="keras_hub")
    assert not (tmp_path / "out").exists()
