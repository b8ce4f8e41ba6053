"""ONE table of augmentations, and the part of a recipe that sets them.

A new augmentation is a field of `Augment` with its check, a function and a row of `OPS`, all in this file. Reading a
recipe needs no TensorFlow, so the functions import it themselves.

B batch, H W C image.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields

from keras_vit.checks import is_count, is_number, is_size, require

_RANDAUGMENT, _ERASE = 4, 5  # purposes of seeds; data/pipeline.py and tasks/masked.py use other values


@dataclass(frozen=True)
class Augment:
    """Random changes to the training images.

    Args:
        crop: `none` (the whole image), `inception` (a random part of random aspect ratio, 3/4 to 4/3), `resize` (the
            image resized to `crop_resize`, then a random part of the model's size), or `pad` (the image with a black
            border of `crop_pad`, then a random window of the image's size).
        crop_area: the smallest share of the image that `inception` crops to, in (0, 1].
        crop_resize: size in pixels that `resize` resizes to, at the model's size: one int for the shorter side, or
            (height, width), which changes the aspect ratio. In a stage with another image size it scales likewise.
        crop_pad: width in pixels of the border of `pad`, at the model's size; in a stage it scales likewise.
        flip: whether to mirror half of the images, left to right.
        shift: largest move along each axis as a share of the side, in [0, 1).
        rotate: largest rotation in degrees, in both directions.
        zoom: largest change of size as a share, in [0, 1).
        randaugment: (operations per image, magnitude out of 30) of RandAugment (arXiv 1909.13719); None for none.
        mixup: p of Beta(p, p), from which the share of a second image is drawn (arXiv 1710.09412); 0 for none.
        cutmix: the same for the area of a second image that is pasted in (arXiv 1905.04899). With both, each batch
            gets one of the two, with equal probability.
        mosaic: probability in [0, 1] that each image of a batch is composed of four images, and its target by their
            areas (RICAP, arXiv 1811.09030), by keras-cv's `Mosaic` (extra `recipes`). Such a batch is not blended.
        erasing: probability that a rectangle of an image is replaced by noise (arXiv 1708.04896), in [0, 1).
    """

    crop: str = "none"
    crop_area: float = 0.05
    crop_resize: int | tuple[int, int] | None = None
    crop_pad: int = 4
    flip: bool = False
    shift: float = 0.0
    rotate: float = 0.0
    zoom: float = 0.0
    randaugment: tuple[int, int] | None = None
    mixup: float = 0.0
    cutmix: float = 0.0
    mosaic: float = 0.0
    erasing: float = 0.0

    def __post_init__(self):
        kinds = ("none", "inception", "resize", "pad")
        require(self.crop in kinds, "crop", "one of 'none', 'inception', 'resize', 'pad'", self.crop)
        require(is_size(self.crop_resize), "crop_resize", "a positive int or (height, width)", self.crop_resize)
        require(is_count(self.crop_pad), "crop_pad", "a positive int", self.crop_pad)
        require(self.crop_area == 1 or is_number(self.crop_area, 1e-9, 1), "crop_area", "a share in (0, 1]",
                 self.crop_area)  # fmt: skip
        require(isinstance(self.flip, bool), "flip", "true or false", self.flip)
        require(is_number(self.rotate, 0, 181), "rotate", "degrees in [0, 180]", self.rotate)
        for name in ("shift", "zoom"):
            require(is_number(getattr(self, name), 0, 1), name, "a share in [0, 1)", getattr(self, name))
        require(self.randaugment is None or _is_randaugment(self.randaugment), "randaugment",
                "(operations, magnitude of 0 to 30) or null", self.randaugment)  # fmt: skip
        for name in ("mixup", "cutmix"):
            require(is_number(getattr(self, name), 0), name, "a number of at least 0", getattr(self, name))
        require(self.mosaic == 1 or is_number(self.mosaic, 0, 1), "mosaic", "a probability in [0, 1]", self.mosaic)
        require(is_number(self.erasing, 0, 1), "erasing", "a probability in [0, 1)", self.erasing)


def _is_randaugment(value) -> bool:
    pair = isinstance(value, tuple) and len(value) == 2
    return pair and is_count(value[0]) and is_number(value[1], 0, 30.001)


@dataclass(frozen=True)
class Op:
    """One augmentation of images.

    Functions are called as `function(images, augment, numbers)` and return the changed images. `numbers` are the
    integers (seed, epoch, example) that random values depend on, as `keras_vit.data.seeds` takes them.

    Args:
        name: for messages.
        per: `example` for a function of one image (H, W, C), `batch` for one of a batch (B, H, W, C).
        function: changes the images, which are in 0..255.
        fields: fields of `Augment` that the function reads. The operation runs if one of them is not 0, false or null.
        resized: whether an example has the model's size already, or still its own.
        on_batch: the same change of a batch, for pipelines that have no other reason to map single examples.
    """

    name: str
    per: str
    function: Callable
    fields: tuple[str, ...]
    resized: bool = True
    on_batch: Callable | None = None


def _flip(image, augment, numbers):
    import tensorflow as tf

    from keras_vit.data.seeds import uniform

    return tf.cond(uniform(0, *numbers) < 0.5, lambda: tf.reverse(image, [1]), lambda: image)


def _flip_batch(images, augment, numbers):
    from keras_vit.data.augment import flip
    from keras_vit.data.seeds import uniform

    return flip(images, uniform(0, *numbers))


def _rand_augment(image, augment, numbers):
    import tensorflow as tf

    from keras_vit.data.randaugment import rand_augment
    from keras_vit.data.seeds import seed_pair

    image = tf.cast(tf.round(image), tf.uint8)
    return rand_augment(image, *augment.randaugment, seed_pair(*numbers, _RANDAUGMENT))


def _erase(image, augment, numbers):
    from keras_vit.data.augment import erase
    from keras_vit.data.seeds import seed_pair

    return erase(image, augment.erasing, seed_pair(*numbers, _ERASE))


def _shift_rotate_zoom(images, augment, numbers):
    import tensorflow as tf

    from keras_vit.data.augment import shift_rotate_zoom
    from keras_vit.data.seeds import uniform

    draws = uniform(tf.range(1, 5)[:, None], *numbers)  # (4, B)
    return shift_rotate_zoom(images, draws, augment.shift, augment.rotate, augment.zoom)


OPS = (
    Op("flip", "example", _flip, ("flip",), resized=False, on_batch=_flip_batch),
    Op("randaugment", "example", _rand_augment, ("randaugment",)),
    Op("erase", "example", _erase, ("erasing",)),
    Op("shift_rotate_zoom", "batch", _shift_rotate_zoom, ("shift", "rotate", "zoom")),
)
CROPS = ("crop", "crop_area", "crop_resize", "crop_pad")  # how an image gets the model's size: data/pipeline.py
BLENDS = ("mixup", "cutmix", "mosaic")  # of several images and their targets: data/blend.py


def operations(augment: Augment) -> tuple[Op, ...]:
    """Return the operations that `augment` sets, in the order they run.

    Raises:
        ValueError: `augment` has a field that nothing reads.
    """
    read = {*CROPS, *BLENDS, *(name for op in OPS for name in op.fields)}
    unread = [field.name for field in fields(augment) if field.name not in read]
    if unread:
        raise ValueError(f"augment expected fields that an operation of data/augmentations.py reads, received {unread} "
                         "as well: list them in a row of OPS.")  # fmt: skip
    return tuple(op for op in OPS if any(getattr(augment, name) for name in op.fields))
