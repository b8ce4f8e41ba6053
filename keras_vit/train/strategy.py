"""The devices of a run, and the communication between its workers.

`keras.Model.fit` is correct on one device. Under `tf.distribute` it clips each replica's gradient before the sum,
draws the same dropout masks on every replica, and does not run at all on several workers (Keras 3.15).
"""

import contextlib
import functools
import json
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, replace

import tensorflow as tf

STRATEGIES = ("auto", "one", "cores", "mirrored", "multiworker", "tpu")


@dataclass(frozen=True)
class Devices:
    """The devices of a run, seen from one of its processes.

    `worker` is the index of this process; 0 is the chief, which alone writes files. `cores` is the number of parts of
    each batch that run in parallel, one thread each; see `choose`.
    """

    strategy: tf.distribute.Strategy
    worker: int = 0
    workers: int = 1
    cores: int = 1

    @property
    def chief(self) -> bool:
        return self.worker == 0

    @property
    def replicas(self) -> int:
        return self.strategy.num_replicas_in_sync

    def spread(self, batches: Callable, batch_size: int):
        """Distribute batches over the devices; `batches((part, parts))` returns the examples of one process."""
        if self.workers == 1 and not isinstance(self.strategy, tf.distribute.TPUStrategy):
            return self.strategy.experimental_distribute_dataset(batches((0, 1)))

        def worker_batches(context):
            part = context.input_pipeline_id, context.num_input_pipelines
            return batches(part).rebatch(batch_size // self.replicas, drop_remainder=True)

        return self.strategy.distribute_datasets_from_function(worker_batches)

    def summed(self, function: Callable) -> Callable:
        """Return a compiled function of a batch of `spread` that sums `function` over the replicas."""

        @tf.function
        def total(*batch):
            parts = [self.strategy.run(function, args=part) for part in cut(batch, self.cores)]
            return tf.add_n([self.strategy.reduce("SUM", part, axis=None) for part in parts])

        return total

    def gathered(self, function: Callable) -> Callable:
        """Return a compiled function of a batch of `spread` that concatenates the outputs of `function`."""

        @tf.function
        def concatenated(*batch):
            parts = [self.strategy.run(function, args=part) for part in cut(batch, self.cores)]
            gathered = [[self.strategy.gather(tensor, axis=0) for tensor in part] for part in parts]
            return tuple(tf.concat(tensors, axis=0) for tensors in zip(*gathered, strict=True))

        return concatenated

    def agree(self, stop: bool, count: int, save: bool) -> tuple[bool, int, bool]:
        """Return the decisions of all workers: stop if any worker must, otherwise follow the chief."""
        if self.workers == 1:
            return stop, count, save
        stops, counts, saves = self._sum([stop, count * self.chief, save * self.chief])
        return stops > 0, counts, saves > 0

    def require_same_step(self, step: int) -> None:
        """Raise unless all workers resume from the same step, which shows that they share the workdir."""
        if self.workers > 1 and self._sum([step, step * step]) != [self.workers * step, self.workers * step**2]:
            raise ValueError(f"workdir expected a folder that all workers share, received one of step {step} here "
                             "and of another step elsewhere.")  # fmt: skip

    @contextlib.contextmanager
    def naming_lost_workers(self):
        """Turn TensorFlow's errors about an unreachable worker or storage into a ConnectionError of one sentence."""
        try:
            yield
        except (tf.errors.UnavailableError, tf.errors.AbortedError) as error:
            if self.workers == 1:
                raise
            # The standard error names the worker, among TensorFlow's own lines; the message begins with a stack.
            raise ConnectionError(
                f"workers expected all {self.workers} to go on, found that another worker, or the storage of the data, "
                "stopped or cannot be reached; the same command on every machine goes on from the last checkpoint."
            ) from error

    def _sum(self, numbers: list) -> list[int]:
        """Return the sums of at most three values over the workers, once all workers have called it."""
        padded = [float(number) for number in numbers] + [0.0] * (3 - len(numbers))
        local = self.replicas // self.workers
        sums = self._total(tf.constant(padded, tf.float64)).numpy()
        return [round(float(number) / local) for number in sums[: len(numbers)]]

    @functools.cached_property
    def _total(self):
        def on_replica(values):
            return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, tf.identity(values))

        @tf.function
        def total(values):
            return self.strategy.experimental_local_results(self.strategy.run(on_replica, args=(values,)))[0]

        return total


def cut(batch: tuple, parts: int) -> list[tuple]:
    """Split a batch (B, ...) of tensors into `parts` parts (B / parts, ...)."""
    return [batch] if parts == 1 else list(zip(*(tf.split(tensor, parts) for tensor in batch), strict=True))


@contextlib.contextmanager
def naming_lack_of_memory(batch_size: int):
    """Turn TensorFlow's out-of-memory error into a ValueError that says what needs less memory."""
    try:
        yield
    except tf.errors.ResourceExhaustedError as error:
        reason = re.search(r"(OOM|Out of memory|failed to allocate).*", str(error.message))
        if reason is None:  # an error of a file or a disk
            raise
        raise ValueError(
            f"data.batch_size expected a batch that fits into memory, received {batch_size} ({reason[0].strip()}); a "
            "smaller one, a larger optimizer.accumulate or recompute=true needs less."
        ) from error


