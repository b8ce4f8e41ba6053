"""How long a training step takes on many devices: predicted from a model's shapes and a device's rates, not measured.

Data parallel, as `keras_vit.train` is: each device holds all weights, goes through images of its own, and takes part
in one ring that sums the gradients.
"""

import math
from dataclasses import dataclass, fields

import keras

from keras_vit.cost.budget import recomputed, require_positive, require_share, training_bytes
from keras_vit.cost.operations import count

MOST_IMAGES = 2**20  # on a device; who needs more is never efficient


@dataclass(frozen=True)
class Device:
    """One of many alike.

    Args:
        name: for people.
        teraflops: 1e12 operations a second at most.
        memory: bytes that it holds.
        memory_rate: bytes a second that it reads or writes there.
        per_host: devices that one machine feeds.
        host_rate: bytes a second, in one direction, from a device to the next of its host.
        network_rate: the same that leaves a host, over all of its adapters: rings side by side use each of them.
        latency: seconds that a message takes before its first byte.
        decode_rate: images a second that a host's pipeline makes; by default as many as are asked for.

    Raises:
        ValueError: a number is out of range.
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
        numbers = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "name"}
        if not numbers.pop("latency") >= 0:
            raise ValueError(f"latency expected seconds, 0 or more, received {self.latency!r}.")
        require_positive(**numbers)


@dataclass(frozen=True)
class StepTime:
    """Where the seconds of one update are predicted to go, on each of the devices.

    Args:
        devices: that share it.
        batch_size: images on each.
        compute: seconds of forward and backward pass.
        update: of the optimizer, which every device makes in full.
        all_reduce: of the gradients' sum over all devices.
        exposed: the part of it that nothing is computed beside.
        waiting: for images, where the host makes fewer than are used up.
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
        """Of the whole step."""
        return self.compute + self.update + self.exposed + self.waiting

    @property
    def images_per_second(self) -> float:
        """Of all devices."""
        return self.devices * self.batch_size / self.seconds

    @property
    def efficiency(self) -> float:
        """Weak scaling: the speed over that of as many lone devices with as many images each, which never wait."""
        return (self.compute + self.update) / self.seconds

    @property
    def strong_efficiency(self) -> float:
        """Strong scaling: the speed over `devices` times that of one that goes through all images alone, in parts."""
        return (self.devices * self.compute + self.update) / (self.devices * self.seconds)


def ring_seconds(size: float, devices: int, rate: float, latency: float = 0.0) -> float:
    """Seconds in which a ring sums `size` bytes of every device: 2 (n - 1) messages of size / n, one after the other.

    n - 1 of them leave each device with an n-th of the sum, n - 1 more hand the parts round (Patarasuk and Yuan, 2009).

    Args:
        size: bytes that every device has.
        devices: n, at least 1.
        rate: bytes a second to the next device.
        latency: seconds of a message before its first byte.
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
        model: of this package; one without weights will do.
        device: that there are several of.
        devices: how many.
        batch_size: images of one update on each.
        utilisation: share of the peak that forward and backward pass reach, in (0, 1].
        overlap: share of the backward pass that the sum of the gradients may run beside: 0 where it begins with the
            last gradient, at most 1.
        recompute: whether the blocks are computed a second time in the backward pass.
        optimizer: as `training_bytes` has them; and
        moment_dtype: of its mean of gradients.

    Raises:
        ValueError: an argument is out of range.
    """
    work = _Work.of(model, recompute, optimizer, moment_dtype)
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
    """Images that each device needs for so much weak-scaling efficiency; None where no number of them is enough.

    Args:
        efficiency: to be reached, in (0, 1].
        model, device, devices, utilisation, overlap, recompute, optimizer, moment_dtype: as `predict_scaling` has them.

    Raises:
        ValueError: an argument is out of range.
    """
    require_share(efficiency=efficiency)
    work = _Work.of(model, recompute, optimizer, moment_dtype)
    reached = lambda images: work.on(device, devices, images, utilisation, overlap).efficiency >= efficiency  # noqa: E731
    most = 1
    while not reached(most):  # more images never lower it
        most *= 2
        if most > MOST_IMAGES:
            return None
    least = most // 2 + 1
    while least < most:
        middle = (least + most) // 2
        least, most = (least, middle) if reached(middle) else (middle + 1, most)
    return most


@dataclass(frozen=True)
class _Work:
    """What a step takes: operations an image, forward and backward; bytes summed; bytes that the update moves."""

    forward: int
    backward: int
    gradients: int
    moved: int

    @classmethod
    def of(cls, model, recompute, optimizer, moment_dtype):
        cost, held = count(model), training_bytes(model, 1, optimizer, moment_dtype=moment_dtype)
        again = 2 * sum(layer.macs for layer in recomputed(model, cost)) if recompute else 0
        moved = 2 * held.weights + held.gradients + 2 * held.optimizer  # read, and but for the gradients written
        return cls(cost.flops, 2 * cost.flops + again, held.gradients, moved)

    def on(self, device, devices, batch_size, utilisation, overlap) -> StepTime:
        require_share(utilisation=utilisation)
        require_positive(devices=devices, batch_size=batch_size)
        if not 0 <= overlap <= 1:
            raise ValueError(f"overlap expected a share from 0 to 1, received {overlap!r}.")
        forward, backward = (
            batch_size * flops / (1e12 * device.teraflops * utilisation) for flops in (self.forward, self.backward)
        )
        update = self.moved / device.memory_rate
        rate = device.host_rate if devices <= device.per_host else min(device.host_rate, device.network_rate)
        all_reduce = ring_seconds(self.gradients, devices, rate, device.latency)
        exposed = max(0.0, all_reduce - overlap * backward)
        decoding = batch_size * min(devices, device.per_host) / device.decode_rate
        waiting = max(0.0, decoding - (forward + backward + update + exposed))
        return StepTime(devices, batch_size, forward + backward, update, all_reduce, exposed, waiting)
