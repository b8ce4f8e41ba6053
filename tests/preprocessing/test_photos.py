"""Real JPEG files: pixels and logits of timm's and transformers' own pipelines, for every spec of the census."""

import json

import numpy as np
import parity
import pytest
from photos import CLIP, PHOTOS, SIZES, HubFile, census, compare_with_timm, geometries, levels_apart, photos, synthetic
from PIL import Image
from support import max_difference, needs_tensorflow

import keras_vit
from keras_vit.models.model_interface import model_interface, named_outputs
from keras_vit.preprocessing.inputs import load_image
from keras_vit.weights.image_configs import read_spec


@pytest.mark.large
@needs_tensorflow
@pytest.mark.parametrize("part", range(4))
def test_every_spec_of_the_census_is_timms_on_all_photos(part):
    """Mean and deviation follow the geometry: specs that differ in them only share the pixels, and see a few photos."""
    images = [*photos(step=1), *map(synthetic, SIZES)]
    found = geometries()
    for spec, config in found[part::4]:
        compare_with_timm(spec, config, images)
    seen = {spec for spec, _ in found}
    for spec, config in [pair for pair in census().items() if pair[0] not in seen][part::4]:
        compare_with_timm(spec, config, images[::40])


# The processors of published models: transformers' defaults for the sizes, and the models' own for the rest.
PUBLISHED = {
    "ViTImageProcessor": {"size": {"height": 224, "width": 224}, "resample": 2},
    "DeiTImageProcessor": {"size": {"height": 256, "width": 256}, "resample": 3, "do_center_crop": True,
                           "crop_size": {"height": 224, "width": 224}},
    "BitImageProcessor": {"size": {"shortest_edge": 256}, "resample": 3, "do_center_crop": True,
                          "crop_size": {"height": 224, "width": 224}},
    "CLIPImageProcessor": {"size": {"shortest_edge": 224}, "resample": 3, "do_center_crop": True,
                           "crop_size": {"height": 224, "width": 224}},
    "SiglipImageProcessor": {"size": {"height": 224, "width": 224}, "resample": 3},
}  # fmt: skip


@pytest.mark.large
@pytest.mark.parametrize("kind", PUBLISHED)
@needs_tensorflow
def test_transformers_processors_prepare_the_same_pixels_of_all_photos(kind, tmp_path):
    transformers = parity.transformers()
    config = {"image_processor_type": kind, "do_resize": True, "do_rescale": True, "rescale_factor": 1 / 255,
              "do_normalize": True, "image_mean": list(CLIP["mean"]), "image_std": list(CLIP["std"])}  # fmt: skip
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(config | PUBLISHED[kind]))
    spec = read_spec(HubFile(tmp_path), "hf")
    processor = parity.quietly(lambda: transformers.AutoImageProcessor.from_pretrained(tmp_path, backend="pil"))
    apart = np.array([levels_apart(spec, processor, image) for image in photos(step=1)])
    print(f"{kind}: {apart.max(axis=0)} levels of 255")
    assert apart.max() < 1e-3


@pytest.mark.large
@needs_tensorflow
def test_logits_of_all_photos_are_those_of_timms_pipeline(tmp_path):
    """From the bytes of the JPEG files, at the sizes of the published model."""
    timm = parity.timm()
    model = parity.timm_folder(timm, "deit_tiny_patch16_224", tmp_path / "deit", img_size=224)
    config = json.loads((tmp_path / "deit" / "config.json").read_text())
    config["pretrained_cfg"] |= {"input_size": [3, 224, 224], "crop_mode": "center"}
    (tmp_path / "deit" / "config.json").write_text(json.dumps(config))
    ours = keras_vit.from_pretrained(tmp_path / "deit")
    transform = timm.data.create_transform(**timm.data.resolve_data_config(pretrained_cfg=config["pretrained_cfg"]))
    files = sorted(PHOTOS.glob("*.jp*g"))
    if not files:
        pytest.skip("the photographs lie beside the project's checkout only")
    interface, outputs, apart = model_interface(ours), named_outputs(ours), []
    for file in files:
        batch = transform(Image.open(file).convert("RGB"))[None]
        logits = parity.quietly(lambda batch=batch: model(batch)).numpy()
        pixels = load_image(file.read_bytes(), interface.image_shape, interface.preprocessing)
        received = np.asarray(outputs(interface.inputs_of(pixels[None]))["logits"])
        apart.append(max_difference(received, logits) / max(1, np.abs(logits).max()))
    print(f"logits: {max(apart)} of the largest")
    assert max(apart) < 1e-3
