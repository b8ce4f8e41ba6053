"""What training costs: operations of a whole pre-training, days on a device, bytes in its memory."""

import math
from dataclasses import dataclass, fields

import keras
import numpy as np

from keras_vit.analysis.compute import Cost, count

JFT_IMAGES = 303e6  # of JFT-300M (section 4.1)
BYTES = {"float32": 4, "bfloat16": 2, "float16": 2, "mixed_bfloat16": 2, "mixed_float16": 2}
_SECONDS_A_DAY = 86_400


def training_exaflops(cost: Cost, epochs: float, images: float = JFT_IMAGES) -> float:
    """Operations of a whole training in 1e18, as the paper's Table 6 counts them.

    Two a multiply-add, the backward pass twice the forward one, the classifier left out.

    Args:
        cost: of the model, at the size that it is trained at.
        epochs: times that the images are gone through.
        images: of one epoch; JFT-300M's by default.
    """
    _require_positive(epochs=epochs, images=images)
    return 6 * cost.trunk_macs * epochs * images / 1e18


def device_days(exaflops: float, peak_teraflops: float, utilisation: float) -> float:
    """Days that one device computes for.

    The paper's TPUv3 core-days (Table 2) follow from its operations with a peak of 61.5 a core and utilisations of
    0.32 (ViT-H/14), 0.43 (ViT-L/16) and 0.18 (BiT-L): they are nothing that a count could foretell.

    Args:
        exaflops: of `training_exaflops`.
        peak_teraflops: 1e12 operations a second at most.
        utilisation: share of the peak that training reaches, in (0, 1].

    Raises:
        ValueError: a number is out of range.
    """
    _require_positive(exaflops=exaflops, peak_teraflops=peak_teraflops)
    if not 0 < utilisation <= 1:
        raise ValueError(f"utilisation expected a share in (0, 1], received {utilisation!r}.")
    return exaflops * 1e18 / (peak_teraflops * 1e12 * utilisation * _SECONDS_A_DAY)


@dataclass(frozen=True)
class TrainingBytes:
    """Bytes that training holds on one device; buffers of single operations come on top."""

    weights: int
    gradients: int
    optimizer: int
    average: int
    activations: int

    @property
    def total(self) -> int:
        """All of them."""
        return sum(getattr(self, part.name) for part in fields(self))


def training_bytes(
    model: keras.Model,
    batch_size: int,
    optimizer: str = "adamw",
    precision: str = "float32",
    moment_dtype: str = "float32",
    average: bool = False,
) -> TrainingBytes:
    """What training a model holds in memory, from its shapes.

    Args:
        model: of this package; one without weights will do.
        batch_size: images on the device at once.
        optimizer: `adamw`, `sgd` with momentum, `lamb` or `adafactor`, as `keras_vit.train` has them.
        precision: `float32`, `mixed_bfloat16` or `mixed_float16`, of the activations; weights are float32.
        moment_dtype: of the mean of gradients, `float32` or `bfloat16`.
        average: whether a moving average of the weights is kept.

    Raises:
        ValueError: an argument is out of range.
    """
    _require_positive(batch_size=batch_size)
    if optimizer not in _SLOTS:
        raise ValueError(f"optimizer expected one of {', '.join(_SLOTS)}, received {optimizer!r}.")
    for name, value in (("precision", precision), ("moment_dtype", moment_dtype)):
        if value not in BYTES:
            raise ValueError(f"{name} expected one of {', '.join(BYTES)}, received {value!r}.")
    shapes = [tuple(variable.shape) for variable in model.trainable_variables]
    weights = 4 * sum(math.prod(shape) for shape in shapes)
    moment = BYTES[moment_dtype]
    slots = sum(_SLOTS[optimizer](shape, moment) for shape in shapes)
    activations = batch_size * BYTES[precision] * count(model).activations
    return TrainingBytes(weights, weights, slots, weights if average else 0, activations)


def _adam(shape, moment):
    return (moment + 4) * math.prod(shape)


def _sgd(shape, moment):
    return moment * math.prod(shape)


def _adafactor(shape, moment):
    """The mean, and the squares' means over the two longest axes where both have at least 32 numbers."""
    size = math.prod(shape)
    longest = np.argsort(shape, kind="stable")[-2:]
    if len(shape) < 2 or shape[longest[0]] < 32:
        return (moment + 4) * size
    return moment * size + 4 * sum(size // shape[axis] for axis in longest)


_SLOTS = {"adamw": _adam, "sgd": _sgd, "lamb": _adam, "adafactor": _adafactor}


def _require_positive(**numbers):
    for name, value in numbers.items():
        if not value > 0:
            raise ValueError(f"{name} expected a positive number, received {value!r}.")
