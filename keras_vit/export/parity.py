"""How far an exported file is from the Keras model it came from.

N images, H W C image.
"""

import time
from dataclasses import dataclass

import keras
import numpy as np

from keras_vit.models.model_interface import ModelInterface, model_interface, named_outputs
from keras_vit.preprocessing.inputs import preprocess_input

BATCH = 32
UNBOUNDED = ("features", "pooled", "tokens")
SCORES = ("logits", "probabilities")
# The spread of answers over the images counts for no less than this share of their own size, else 0.25: there may be
# one image, or several that are alike. A rollout is a mean of heads, so that it is nearly even and hardly rounds.
LEAST_SPREAD = {"rollout": 0.02}


@dataclass(frozen=True)
class Tolerance:
    """What a format may differ by.

    Args:
        difference: largest |difference| of any logit, probability or share of attention; of tokens and pooled vectors,
            which are of any size, times the largest of them where that is above 1.
        agreement: smallest share of images with the same best class, in [0, 1]; of outputs with classes.
        error: largest `relative_error`; of outputs without classes.
    """

    difference: float
    agreement: float
    error: float

    def or_looser(self, other: "Tolerance") -> "Tolerance":
        """What lies within either."""
        return Tolerance(
            max(self.difference, other.difference), min(self.agreement, other.agreement), max(self.error, other.error)
        )


# The errors are twice the worst that tiny rows of every kind came to: bfloat16 0.17, int8-dynamic 0.19, calibrated
# integers 0.39, each with an axial BiT of random weights; a ViT-S/16 came to 0.01, 0.02 and 0.06. Zeros, an answer that
# is twice as large, of another model or the same for every image are at 1 or more, other images' answers at 1.4.
EXACT = Tolerance(1e-4, 1.0, 0.1)  # float32 throughout: only the order of additions differs
REDUCED = Tolerance(float("inf"), 0.99, 0.4)  # half precision somewhere, or weights in int8
CALIBRATED = Tolerance(float("inf"), 0.97, 0.8)  # activations in integers too, on scales that were measured before


@dataclass(frozen=True)
class Comparison:
    """One signature of one format against the Keras model.

    Args:
        format: name of the format.
        signature: name of the signature.
        output: which output was compared.
        size: of the format's files in bytes.
        max_difference: largest |difference| of the outputs.
        mean_difference: mean |difference| of the outputs.
        agreement: share of images with the same best class, in [0, 1]; None without classes.
        error: `relative_error`; None with classes.
        accuracy: share of images whose best class is their label, in [0, 1]; None without labels.
        latency: milliseconds for one image, the median of a few calls; None where it is not taken.
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
    """Images to compare on, and what the Keras model says to them.

    Args:
        pixels: (N, H, W, C) in 0..255.
        inputs: the same in the model's own range.
        labels: (N,) true classes, or None.
        expected: the Keras model's outputs by name.
    """

    pixels: np.ndarray
    inputs: np.ndarray
    labels: np.ndarray | None
    expected: dict[str, np.ndarray]

    @property
    def output(self) -> str:
        """The output to compare: `logits`, or `features` of a model without a classifier."""
        return "logits" if "logits" in self.expected else "features"

    @property
    def accuracy(self) -> float | None:
        """The Keras model's own, in [0, 1]."""
        if self.labels is None:
            return None
        return float((self.expected["logits"].argmax(axis=1) == self.labels).mean())


