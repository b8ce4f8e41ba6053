"""The table of augmentations: what a recipe sets is run, and gives the pixels it always gave."""

from dataclasses import dataclass, fields, replace

import numpy as np
import pytest
from support import needs_tensorflow

from keras_vit.data import augmentations
from keras_vit.data.augmentations import BLENDS, CROPS, OPS, Augment, Op, operations
from keras_vit.data.pipeline import training_batches
from keras_vit.data.sources import in_memory

pytestmark = needs_tensorflow

RNG = np.random.default_rng(0)
RNG.integers(0, 256, (21, 8, 8, 1), "uint8")  # the values below were drawn behind these
COLOUR = in_memory(RNG.integers(0, 256, (21, 12, 10, 3), "uint8"), np.arange(21) % 3, ["a", "b", "c"])


@dataclass(frozen=True)
class Inverting(Augment):
    invert: float = 0.0


def batches(augment, examples=COLOUR, shape=(12, 10, 3)):
    options = {"batch_size": 4, "input_shape": shape, "epochs": 1, "seed": 5}
    return list(training_batches(examples, augment, **options).as_numpy_iterator())


def test_every_field_is_read_once():
    read = [*CROPS, *BLENDS, *(name for op in OPS for name in op.fields)]
    assert sorted(read) == sorted(field.name for field in fields(Augment))
    assert operations(Augment()) == ()
    assert [op.name for op in operations(Augment(erasing=0.5, zoom=0.1, flip=True))] == [
        "flip",
        "erase",
        "shift_rotate_zoom",
    ]


def test_a_field_that_nothing_reads_is_refused():
    with pytest.raises(ValueError, match=r"augment expected fields that an operation .* reads, received \['invert'\]"):
        batches(Inverting(invert=0.5))


@pytest.mark.parametrize("per", ["example", "batch"])
def test_a_row_of_the_table_is_all_that_an_augmentation_needs(per, monkeypatch):
    """Plain arrays need no map of single examples, which an operation of single examples brings about by itself."""
    shapes = []

    def invert(images, augment, numbers):
        shapes.append(images.shape.rank)
        return 255.0 * augment.invert - images

    monkeypatch.setattr(augmentations, "OPS", (*OPS, Op("invert", per, invert, ("invert",))))
    plain, inverted = batches(Inverting()), batches(Inverting(invert=1.0))
    assert shapes == [3 if per == "example" else 4]
    for (before, _), (after, _) in zip(plain, inverted, strict=True):
        np.testing.assert_allclose(after, -before, atol=1e-6)


EVERYTHING = Augment(
    "inception", 0.3, flip=True, shift=0.1, rotate=10, zoom=0.1, randaugment=(2, 9), mixup=0.2, cutmix=0.5, erasing=0.3
)
# Means of the first three batches times a ramp across, as before there was a table of augmentations.
PIXELS = {
    "flip and shift": (Augment(flip=True, shift=0.1), (-0.0253922, -0.0717939, -0.0284908)),
    "everything": (EVERYTHING, (-0.0505686, -0.0541902, -0.0596736)),
    "everything but crops": (replace(EVERYTHING, crop="none"), (-0.0246395, -0.0578045, -0.0570952)),
    "erasing": (Augment(erasing=0.5), (0.0049764, -0.0076622, 0.0085639)),
    "RandAugment": (Augment(randaugment=(2, 10)), (0.0008085, 0.0387412, 0.0029793)),
    "padded windows": (Augment("pad", flip=True), (-0.1893658, -0.1761716, -0.1275109)),
    "windows": (Augment("resize", crop_resize=14, flip=True), (-0.0000373, -0.0038966, -0.0025619)),
}


@pytest.mark.parametrize("name", PIXELS)
def test_a_seed_gives_the_pixels_it_always_gave(name):
    augment, expected = PIXELS[name]
    ramp = np.linspace(0, 1, 10, dtype="float32")[:, None]
    found = [(images * ramp).mean(dtype="float64") for images, _ in batches(augment)]
    np.testing.assert_allclose(found[:3], expected, atol=2e-5)
