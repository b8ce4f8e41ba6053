"""What an `ImageSpec` does to images, compared with timm, transformers, Pillow and keras-hub."""

import io
import json

import numpy as np
import parity
import pytest
from photos import CLIP, SIZES, HubFile, compare_with_timm, geometries, levels_apart, photos, synthetic
from PIL import Image
from support import max_difference, needs_tensorflow

import keras_vit
from keras_vit.models.model_interface import model_interface, named_outputs
from keras_vit.predict import predict
from keras_vit.preprocessing.geometry import prepare_image
from keras_vit.preprocessing.image_spec import RESIZE_MODES, ImageSpec
from keras_vit.preprocessing.inputs import load_image
from keras_vit.preprocessing.resize import resize_as_pillow
from keras_vit.weights.image_configs import read_spec


@needs_tensorflow
def test_every_geometry_of_the_census_is_timms_on_synthetic_images():
    found = geometries()
    assert len(found) > 25
    for i, (spec, config) in enumerate(found):
        compare_with_timm(spec, config, [synthetic(SIZES[i % len(SIZES)])], in_graph=spec.size[0] <= 512)


@needs_tensorflow
def test_a_few_photos_are_timms():
    images = photos(step=67)
    for spec, config in geometries()[::5]:
        compare_with_timm(spec, config, images)


@pytest.mark.parametrize("mode", [mode for mode in RESIZE_MODES if mode != "corner"])  # which timm does not have
@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic", "lanczos", "hamming"])
@needs_tensorflow
def test_modes_that_the_census_lacks_are_timms(mode, interpolation):
    config = {"input_size": (3, 48, 32), "interpolation": interpolation, "crop_mode": mode, "crop_pct": 0.9, **CLIP}
    spec = ImageSpec((48, 32), mode, interpolation, crop_fraction=0.9, **CLIP)
    compare_with_timm(spec, config, [synthetic(size) for size in SIZES])


PROCESSORS = {
    "ViTImageProcessor": {"size": {"height": 48, "width": 48}, "resample": 2},
    "DeiTImageProcessor": {"size": {"height": 60, "width": 60}, "resample": 3, "do_center_crop": True,
                           "crop_size": {"height": 48, "width": 48}},
    "BitImageProcessor": {"size": {"shortest_edge": 55}, "resample": 3, "do_center_crop": True,
                          "crop_size": {"height": 48, "width": 48}},
    "CLIPImageProcessor": {"size": {"shortest_edge": 48}, "resample": 3, "do_center_crop": True,
                           "crop_size": {"height": 48, "width": 48}},
    "SiglipImageProcessor": {"size": {"height": 48, "width": 48}, "resample": 3},
    "SamImageProcessor": {"size": {"longest_edge": 48}, "resample": 2, "do_pad": True,
                          "pad_size": {"height": 48, "width": 48}},
}  # fmt: skip


@pytest.mark.parametrize("kind", PROCESSORS)
@needs_tensorflow
def test_transformers_processors_prepare_the_same_pixels(kind, tmp_path):
    transformers = parity.transformers()
    config = {"image_processor_type": kind, "do_resize": True, "do_rescale": True, "rescale_factor": 1 / 255,
              "do_normalize": True, "image_mean": list(CLIP["mean"]), "image_std": list(CLIP["std"])}  # fmt: skip
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(config | PROCESSORS[kind]))
    spec = read_spec(HubFile(tmp_path), "hf")
    assert spec.size == (48, 48)
    processor = parity.quietly(lambda: transformers.AutoImageProcessor.from_pretrained(tmp_path, backend="pil"))
    for i in range(12):  # odd and even numbers of excess pixels
        image = synthetic((64 + 7 * i, 75 + 3 * i), i)
        assert max(levels_apart(spec, processor, image)) <= 1 + 1e-3


@needs_tensorflow
@pytest.mark.parametrize("crop", [True, False])
def test_keras_hubs_converter_is_read(crop, tmp_path):
    keras_hub = pytest.importorskip("keras_hub", reason="keras-hub is not installed")
    mean, std = np.array(CLIP["mean"]), np.array(CLIP["std"])
    converter = keras_hub.layers.ImageConverter(
        (32, 32), scale=(1 / (255 * std)).tolist(), offset=(-mean / std).tolist(), crop_to_aspect_ratio=crop
    )
    layer = {"class_name": "ImageConverter", "config": converter.get_config() | {"dtype": "float32"}}
    (tmp_path / "image_converter.json").write_text(json.dumps(layer))
    spec = read_spec(HubFile(tmp_path), "hf")
    assert (spec.size, spec.antialias, spec.resize_mode) == ((32, 32), False, "center" if crop else "squash")
    np.testing.assert_allclose((*spec.mean, *spec.std), (*mean, *std), rtol=1e-6)
    image = synthetic((64, 64) if crop else (64, 80))
    expected = np.asarray(converter(image[None].astype("float32")))[0]
    assert max_difference(spec.normalize(prepare_image(image, spec, (32, 32))), expected) < 1e-4
    layer["config"] |= {"crop_to_aspect_ratio": False, "pad_to_aspect_ratio": True}
    (tmp_path / "image_converter.json").write_text(json.dumps(layer))
    with pytest.raises(ValueError, match="received pad_to_aspect_ratio=True, which pads with black"):
        read_spec(HubFile(tmp_path), "hf")


