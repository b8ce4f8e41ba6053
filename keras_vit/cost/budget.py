"""Count the operations, device-days and memory of training."""

import math
from dataclasses import dataclass, fields

import keras
import numpy as np

from keras_vit.cost.operations import Cost, LayerCost, count
from keras_vit.layers import AxialBlock, EncoderBlock, ResidualUnit

JFT_IMAGES = 303e6  # in JFT-300M (section 4.1 of the ViT paper)
BYTES = {"float32": 4, "bfloat16": 2, "float16": 2, "mixed_bfloat16": 2, "mixed_float16": 2}
_SECONDS_PER_DAY = 86_400


def training_exaflops(cost: Cost, epochs: float, images: float = JFT_IMAGES) -> float:
    """Return the floating-point operations of a training run in 1e18, counted as in the ViT paper's Table 6.

    A multiply-add is two operations, and the backward pass has twice the operations of the forward pass. The classifier
    is left out.

    Args:
        cost: cost of the model in its training resolution.
        epochs: number of epochs.
        images: images per epoch; by default the size of JFT-300M.
    """
    require_positive(epochs=epochs, images=images)
    return 6 * cost.trunk_macs * epochs * images / 1e18


def device_days(exaflops: float, peak_teraflops: float, utilisation: float) -> float:
    """Return the days of training on one device.

    The paper's TPUv3-core-days (Table 2) correspond to a peak of 61.5 TFLOP/s per core and a utilisation of 0.32 for
    ViT-H/14, 0.43 for ViT-L/16 and 0.18 for BiT-L.

    Args:
        exaflops: floating-point operations in 1e18, from `training_exaflops`.
        peak_teraflops: peak speed of the device in 1e12 operations per second.
        utilisation: fraction of the peak speed, in (0, 1].

    Raises:
        ValueError: an argument is out of range.
    """
    require_positive(exaflops=exaflops, peak_teraflops=peak_teraflops)
    require_fraction(utilisation=utilisation)
    return exaflops * 1e18 / (peak_teraflops * 1e12 * utilisation * _SECONDS_PER_DAY)


@dataclass(frozen=True)
class TrainingBytes:
    """Bytes in the memory of one device during training, without the buffers of single operations."""

    weights: int
    gradients: int
    optimizer: int
    average: int
    activations: int

    @property
    def total(self) -> int:
        """The sum of all fields."""
        return sum(getattr(self, field.name) for field in fields(self))


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
    """Count the bytes of training from a model's shapes.

    Args:
        model: a model of this package, with or without weights. Frozen weights have no gradients and no moments.
            Activations are counted as if all layers were trained.
        batch_size: images per update on the device.
        optimizer: `adamw`, `sgd` with momentum, `lamb`, `adafactor` or `muon`.
        precision: dtype policy `float32`, `mixed_bfloat16` or `mixed_float16`. Weights are float32.
        moment_dtype: dtype of the first moment, `float32` or `bfloat16`.
        average: whether a moving average of the weights is stored.
        recompute: whether blocks are rematerialised in the backward pass. Then the outputs of all blocks and the
            intermediate activations of one block are in memory.
        accumulate: number of micro-batches per update. With several, the sum of gradients is a second copy.

    Raises:
        ValueError: an argument is out of range.
    """
    require_positive(batch_size=batch_size, accumulate=accumulate)
    if batch_size % accumulate:
        raise ValueError(f"batch_size expected a multiple of accumulate={accumulate}, received {batch_size}.")
    if optimizer not in _SLOT_BYTES:
        raise ValueError(f"optimizer expected one of {', '.join(_SLOT_BYTES)}, received {optimizer!r}.")
    for name, value in (("precision", precision), ("moment_dtype", moment_dtype)):
        if value not in BYTES:
            raise ValueError(f"{name} expected one of {', '.join(BYTES)}, received {value!r}.")
    trainable = model.trainable_variables
    all_bytes, trainable_bytes = (4 * sum(math.prod(v.shape) for v in group) for group in (model.weights, trainable))
    return TrainingBytes(
        weights=all_bytes,
        gradients=trainable_bytes if accumulate == 1 else 2 * trainable_bytes,
        optimizer=sum(_SLOT_BYTES[optimizer](variable, BYTES[moment_dtype]) for variable in trainable),
        average=trainable_bytes if average else 0,
        activations=batch_size // accumulate * BYTES[precision] * _saved_activations(model, recompute),
    )


def largest_batch(model: keras.Model, memory: float, **options) -> int:
    """Return the largest batch size for training on a device; 0 if not even the weights fit.

    Args:
        model: a model of this package, with or without weights.
        memory: bytes of the device.
        **options: arguments of `training_bytes`. With `accumulate`, the size of one micro-batch is returned.

    Raises:
        ValueError: an argument is out of range.
    """
    require_positive(memory=memory)
    single = training_bytes(model, options.get("accumulate", 1), **options)
    return max(0, int((memory - single.total + single.activations) // single.activations))


def recomputed_layers(model: keras.Model, cost: Cost) -> list[LayerCost]:
    """Return the costs of the layers that `recompute` rematerialises: blocks and residual units."""
    names = {layer.name for layer in model.layers if isinstance(layer, EncoderBlock | AxialBlock | ResidualUnit)}
    return [layer for layer in cost.layers if layer.name in names]


def _saved_activations(model, recompute) -> int:
    """Return the number of values per image that the backward pass needs."""
    cost = count(model)
    blocks = recomputed_layers(model, cost) if recompute else []
    if not blocks:
        return cost.activations
    intermediate = [layer.activations - math.prod(layer.output_shape) for layer in blocks]
    return cost.activations - sum(intermediate) + max(intermediate)


def _adam(variable, moment_bytes):
    return (moment_bytes + 4) * math.prod(variable.shape)


def _sgd(variable, moment_bytes):
    return moment_bytes * math.prod(variable.shape)


def _adafactor(variable, moment_bytes):
    """Return the bytes of the first moment and of the second, factored if the two longest axes have 32 or more."""
    shape, size = variable.shape, math.prod(variable.shape)
    longest = np.argsort(shape, kind="stable")[-2:]
    if len(shape) < 2 or shape[longest[0]] < 32:
        return (moment_bytes + 4) * size
    return moment_bytes * size + 4 * sum(size // shape[axis] for axis in longest)


def _muon(variable, moment_bytes):
    """Return the bytes of the first moment for matrices and convolutions of blocks, and Adam's for all others."""
    first, *_, last = variable.path.split("/")
    shape, in_block = variable.shape, first.startswith(("encoder_block_", "stage", "stem_stage"))
    matrix = in_block and last == "kernel" and (len(shape) == 2 or (len(shape) == 4 and shape[3] > 1))
    return (_sgd if matrix else _adam)(variable, moment_bytes)


_SLOT_BYTES = {"adamw": _adam, "sgd": _sgd, "lamb": _adam, "adafactor": _adafactor, "muon": _muon}


def require_fraction(**values) -> None:
    """Raise a ValueError unless each value is in (0, 1]."""
    for name, value in values.items():
        if not 0 < value <= 1:
            raise ValueError(f"{name} expected a fraction in (0, 1], received {value!r}.")


def require_positive(**values) -> None:
    """Raise a ValueError unless each value is above 0."""
    for name, value in values.items():
        if not value > 0:
            raise ValueError(f"{name} expected a positive number, received {value!r}.")
