"""Which devices train, and what the workers of a run agree on.

`keras.Model.fit` is right on one device. Under `tf.distribute` it clips each replica's gradient before the sum,
draws the same dropout masks on every replica, and does not run at all on several workers (Keras 3.15).
"""

import contextlib
import functools
import json
import os
from collections.abc import Callable
from dataclasses import dataclass, replace

import tensorflow as tf

STRATEGIES = ("auto", "one", "cores", "mirrored", "multiworker", "tpu")


@dataclass(frozen=True)
class Devices:
    """The devices of a run, as one of its processes sees them.

    Args:
        strategy: that its variables and updates live in.
        worker: number of this process; 0 is the chief, which alone writes files.
        workers: how many processes there are.
        cores: parts that each batch is computed in, side by side, a thread each; see `choose`.
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
        """Batches on the devices: `batches((part, parts))` gives the examples of one process."""
        if self.workers == 1 and not isinstance(self.strategy, tf.distribute.TPUStrategy):
            return self.strategy.experimental_distribute_dataset(batches((0, 1)))

        def own(context):
            part = context.input_pipeline_id, context.num_input_pipelines
            return batches(part).rebatch(batch_size // self.replicas, drop_remainder=True)

        return self.strategy.distribute_datasets_from_function(own)

    def summed(self, function: Callable) -> Callable:
        """A compiled function of a batch of `spread` -> the sum of what `function` gives of the replicas' parts."""

        @tf.function
        def total(*batch):
            parts = [self.strategy.run(function, args=part) for part in cut(batch, self.cores)]
            return tf.add_n([self.strategy.reduce("SUM", part, axis=None) for part in parts])

        return total

    def gathered(self, function: Callable) -> Callable:
        """A compiled function of a batch of `spread` -> the rows of each tensor that `function` gives, of all parts."""

        @tf.function
        def rows(*batch):
            parts = [self.strategy.run(function, args=part) for part in cut(batch, self.cores)]
            found = [[self.strategy.gather(tensor, axis=0) for tensor in part] for part in parts]
            return tuple(tf.concat(tensors, axis=0) for tensors in zip(*found, strict=True))

        return rows

    def agree(self, stop: bool, count: int, save: bool) -> tuple[bool, int, bool]:
        """What all workers do: stop as soon as one was asked to, and the rest as the chief has it."""
        if self.workers == 1:
            return stop, count, save
        stops, counts, saves = self._sum([stop, count * self.chief, save * self.chief])
        return stops > 0, counts, saves > 0

    def require_same_step(self, step: int) -> None:
        """Raise unless all workers go on from the same step, which tells whether they see the same workdir."""
        if self.workers > 1 and self._sum([step, step * step]) != [self.workers * step, self.workers * step**2]:
            raise ValueError(f"workdir expected a folder that all workers share, received one of step {step} here "
                             "and of another step elsewhere.")  # fmt: skip

    @contextlib.contextmanager
    def naming_lost_workers(self):
        """Turn TensorFlow's errors about what is out of reach, another worker first of all, into one sentence.

        Raises:
            ConnectionError: there are several workers, and one of them, or a remote storage, is gone.
        """
        try:
            yield
        except (tf.errors.UnavailableError, tf.errors.AbortedError) as error:
            if self.workers == 1:
                raise
            # Which one stands among TensorFlow's own lines on the standard error: the message begins with a stack.
            raise ConnectionError(
                f"workers expected all {self.workers} to go on, found that another worker, or the storage of the data, "
                "stopped or cannot be reached; the same command on every machine goes on from the last checkpoint."
            ) from error

    def _sum(self, numbers: list) -> list[int]:
        """Of every worker's numbers, three at most, the sums; returns when all workers have come here."""
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
    """A batch (B, ...) of tensors in so many parts (B / parts, ...)."""
    return [batch] if parts == 1 else list(zip(*(tf.split(tensor, parts) for tensor in batch), strict=True))


def on_gpu() -> bool:
    """Whether TensorFlow computes on a GPU."""
    return bool(tf.config.list_logical_devices("GPU"))


