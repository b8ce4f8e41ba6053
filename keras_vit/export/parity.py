"""Compare the outputs of an exported file with the outputs of its Keras model.

N images, H W C image.
"""

import time
from dataclasses import dataclass

import keras
import numpy as np

from keras_vit.export.tolerance import EXACT, Tolerance
from keras_vit.models.model_interface import ModelInterface, model_interface, named_outputs

BATCH = 32
UNBOUNDED = ("features", "pooled", "tokens", "values")
SCORES = ("logits", "probabilities")
# Minimum spread of outputs over the images, as a fraction of their root mean square: there may be one image, or several
# similar ones. A rollout is an average over heads, which is nearly uniform and has small rounding errors.
MIN_SPREAD = {"rollout": 0.02}
DEFAULT_MIN_SPREAD = 0.25


@dataclass(frozen=True)
class Comparison:
    """The comparison of one output of a format with the Keras model.

    Args:
        format: name of the format.
        signature: name of the signature.
        output: name of the output.
        size: size of the format's files in bytes.
        max_difference: maximum absolute difference.
        mean_difference: mean absolute difference.
        agreement: fraction of images with the same best class, in [0, 1]; None without classes.
        error: `relative_error`; None with classes.
        accuracy: fraction of images whose best class is their label, in [0, 1]; None without labels.
        latency: median time for one image in milliseconds; None if it was not measured.
    """

    format: str
    signature: str
    output: str
    size: int
    max_difference: float
    mean_difference: float
    agreement: float | None
    error: float | None
    accuracy: float | None
    latency: float | None = None


@dataclass(frozen=True)
class Sample:
    """The images for the comparison, and the outputs of the Keras model.

    Args:
        pixels: (N, H, W, C) images with pixels in 0..255.
        inputs: (N, H, W, C) images in the model's input range.
        labels: (N,) true classes; None if unknown.
        expected: outputs of the Keras model by name.
    """

    pixels: np.ndarray
    inputs: np.ndarray
    labels: np.ndarray | None
    expected: dict[str, np.ndarray]

    @property
    def output(self) -> str:
        """Return the output in the report: `logits`, the `values` of a regression, or `features`."""
        return next(name for name in ("logits", "values", "features") if name in self.expected)

    @property
    def accuracy(self) -> float | None:
        """Return the accuracy of the Keras model in [0, 1]; None without labels."""
        if self.labels is None:
            return None
        return float((self.expected["logits"].argmax(axis=1) == self.labels).mean())


def take_sample(model: keras.Model, images=None, labels=None) -> Sample:
    """Check images and labels, and compute the outputs of the Keras model.

    Args:
        model: a model of this package.
        images: (N, H, W, C) images of the model's size with pixels in 0..255; 8 random images if None.
        labels: (N,) classes; None if unknown.

    Raises:
        ValueError: the images or the labels do not fit the model.
    """
    interface = model_interface(model)
    if images is None:
        height, width, channels = interface.input_shape
        shape = (*(interface.image_size or (height or 64, width or 64)), channels)
        images = np.random.default_rng(0).integers(0, 256, (8, *shape))
    pixels, inputs = take_pixels(interface, images, "images")
    if labels is not None and interface.classes is None:
        raise ValueError(f"labels expected a model with a classifier, received {model.name} without one.")
    if labels is not None and np.shape(labels) != (len(pixels),):
        raise ValueError(f"labels expected shape ({len(pixels)},), one for each image, received {np.shape(labels)}.")
    labels = None if labels is None else np.asarray(labels)
    return Sample(pixels, inputs, labels, keras_outputs(model, inputs))


def take_pixels(interface: ModelInterface, images, argument: str) -> tuple[np.ndarray, np.ndarray]:
    """Check images. Return them in float32 (N, H, W, C) with pixels in 0..255, and in the model's input range.

    Args:
        interface: inputs of the model.
        images: the images.
        argument: name of the argument in error messages.

    Raises:
        ValueError: the images do not fit the model.
    """
    pixels = np.asarray(images, "float32")
    wanted = ("N", *("any" if side is None else side for side in interface.input_shape))
    fits = pixels.ndim == 4 and len(pixels) > 0
    if not fits or any(w not in ("any", side) for w, side in zip(wanted[1:], pixels.shape[1:], strict=True)):
        raise ValueError(f"{argument} expected shape ({', '.join(map(str, wanted))}), received {pixels.shape}.")
    if not (pixels.min() > -0.5 and pixels.max() < 255.5):  # resizing may exceed the range by a rounding error
        raise ValueError(f"{argument} expected pixels in 0..255, received {pixels.min():g}..{pixels.max():g}.")
    return pixels, np.asarray(interface.inputs_of(pixels), "float32")


