"""Predict the time of a data-parallel training step from a model's shapes and a device's rates.

Each device stores all weights and computes the gradients of its images. A ring all-reduce sums the gradients.
"""

import math
from dataclasses import dataclass, fields

import keras

from keras_vit.cost.budget import recomputed_layers, require_fraction, require_positive, training_bytes
from keras_vit.cost.operations import count

MAX_BATCH = 2**20  # largest batch size per device that `smallest_batch` tries


@dataclass(frozen=True)
class Device:
    """The rates of one of several equal devices.

    Args:
        name: name of the device.
        teraflops: peak speed in 1e12 operations per second.
        memory: bytes of its memory.
        memory_rate: bytes per second between memory and processor.
        per_host: devices per host.
        host_rate: bytes per second in one direction between two devices of a host.
        network_rate: bytes per second in one direction between two hosts, over all network adapters.
        latency: seconds before the first byte of a message arrives.
        decode_rate: images per second that the input pipeline of a host produces; by default unlimited.

    Raises:
        ValueError: an argument is out of range.
    """

    name: str
    teraflops: float
    memory: float
    memory_rate: float
    per_host: int
    host_rate: float
    network_rate: float
    latency: float
    decode_rate: float = math.inf

    def __post_init__(self):
        rates = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "name"}
        if not rates.pop("latency") >= 0:
            raise ValueError(f"latency expected seconds, 0 or more, received {self.latency!r}.")
        require_positive(**rates)


@dataclass(frozen=True)
class StepTime:
    """The predicted seconds of one update on each device.

    Args:
        devices: number of devices.
        batch_size: images per device.
        compute: seconds of the forward and backward pass.
        update: seconds of the optimizer's update of all weights.
        all_reduce: seconds of the sum of the gradients over all devices.
        exposed: seconds of the all-reduce that do not overlap with the backward pass.
        waiting: seconds of waiting for the input pipeline.
    """

    devices: int
    batch_size: int
    compute: float
    update: float
    all_reduce: float
    exposed: float
    waiting: float

    @property
    def seconds(self) -> float:
        """Seconds of the step."""
        return self.compute + self.update + self.exposed + self.waiting

    @property
    def images_per_second(self) -> float:
        """Images per second of all devices."""
        return self.devices * self.batch_size / self.seconds

    @property
    def efficiency(self) -> float:
        """Weak scaling efficiency: the speed relative to `devices` devices that neither communicate nor wait."""
        return (self.compute + self.update) / self.seconds

    @property
    def strong_efficiency(self) -> float:
        """Strong scaling efficiency: the speed relative to `devices` times one device with the whole batch."""
        return (self.devices * self.compute + self.update) / (self.devices * self.seconds)


def ring_seconds(size: float, devices: int, rate: float, latency: float = 0.0) -> float:
    """Return the seconds of a ring all-reduce: 2 (n - 1) messages of size / n in sequence (Patarasuk and Yuan, 2009).

    Args:
        size: bytes per device.
        devices: number of devices n, at least 1.
        rate: bytes per second to the next device.
        latency: seconds before the first byte of a message arrives.
    """
    return 2 * (devices - 1) * (size / (devices * rate) + latency)


def predict_scaling(
    model: keras.Model,
    device: Device,
    devices: int,
    batch_size: int,
    utilisation: float,
    *,
    overlap: float = 0.0,
    recompute: bool = False,
    optimizer: str = "adamw",
    moment_dtype: str = "float32",
) -> StepTime:
    """Predict the seconds of a training step.

    Args:
        model: a model of this package, with or without weights.
        device: the rates of each device.
        devices: number of devices.
        batch_size: images per device and update.
        utilisation: fraction of the peak speed in the forward and backward pass, in (0, 1].
        overlap: fraction of the backward pass during which the all-reduce can run, in [0, 1].
        recompute: whether blocks are rematerialised in the backward pass.
        optimizer: an optimizer of `training_bytes`.
        moment_dtype: dtype of the optimizer's first moment.

    Raises:
        ValueError: an argument is out of range.
    """
    work = _StepWork.of(model, recompute, optimizer, moment_dtype)
    return work.on(device, devices, batch_size, utilisation, overlap)


def smallest_batch(
    model: keras.Model,
    device: Device,
    devices: int,
    utilisation: float,
    efficiency: float = 0.9,
    *,
    overlap: float = 0.0,
    recompute: bool = False,
    optimizer: str = "adamw",
    moment_dtype: str = "float32",
) -> int | None:
    """Return the smallest batch size per device with this weak scaling efficiency; None if there is none.

    Args:
        efficiency: required weak scaling efficiency, in (0, 1].
        model, device, devices, utilisation, overlap, recompute, optimizer, moment_dtype: as in `predict_scaling`.

    Raises:
        ValueError: an argument is out of range.
    """
    require_fraction(efficiency=efficiency)
    work = _StepWork.of(model, recompute, optimizer, moment_dtype)

    def is_efficient(batch_size):
        return work.on(device, devices, batch_size, utilisation, overlap).efficiency >= efficiency

    high = 1
    while not is_efficient(high):  # the efficiency increases with the batch size
        high *= 2
        if high > MAX_BATCH:
            return None
    low = high // 2 + 1
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if is_efficient(middle) else (middle + 1, high)
    return high


@dataclass(frozen=True)
class _StepWork:
    """The work of a step."""

    forward_flops: int  # per image
    backward_flops: int
    gradient_bytes: int
    update_bytes: int  # read and written by the optimizer

    @classmethod
    def of(cls, model, recompute, optimizer, moment_dtype):
        cost, memory = count(model), training_bytes(model, 1, optimizer, moment_dtype=moment_dtype)
        recomputed = 2 * sum(layer.macs for layer in recomputed_layers(model, cost)) if recompute else 0
        update = 2 * memory.weights + memory.gradients + 2 * memory.optimizer  # gradients are only read
        return cls(cost.flops, 2 * cost.flops + recomputed, memory.gradients, update)

    def on(self, device, devices, batch_size, utilisation, overlap) -> StepTime:
        require_fraction(utilisation=utilisation)
        require_positive(devices=devices, batch_size=batch_size)
        if not 0 <= overlap <= 1:
            raise ValueError(f"overlap expected a fraction in [0, 1], received {overlap!r}.")
        forward, backward = (
            batch_size * flops / (1e12 * device.teraflops * utilisation)
            for flops in (self.forward_flops, self.backward_flops)
        )
        update = self.update_bytes / device.memory_rate
        rate = device.host_rate if devices <= device.per_host else min(device.host_rate, device.network_rate)
        all_reduce = ring_seconds(self.gradient_bytes, devices, rate, device.latency)
        exposed = max(0.0, all_reduce - overlap * backward)
        decoding = batch_size * min(devices, device.per_host) / device.decode_rate
        waiting = max(0.0, decoding - (forward + backward + update + exposed))
        return StepTime(devices, batch_size, forward + backward, update, all_reduce, exposed, waiting)