def on_gpu() -> bool:
    """Return whether TensorFlow computes on a GPU."""
    return bool(tf.config.list_logical_devices("GPU"))


def choose(name: str, batch_size: int, accumulate: int = 1, tpu: str | None = None) -> Devices:
    """Choose the devices of a run. Call it before TensorFlow is used: several workers must connect first.

    Args:
        name: `one` device, whose cores share each operation; `cores`, where each core of the CPU computes a part of
            every batch, which is faster for small operations; `mirrored` over all GPUs, or all logical CPUs without a
            GPU; `multiworker` over the processes in the environment's TF_CONFIG; `tpu`, untested on TPU hardware;
            `auto`, which follows TF_CONFIG, the name of a TPU, or the number of GPUs.
        batch_size: examples of one update, split evenly.
        accumulate: micro-batches of each replica.
        tpu: name or address of a TPU; the TPU of this machine if None.

    Raises:
        ValueError: the name is unknown, TF_CONFIG or the TPU is absent, the batch cannot be split evenly, or TensorFlow
            has started with another number of threads than `cores` needs.
    """
    if name not in STRATEGIES:
        raise ValueError(f"strategy expected one of {STRATEGIES}, received {name!r}.")
    devices = _choose(name, tpu)
    if batch_size % (devices.replicas * accumulate):
        shares = f"{devices.replicas} replicas" + (f" times {accumulate} parts" if accumulate > 1 else "")
        raise ValueError(f"batch_size expected a multiple of the {shares}, received {batch_size}.")
    return _on_cores(devices, batch_size // accumulate) if name == "cores" else devices


def _on_cores(device: Devices, examples: int) -> Devices:
    """Return the devices with the largest number of equal parts that is no larger than the number of cores.

    An operation of one part uses only the threads of that part's cores, and one operation of each part runs at a time.
    """
    if tf.config.list_physical_devices("GPU"):
        raise ValueError("strategy 'cores' expected a machine whose CPU trains, found a GPU.")
    cores, threads = usable_cores(), tf.config.threading
    parts = next(parts for parts in range(cores, 0, -1) if examples % parts == 0)
    try:  # setting the same numbers again succeeds
        threads.set_intra_op_parallelism_threads(cores // parts)
        threads.set_inter_op_parallelism_threads(parts)
    except RuntimeError:
        raise ValueError("strategy 'cores' expected a process in which TensorFlow has not computed yet, received "
                         "one whose threads are set.") from None  # fmt: skip
    return replace(device, cores=parts)


def usable_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _choose(name, tpu) -> Devices:
    cluster = json.loads(os.environ.get("TF_CONFIG") or "{}")
    if name == "multiworker" or (name == "auto" and cluster):
        if not cluster:
            raise ValueError("strategy 'multiworker' expected the environment's TF_CONFIG, found none.")
        worker, workers = worker_of(cluster)
        return Devices(tf.distribute.MultiWorkerMirroredStrategy(), worker, workers)
    if name == "tpu" or (name == "auto" and tpu):
        try:
            resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu=tpu or "local")
            tf.config.experimental_connect_to_cluster(resolver)
            tf.tpu.experimental.initialize_tpu_system(resolver)
            return Devices(tf.distribute.TPUStrategy(resolver))
        except (ValueError, OSError, tf.errors.OpError) as error:
            reason = str(error).strip().splitlines()[0]
            raise ValueError(f"strategy 'tpu' expected a TPU, found none at {tpu or 'local'!r} ({reason}).") from None
    if name == "cores":
        return Devices(tf.distribute.get_strategy())  # listing devices would start TensorFlow's threads
    devices = tf.config.list_logical_devices("GPU") or tf.config.list_logical_devices("CPU")
    if name == "one" or (name == "auto" and len(devices) == 1):
        return Devices(tf.distribute.get_strategy())
    return Devices(_mirrored(tuple(device.name for device in devices)))


# One strategy for all runs of a process. A second one would number its collectives from the start, and TensorFlow would
# confuse them with the first one's ("Shape mismatch in the collective instance").
@functools.cache
def _mirrored(names: tuple[str, ...]):
    return tf.distribute.MirroredStrategy(names)


def worker_of(config: dict) -> tuple[int, int]:
    """Return the index of this process and the number of workers of TF_CONFIG; a `chief` is the first worker.

    Raise a ValueError if TF_CONFIG has no workers, or tasks of another kind.
    """
    counts = {kind: len(addresses) for kind, addresses in config.get("cluster", {}).items()}
    task = config.get("task", {})
    if not counts or not counts.keys() <= {"chief", "worker"} or task.get("type") not in counts:
        raise ValueError("TF_CONFIG expected a cluster of 'worker', with a 'chief' or without, and one of them as task,"
                         f" received a cluster of {', '.join(counts) or 'nobody'} and task {task!r}.")  # fmt: skip
    before = counts.get("chief", 0) if task["type"] == "worker" else 0
    return before + int(task.get("index", 0)), sum(counts.values())