@pytest.mark.parametrize("interpolation", ["bicubic", "lanczos", "box", "hamming", "nearest"])
def test_resizing_is_that_of_pillow(interpolation):
    rng = np.random.default_rng(0)
    for _ in range(20):
        height, width, new_height, new_width = (int(side) for side in rng.integers(5, 120, 4))
        image = synthetic((height, width))
        expected = Image.fromarray(image).resize((new_width, new_height), Image.Resampling[interpolation.upper()])
        received = resize_as_pillow(image, (new_height, new_width), interpolation)
        np.testing.assert_array_equal(received, np.asarray(expected))


@needs_tensorflow
@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic"])
def test_resizing_without_antialias_is_that_of_tensorflow(interpolation):
    from keras_vit.preprocessing import graph

    spec = ImageSpec(None, "squash", interpolation, antialias=False)
    tolerance = {"bilinear": 0.01, "bicubic": 0.5}[interpolation]  # TensorFlow reads cubic weights from a short table
    for size in ((17, 60), (64, 23)):
        image = synthetic((50, 41))
        assert max_difference(graph.prepare_image(image, spec, size), prepare_image(image, spec, size)) < tolerance


def test_a_spec_says_what_is_wrong_with_it():
    with pytest.raises(ValueError, match="interpolation expected one of .* without antialias, received 'lanczos'"):
        ImageSpec(interpolation="lanczos", antialias=False)
    with pytest.raises(ValueError, match="crop_offset expected one of .*, received 'up'"):
        ImageSpec(crop_offset="up")


@needs_tensorflow
def test_a_graph_refuses_what_tensorflow_cannot_resize_by():
    from keras_vit.preprocessing import graph

    for name in ("box", "nearest"):
        with pytest.raises(ValueError, match=f"interpolation expected one of .* in a graph, received '{name}'"):
            graph.prepare_image(synthetic((9, 9)), ImageSpec((8, 8), "center", name), (8, 8))


def test_normalize_and_back():
    pixels = synthetic((6, 5))
    for spec in (ImageSpec(), ImageSpec(**CLIP), ImageSpec(**CLIP, channel_order="BGR")):
        assert max_difference(spec.denormalize(spec.normalize(pixels)), pixels) < 1e-3
        low, high = spec.input_range(3)
        ends = spec.normalize(np.array([[0.0] * 3, [255.0] * 3], "float32"))
        assert (low, high) == (pytest.approx(ends.min()), pytest.approx(ends.max()))
    grey = ImageSpec(**CLIP).normalize(pixels[..., :1])  # a model of one channel takes the mean of the three
    assert grey.shape == (6, 5, 1)
    first = ImageSpec(**CLIP, channel_order="BGR").normalize(pixels)[..., 0]
    assert max_difference(first, (pixels[..., 2] / 255 - CLIP["mean"][0]) / CLIP["std"][0]) < 1e-5


@needs_tensorflow
@pytest.mark.parametrize("include_preprocessing", [False, True])
def test_logits_of_a_jpeg_are_those_of_timms_pipeline(include_preprocessing, tmp_path):
    """From the bytes: decoding, preprocessing and the network, by Python and by the exported graph."""
    timm = parity.timm()
    import torch

    model = parity.timm_folder(timm, "deit_tiny_patch16_224", tmp_path / "deit")
    config = json.loads((tmp_path / "deit" / "config.json").read_text())
    config["pretrained_cfg"] |= {"input_size": [3, 64, 64], "crop_mode": "center"}
    (tmp_path / "deit" / "config.json").write_text(json.dumps(config))
    ours = keras_vit.from_pretrained(
        tmp_path / "deit", classifier_activation="softmax", include_preprocessing=include_preprocessing
    )
    data = timm.data.resolve_data_config(pretrained_cfg=config["pretrained_cfg"])
    transform = timm.data.create_transform(**data)
    files = []
    for i, size in enumerate(SIZES):
        file = io.BytesIO()
        smooth = Image.fromarray(synthetic(size, i)).resize((size[1] // 8, size[0] // 8)).resize(size[::-1])
        smooth.save(file, "JPEG", quality=95)
        files.append(file.getvalue())
    batch = torch.stack([transform(Image.open(io.BytesIO(data)).convert("RGB")) for data in files])
    logits = parity.quietly(lambda: model(batch)).numpy()
    interface = model_interface(ours)
    pixels = np.stack([load_image(data, interface.image_shape, interface.preprocessing) for data in files])
    logit_model = named_outputs(ours)
    received = np.asarray(logit_model(interface.inputs_of(pixels))["logits"])
    assert max_difference(received, logits) < 1e-3 * max(1, np.abs(logits).max())
    for i, data in enumerate(files):
        (tmp_path / f"{i}.jpg").write_bytes(data)
    best = predict(ours, [tmp_path / f"{i}.jpg" for i in range(len(files))], top=1)
    assert [int(row["predictions"][0]["label"]) for row in best] == logits.argmax(axis=1).tolist()