def choose(name: str, batch_size: int, accumulate: int = 1, tpu: str | None = None) -> Devices:
    """The devices of a name. Call it before anything else touches TensorFlow: several workers must meet first.

    Args:
        name: `one` device; `cores`, a thread of its own for each core of the CPU, which computes its part of every
            batch, where with `one` all cores share each operation: faster where operations are small; `mirrored` over
            all GPUs (or all logical CPUs where there is no GPU); `multiworker` over the processes in the environment's
            TF_CONFIG; `tpu`, untested on TPU hardware; `auto`: what TF_CONFIG, a TPU's name, or the number of GPUs
            asks for.
        batch_size: examples of one update, to be shared out evenly.
        accumulate: parts that each replica goes through its examples in.
        tpu: name or address of a TPU; the one of this machine where None.

    Raises:
        ValueError: the name is unknown, TF_CONFIG or the TPU is absent, the batch cannot be shared out, or TensorFlow
            has threads already where `cores` wants others.
    """
    if name not in STRATEGIES:
        raise ValueError(f"strategy expected one of {STRATEGIES}, received {name!r}.")
    devices = _choose(name, tpu)
    if batch_size % (devices.replicas * accumulate):
        shares = f"{devices.replicas} replicas" + (f" times {accumulate} parts" if accumulate > 1 else "")
        raise ValueError(f"batch_size expected a multiple of the {shares}, received {batch_size}.")
    return _on_cores(devices, batch_size // accumulate) if name == "cores" else devices


def _on_cores(device: Devices, examples: int) -> Devices:
    """The same in as many parts of equal size as examples can be cut into, no more than there are cores.

    An operation of one part gets the threads of that part's cores alone, and as many run at once as there are parts.
    """
    if tf.config.list_physical_devices("GPU"):
        raise ValueError("strategy 'cores' expected a machine whose CPU trains, found a GPU.")
    cores, threads = usable_cores(), tf.config.threading
    parts = next(parts for parts in range(cores, 0, -1) if examples % parts == 0)
    try:  # which goes well later, too, where they are as wanted
        threads.set_intra_op_parallelism_threads(cores // parts)
        threads.set_inter_op_parallelism_threads(parts)
    except RuntimeError:
        raise ValueError("strategy 'cores' expected a process in which TensorFlow has not computed yet, received "
                         "one whose threads are set.") from None  # fmt: skip
    return replace(device, cores=parts)


def usable_cores() -> int:
    """That this process may run on."""
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
        return Devices(tf.distribute.get_strategy())  # the devices' list would set TensorFlow's threads
    found = tf.config.list_logical_devices("GPU") or tf.config.list_logical_devices("CPU")
    if name == "one" or (name == "auto" and len(found) == 1):
        return Devices(tf.distribute.get_strategy())
    return Devices(_mirrored(tuple(device.name for device in found)))


# One strategy for all runs of a process: each numbers its sums over the replicas anew, and TensorFlow takes a second
# one's for the first one's, which fails where the models differ in size ("Shape mismatch in the collective instance").
@functools.cache
def _mirrored(names: tuple[str, ...]):
    return tf.distribute.MirroredStrategy(names)


def worker_of(config: dict) -> tuple[int, int]:
    """This process's number and how many train, as TensorFlow counts them: a `chief` is the first of the workers.

    Args:
        config: TF_CONFIG.

    Raises:
        ValueError: it has no workers, or tasks of another kind.
    """
    counts = {kind: len(addresses) for kind, addresses in config.get("cluster", {}).items()}
    task = config.get("task", {})
    if not counts or not counts.keys() <= {"chief", "worker"} or task.get("type") not in counts:
        raise ValueError("TF_CONFIG expected a cluster of 'worker', with a 'chief' or without, and one of them as task,"
                         f" received a cluster of {', '.join(counts) or 'nobody'} and task {task!r}.")  # fmt: skip
    before = counts.get("chief", 0) if task["type"] == "worker" else 0
    return before + int(task.get("index", 0)), sum(counts.values())
