"""State how images become a model's input, which is a property of the weights.

A checkpoint carries one `ImageSpec`: the loader reads it from the file's config, the first layer stores it in its own
config, and `save_weights` writes it.
"""

from dataclasses import asdict, dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np

from keras_vit.preprocessing.inputs import as_floats, preprocess_input
from keras_vit.private import layers_of

if TYPE_CHECKING:  # some commands do not import Keras
    import keras

RESIZE_MODES = ("squash", "center", "border", "corner")
INTERPOLATIONS = ("nearest", "bilinear", "bicubic", "lanczos", "box", "hamming")
CHANNEL_ORDERS = ("RGB", "BGR")
CROP_OFFSETS = ("nearest", "floor")
_WITHOUT_ANTIALIAS = ("nearest", "bilinear", "bicubic")  # what TensorFlow computes, too


@dataclass(frozen=True)
class ImageSpec:
    """Describe how the images of a model are resized, cropped and normalised.

    Args:
        size: (height, width) of the model's input in pixels; None if the model takes any size.
        resize_mode: `squash` resizes both sides; `center` resizes the shorter side and cuts the center out; `border`
            resizes the longer side and pads the other one on both ends with `fill`; `corner` pads at the bottom and the
            right (SAM).
        interpolation: one of `INTERPOLATIONS`, as Pillow calls them.
        antialias: whether the filter widens when the image shrinks, as Pillow's does.
        crop_fraction: side of the center crop divided by the side of the resized image, in (0, 1].
        mean: mean of pixels in [0, 1], one value per channel or one for all channels.
        std: standard deviation of pixels in [0, 1], likewise.
        channel_order: `RGB` or `BGR`; mean and std are in this order.
        crop_offset: rounding of the center crop's offset, `nearest` (half to even) in timm and `floor` in transformers.
        fill: color in [0, 1] that `border` and `corner` pad with, as RGB; None for the mean.

    Raises:
        ValueError: a value is out of range.
    """

    size: tuple[int, int] | None = None
    resize_mode: str = "squash"
    interpolation: str = "bilinear"
    antialias: bool = True
    crop_fraction: float = 1.0
    mean: tuple[float, ...] = (0.5,)
    std: tuple[float, ...] = (0.5,)
    channel_order: str = "RGB"
    crop_offset: str = "nearest"
    fill: tuple[float, ...] | None = None

    def __post_init__(self):
        for name in ("size", "mean", "std", "fill"):  # JSON has lists
            value = getattr(self, name)
            object.__setattr__(self, name, None if value is None else tuple(value))
        choices = {"resize_mode": RESIZE_MODES, "interpolation": INTERPOLATIONS, "antialias": (True, False)}
        choices |= {"channel_order": CHANNEL_ORDERS, "crop_offset": CROP_OFFSETS}
        for name, known in choices.items():
            if getattr(self, name) not in known:
                raise ValueError(f"{name} expected one of {known}, received {getattr(self, name)!r}.")
        if not self.antialias and self.interpolation not in _WITHOUT_ANTIALIAS:
            raise ValueError(
                f"interpolation expected one of {_WITHOUT_ANTIALIAS} without antialias, "
                f"received {self.interpolation!r}."
            )
        numbers = (self.crop_fraction, *self.mean, *self.std, *(self.fill or ()))
        if not all(isinstance(number, Real) for number in numbers):
            raise ValueError(f"crop_fraction, mean, std and fill expected numbers, received {numbers}.")
        if not 0 < self.crop_fraction <= 1:
            raise ValueError(f"crop_fraction expected a number in (0, 1], received {self.crop_fraction!r}.")
        if not self.mean or not self.std or not all(value > 0 for value in self.std):
            raise ValueError(f"mean and std expected values per channel, std > 0, received {self.mean} and {self.std}.")

    @property
    def is_plain_scaling(self) -> bool:
        """Return whether pixels 0..255 are scaled to [-1, 1], as `preprocess_input` scales them."""
        halves = all(abs(value - 0.5) < 1e-6 for value in (*self.mean, *self.std))
        return halves and self.channel_order == "RGB"

    @property
    def is_plain_pixels(self) -> bool:
        """Return whether the model takes pixels 0..255 as they are, as after `keras_vit.fold_normalization`."""
        as_they_are = all(value == 0 for value in self.mean) and all(abs(255 * value - 1) < 1e-6 for value in self.std)
        return as_they_are and self.channel_order == "RGB"

    @property
    def is_plain_resize(self) -> bool:
        """Return whether both sides are resized to the model's input by antialiased bilinear interpolation."""
        return (self.resize_mode, self.interpolation, self.antialias, self.crop_fraction) == (
            "squash",
            "bilinear",
            True,
            1,
        )

    def per_channel(self, values: tuple[float, ...], channels: int) -> list[float]:
        """Return `mean` or `std` with one value per channel. A model of other channels than the values has their mean.

        `conversions` of weights average the kernels over the channels, too.
        """
        return list(values) if len(values) == channels else [sum(values) / len(values)] * channels

    def normalize(self, pixels: Any) -> Any:
        """Return the model's input of pixels in 0..255 (..., C), a NumPy array or a tensor."""
        if self.is_plain_scaling:
            return preprocess_input(pixels)
        if self.is_plain_pixels:
            return as_floats(pixels)
        mean, std = self._mean_and_std(pixels.shape[-1])
        return (as_floats(self.reorder(pixels)) / 255.0 - mean) / std

    def reorder(self, pixels: Any) -> Any:
        """Return RGB pixels (..., C) in the model's channel order, or the reverse."""
        return pixels if self.channel_order == "RGB" else pixels[..., ::-1]

    def denormalize(self, inputs: Any) -> Any:
        """Return the pixels in 0..255 of a model's input (..., C), the inverse of `normalize`."""
        if self.is_plain_pixels:
            return as_floats(inputs)
        mean, std = self._mean_and_std(inputs.shape[-1])
        return self.reorder((inputs * std + mean) * 255.0)

    def input_range(self, channels: int) -> tuple[float, float]:
        """Return the lowest and the highest value of `normalize`."""
        if self.is_plain_pixels:
            return 0.0, 255.0
        mean, std = self._mean_and_std(channels)
        return float(((0 - mean) / std).min()), float(((1 - mean) / std).max())

    def _mean_and_std(self, channels: int) -> tuple[np.ndarray, np.ndarray]:
        mean, std = (np.array(self.per_channel(values, channels), "float32") for values in (self.mean, self.std))
        return mean, std

    def __str__(self):
        size = "any size" if self.size is None else "{} x {} pixels".format(*self.size)
        crop = f", crop {self.crop_fraction:g}" if self.crop_fraction != 1 else ""
        filtered = self.interpolation + ("" if self.antialias else " without antialias")
        padded = "" if self.fill is None else f" padded with {_short(self.fill)}"
        resized = f"{size}, {self.resize_mode}{padded}, {filtered}{crop}"
        return f"{resized}, mean {_short(self.mean)}, std {_short(self.std)}, {self.channel_order}"


