"""What training costs: operations of a whole pre-training, days on a device, bytes in its memory."""

import math
from dataclasses import dataclass, fields

import keras
import numpy as np

from keras_vit.cost.operations import Cost, LayerCost, count
from keras_vit.layers import AxialBlock, EncoderBlock, ResidualUnit

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
    require_positive(epochs=epochs, images=images)
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
    require_positive(exaflops=exaflops, peak_teraflops=peak_teraflops)
    require_share(utilisation=utilisation)
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
    recompute: bool = False,
    accumulate: int = 1,
) -> TrainingBytes:
    """What training a model holds in memory, from its shapes.

    Args:
        model: of this package; one without weights will do. What is not trainable has no gradients and no moments;
            activations are counted as if all of it were trained.
        batch_size: images of one update on the device.
        optimizer: `adamw`, `sgd` with momentum, `lamb`, `adafactor` or `muon`, as `keras_vit.train` has them.
        precision: `float32`, `mixed_bfloat16` or `mixed_float16`, of the activations; weights are float32.
        moment_dtype: of the mean of gradients, `float32` or `bfloat16`.
        average: whether a moving average of the weights is kept.
        recompute: whether the backward pass computes each block again, as the recipes' `recompute` does: kept are the
            blocks' outputs, and the insides of one of them at a time.
        accumulate: parts that the images are gone through in; more than one sum their gradients in a second copy.

    Raises:
        ValueError: an argument is out of range.
    """
    require_positive(batch_size=batch_size, accumulate=accumulate)
    if batch_size % accumulate:
        raise ValueError(f"batch_size expected a multiple of the {accumulate} parts, received {batch_size}.")
    if optimizer not in _SLOTS:
        raise ValueError(f"optimizer expected one of {', '.join(_SLOTS)}, received {optimizer!r}.")
    for name, value in (("precision", precision), ("moment_dtype", moment_dtype)):
        if value not in BYTES:
            raise ValueError(f"{name} expected one of {', '.join(BYTES)}, received {value!r}.")
    trained = model.trainable_variables
    held, weights = (4 * sum(math.prod(v.shape) for v in variables) for variables in (model.weights, trained))
    moment = BYTES[moment_dtype]
    slots = sum(_SLOTS[optimizer](variable, moment) for variable in trained)
    gradients = weights if accumulate == 1 else 2 * weights
    activations = batch_size // accumulate * BYTES[precision] * _kept(model, recompute)
    return TrainingBytes(held, gradients, slots, weights if average else 0, activations)


def largest_batch(model: keras.Model, memory: float, **options) -> int:
    """Images that a device can go through at once while it trains; 0 where not even the weights' share fits.

    Args:
        model: of this package; one without weights will do.
        memory: bytes of the device.
        **options: those of `training_bytes`; with `accumulate` the images are those of one part.

    Raises:
        ValueError: an argument is out of range.
    """
    require_positive(memory=memory)
    one = training_bytes(model, options.get("accumulate", 1), **options)
    return max(0, int((memory - one.total + one.activations) // one.activations))


def recomputed(model: keras.Model, cost: Cost) -> list[LayerCost]:
    """The blocks among a model's costs, which are what recomputation computes again."""
    names = {layer.name for layer in model.layers if isinstance(layer, EncoderBlock | AxialBlock | ResidualUnit)}
    return [layer for layer in cost.layers if layer.name in names]


def _kept(model, recompute) -> int:
    """Numbers of one image that the backward pass needs."""
    cost = count(model)
    blocks = recomputed(model, cost) if recompute else []
    if not blocks:
        return cost.activations
    inside = [layer.activations - math.prod(layer.output_shape) for layer in blocks]
    return cost.activations - sum(inside) + max(inside)


def _adam(variable, moment):
    return (moment + 4) * math.prod(variable.shape)


def _sgd(variable, moment):
    return moment * math.prod(variable.shape)


def _adafactor(variable, moment):
    """The mean, and the squares' means over the two longest axes where both have at least 32 numbers."""
    shape, size = variable.shape, math.prod(variable.shape)
    longest = np.argsort(shape, kind="stable")[-2:]
    if len(shape) < 2 or shape[longest[0]] < 32:
        return (moment + 4) * size
    return moment * size + 4 * sum(size // shape[axis] for axis in longest)


def _muon(variable, moment):
    """The mean alone of the matrices and convolutions of blocks and units, all else as Adam."""
    first, *_, last = variable.path.split("/")
    shape, unit = variable.shape, first.startswith(("encoder_block_", "stage", "stem_stage"))
    matrix = unit and last == "kernel" and (len(shape) == 2 or (len(shape) == 4 and shape[3] > 1))
    return (_sgd if matrix else _adam)(variable, moment)


_SLOTS = {"adamw": _adam, "sgd": _sgd, "lamb": _adam, "adafactor": _adafactor, "muon": _muon}


def require_share(**numbers) -> None:
    """Raise unless each number is a share in (0, 1]."""
    for name, value in numbers.items():
        if not 0 < value <= 1:
            raise ValueError(f"{name} expected a share in (0, 1], received {value!r}.")


def require_positive(**numbers) -> None:
    """Raise unless each number is above 0."""
    for name, value in numbers.items():
        if not value > 0:
            raise ValueError(f"{name} expected a positive number, received {value!r}.")