def take_sample(model: keras.Model, images=None, labels=None) -> Sample:
    """Check images and labels against a model, and ask the model.

    Args:
        model: a model of this package.
        images: (N, H, W, C) pixels 0..255 of the model's size; 8 random ones where None.
        labels: (N,) classes, or None.

    Raises:
        ValueError: the images or the labels do not fit.
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
    return Sample(pixels, inputs, labels, keras_answer(model, inputs))


def take_pixels(interface: ModelInterface, images, argument: str) -> tuple[np.ndarray, np.ndarray]:
    """Images as float32 pixels 0..255 (N, H, W, C), and the same in the model's own range.

    Args:
        interface: of the model.
        images: to check.
        argument: their name in the sentence of an error.

    Raises:
        ValueError: the images do not fit.
    """
    pixels = np.asarray(images, "float32")
    wanted = ("N", *("any" if side is None else side for side in interface.input_shape))
    fits = pixels.ndim == 4 and len(pixels) > 0
    if not fits or any(w not in ("any", side) for w, side in zip(wanted[1:], pixels.shape[1:], strict=True)):
        raise ValueError(f"{argument} expected shape ({', '.join(map(str, wanted))}), received {pixels.shape}.")
    if not (pixels.min() > -0.5 and pixels.max() < 255.5):  # resizing may overshoot by a rounding
        raise ValueError(f"{argument} expected pixels in 0..255, received {pixels.min():g}..{pixels.max():g}.")
    return pixels, pixels if interface.takes_pixels else preprocess_input(pixels)


def keras_answer(model: keras.Model, inputs: np.ndarray) -> dict[str, np.ndarray]:
    """The named outputs of the Keras model for inputs in its own range, computed layer by layer, untraced."""
    outputs = named_outputs(model)
    return in_batches(lambda batch: outputs(batch, training=False), inputs)


def in_batches(function, inputs, size: int = BATCH) -> dict[str, np.ndarray]:
    """The outputs by name of a function that answers a batch, for any number of inputs."""
    parts = [function(inputs[i : i + size]) for i in range(0, len(inputs), size)]
    return {name: np.concatenate([np.asarray(part[name]) for part in parts]) for name in parts[0]}


def latency(function, inputs: np.ndarray, calls: int = 7) -> float:
    """Median milliseconds of a signature on one image, after two calls that do not count."""
    seconds = []
    for _ in range(calls + 2):
        start = time.perf_counter()
        function(images=inputs[:1])
        seconds.append(time.perf_counter() - start)
    return 1e3 * float(np.median(seconds[2:]))


def figures(output: str, expected: np.ndarray, received: np.ndarray, labels=None) -> dict:
    """The figures of a `Comparison`.

    Args:
        output: its name.
        expected: what the Keras model says.
        received: what the export says.
        labels: (N,) true classes, or None.
    """
    difference = np.abs(received.astype("float64") - expected)
    found = {"max_difference": float(difference.max()), "mean_difference": float(difference.mean())}
    if output not in SCORES:
        return {**found, "agreement": None, "error": relative_error(output, expected, received), "accuracy": None}
    best = received.argmax(axis=1)
    # Classes that the Keras model holds closer together than rounding are a tie, and either may win.
    behind = expected.max(axis=1) - expected[np.arange(len(best)), best]
    accuracy = None if labels is None else float((best == labels).mean())
    agreement = float((behind <= EXACT.difference).mean())
    return {**found, "agreement": agreement, "error": None, "accuracy": accuracy}


def relative_error(output: str, expected: np.ndarray, received: np.ndarray) -> float:
    """Root mean square of the difference, relative to how far the Keras model's answers to several images lie from
    their mean; at least to a quarter of their own root mean square, of rollouts 2 %.

    Args:
        output: its name.
        expected: what the Keras model says, (N, ...).
        received: what the export says, alike.
    """
    expected = expected.astype("float64")
    least = max(LEAST_SPREAD.get(output, 0.25) * _size(expected), EXACT.difference)
    return _size(received - expected) / max(_size(expected - expected.mean(axis=0)), least)


def _size(values: np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.square(values))))


def require(row: Comparison, tolerance: Tolerance, expected: np.ndarray) -> None:
    """Raise a ValueError unless a comparison with the Keras model's `expected` output lies within its tolerance."""
    what = f"{row.format} ({row.signature}) expected {row.output}"
    unbounded = row.output in UNBOUNDED and expected.size
    allowed = tolerance.difference * (max(1.0, float(np.abs(expected).max())) if unbounded else 1.0)
    if not row.max_difference <= allowed:  # so that NaN fails, too
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
            f"{what} with an error of at most {tolerance.error:.0%} of how far the Keras model's answers lie apart, "
            f"received {row.error:.0%}."
        )