PLAIN_SCALING = ImageSpec()


def _short(values: tuple[float, ...]) -> str:
    return f"{values[0]:g}" if len(set(values)) == 1 else "(" + ", ".join(f"{value:g}" for value in values) + ")"


def preprocessing_of(model: "keras.Model") -> ImageSpec:
    """Return a model's preprocessing, as its weights' config states it, else scaling to [-1, 1].

    Args:
        model: a model of this package, or one that contains its layers.
    """
    stored: dict = next((spec for layer in layers_of(model) if (spec := getattr(layer, "image_spec", None))), {})
    shape = tuple(model.inputs[0].shape)
    fixed = {"size": shape[1:3]} if len(shape) == 4 and None not in shape[1:3] else {}
    return ImageSpec(**{**stored, **fixed})


def store_preprocessing(model, spec: ImageSpec) -> None:
    """Store a model's preprocessing in the config of its first layer, which is saved with the model.

    A model built with `include_preprocessing=True` normalises pixels 0..255 in its layer `rescaling`, which is updated.
    """
    layers = {layer.name: layer for layer in model.layers}
    fields = {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(spec).items()}
    (layers.get("root") or layers["embedding"]).image_spec = fields
    if "rescaling" in layers:
        layers["rescaling"].scale, layers["rescaling"].offset = _scale_and_offset(spec, model.inputs[0].shape[-1])
        model.predict_function = model.test_function = model.train_function = None  # traced with the old scale


def _scale_and_offset(spec: ImageSpec, channels: int) -> tuple:
    """Return scale and offset of pixels 0..255: one value each, or one per channel."""
    if spec.is_plain_scaling:
        return 1 / 127.5, -1.0
    mean, std = (spec.per_channel(values, channels) for values in (spec.mean, spec.std))
    return [1 / (255 * s) for s in std], [-m / s for m, s in zip(mean, std, strict=True)]