def keras_outputs(model: keras.Model, inputs: np.ndarray) -> dict[str, np.ndarray]:
    """Return the named outputs of the Keras model, computed eagerly layer by layer."""
    outputs = named_outputs(model)
    return in_batches(lambda batch: outputs(batch, training=False), inputs)


def in_batches(function, inputs, size: int = BATCH) -> dict[str, np.ndarray]:
    """Call a function batch by batch, and return its outputs by name for all inputs."""
    batches = [function(inputs[i : i + size]) for i in range(0, len(inputs), size)]
    return {name: np.concatenate([np.asarray(batch[name]) for batch in batches]) for name in batches[0]}


def latency(function, inputs: np.ndarray, calls: int = 7) -> float:
    """Return the median time of a signature for one image in milliseconds, after two warm-up calls."""
    seconds = []
    for _ in range(calls + 2):
        start = time.perf_counter()
        function(images=inputs[:1])
        seconds.append(time.perf_counter() - start)
    return 1e3 * float(np.median(seconds[2:]))


def figures(output: str, expected: np.ndarray, received: np.ndarray, labels=None) -> dict:
    """Return the figures of a `Comparison` by name.

    Args:
        output: name of the output.
        expected: output of the Keras model.
        received: output of the export.
        labels: (N,) true classes; None if unknown.
    """
    difference = np.abs(received.astype("float64") - expected)
    differences = {"max_difference": float(difference.max()), "mean_difference": float(difference.mean())}
    if output not in SCORES:
        return {**differences, "agreement": None, "error": relative_error(output, expected, received), "accuracy": None}
    best = received.argmax(axis=1)
    # Classes whose scores differ by less than rounding errors are a tie: either may be the best.
    behind = expected.max(axis=1) - expected[np.arange(len(best)), best]
    accuracy = None if labels is None else float((best == labels).mean())
    agreement = float((behind <= EXACT.difference).mean())
    return {**differences, "agreement": agreement, "error": None, "accuracy": accuracy}


def relative_error(output: str, expected: np.ndarray, received: np.ndarray) -> float:
    """Return the root mean square of the difference, relative to the spread of the Keras model's outputs.

    The spread is the root mean square of their difference from their mean over the images. It counts at least as
    `MIN_SPREAD` of their own root mean square.

    Args:
        output: name of the output.
        expected: (N, ...) output of the Keras model.
        received: (N, ...) output of the export.
    """
    expected = expected.astype("float64")
    minimum = max(MIN_SPREAD.get(output, DEFAULT_MIN_SPREAD) * _root_mean_square(expected), EXACT.difference)
    return _root_mean_square(received - expected) / max(_root_mean_square(expected - expected.mean(axis=0)), minimum)


def _root_mean_square(values: np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.square(values))))


def require(row: Comparison, tolerance: Tolerance, expected: np.ndarray) -> None:
    """Raise a ValueError if a comparison with the Keras model's output `expected` exceeds the tolerance."""
    what = f"{row.format} ({row.signature}) expected {row.output}"
    unbounded = row.output in UNBOUNDED and expected.size
    allowed = tolerance.difference * (max(1.0, float(np.abs(expected).max())) if unbounded else 1.0)
    if not row.max_difference <= allowed:  # NaN fails, too
        raise ValueError(
            f"{what} within {allowed:g} of the Keras model's, received a difference of {row.max_difference:.3g}."
        )
    if row.agreement is not None and row.agreement < tolerance.agreement:
        raise ValueError(
            f"{what} to have the Keras model's best class for {tolerance.agreement:.0%} of the images, received "
            f"{row.agreement:.2%}."
        )
    if row.error is not None and not row.error <= tolerance.error:
        raise ValueError(
            f"{what} with an error of at most {tolerance.error:.0%} of the spread of the Keras model's outputs, "
            f"received {row.error:.0%}."
        )
