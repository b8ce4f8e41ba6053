"""Photographs and synthetic images, and the peers' preprocessing of them."""

from dataclasses import replace

import numpy as np
import parity
import pytest
from PIL import Image
from support import ROOT, max_difference

from keras_vit.preprocessing.geometry import prepare_image
from keras_vit.preprocessing.image_spec import ImageSpec
from keras_vit.weights.timm_checkpoints import timm_checkpoints

PHOTOS = ROOT.parent / "shared/data/imagenet_sample"
SIZES = ((301, 500), (500, 333), (97, 64), (40, 41))  # synthetic images
CLIP = {"mean": (0.48145466, 0.4578275, 0.40821073), "std": (0.26862954, 0.26130258, 0.27577711)}


def synthetic(size, seed=0) -> np.ndarray:
    """Noise on a gradient: every frequency, and values that overshoot."""
    rng = np.random.default_rng(seed)
    ramp = np.linspace(0, 255, size[1])[None, :, None] * np.ones((size[0], 1, 3))
    noise = rng.integers(0, 256, (*size, 3))
    return np.where(rng.random(size)[..., None] < 0.5, ramp, noise).astype("uint8")


def photos(step: int) -> list[np.ndarray]:
    files = sorted(PHOTOS.glob("*.JPEG"))[::step] or sorted(PHOTOS.glob("*.jp*g"))[::step]
    if not files:
        pytest.skip("the photographs lie beside the project's checkout only")
    return [np.asarray(Image.open(file).convert("RGB")) for file in files]


def census() -> dict[ImageSpec, dict]:
    """Every preprocessing of timm's Vision Transformers, with timm's config."""
    specs = {}
    for row in timm_checkpoints():
        config = {"input_size": (3, *row.spec.size), "mean": row.spec.mean, "std": row.spec.std,
                  "interpolation": row.spec.interpolation, "crop_pct": row.spec.crop_fraction,
                  "crop_mode": row.spec.resize_mode}  # fmt: skip
        specs.setdefault(row.spec, config)
    return specs


def theirs_of(config: dict):
    """timm's evaluation transform: a function of an image -> pixels 0..255 (H, W, C)."""
    timm = parity.timm()
    transform = timm.data.create_transform(**timm.data.resolve_data_config(pretrained_cfg=config))

    def pixels(image):
        normalized = transform(Image.fromarray(image)).numpy().transpose(1, 2, 0)
        return normalized, np.round((normalized * np.array(config["std"]) + np.array(config["mean"])) * 255)

    return pixels


def compare_with_timm(spec, config, images, in_graph=True):
    transform = theirs_of(config)
    for image in images:
        normalized, expected = transform(image)
        received = prepare_image(image, spec, spec.size)
        np.testing.assert_array_equal(received, expected)
        assert max_difference(spec.normalize(expected.astype("float32")), normalized) < 1e-5
        if in_graph:
            from keras_vit.preprocessing import graph

            np.testing.assert_array_equal(graph.prepare_image(image, spec, spec.size), received)


def geometries() -> list[tuple[ImageSpec, dict]]:
    """The specs of the census that differ in more than mean and std, the small ones first."""
    distinct = {}
    for spec, config in census().items():
        distinct.setdefault(replace(spec, mean=(0.5,), std=(0.5,)), (spec, config))
    return sorted(distinct.values(), key=lambda pair: pair[0].size)


def levels_apart(spec, processor, image) -> tuple[float, float]:
    """The largest differences of a pixel, of 255: to transformers' processor, and of the graph to Python."""
    from keras_vit.preprocessing import graph

    expected = np.asarray(processor(Image.fromarray(image))["pixel_values"][0]).transpose(1, 2, 0)
    received = spec.normalize(np.round(prepare_image(image, spec, spec.size)))
    pixels = graph.prepare_image(image, spec, spec.size)
    apart = float(np.max(np.abs(received - expected) * np.array(spec.std) * 255))
    return apart, max_difference(pixels, np.round(spec.denormalize(received)))


class HubFile:
    """A file in a folder with configs."""

    config: dict = {}

    def __init__(self, folder):
        self.source = str(folder / "model.safetensors")
