"""How training scales: measured here over one and two devices of one core each, predicted for 8 to 512.

    python -m benchmarks.scaling                      # measures, and brings scaling.md and its plot up to date
    python -m benchmarks.scaling --read FILE.json     # the same from an earlier run's JSON
    python -m benchmarks.scaling --predict            # only the predicted tables of scaling.md

Steps of ViT-Ti/16 at 64 pixels (AdamW, float32), the same images again and again, so that no data pipeline counts: one
replica on one core; one on both cores; two replicas of `MirroredStrategy` on two virtual CPUs of one thread each; two
processes of `MultiWorkerMirroredStrategy`, a core each, over loopback. All stand ready and take turns round by round.
A device is a core: the speed to be reached by two is twice that of one. What the prediction is made of is measured in
the same rounds: a matmul on one core, and the gradients' sum with nothing else around it.
"""

import argparse
import contextlib
import datetime
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from benchmarks import scaling_report
from benchmarks.harness.arguments import json_with, rounds
from benchmarks.harness.machine import in_words

HERE = Path(__file__).parent
MODEL, SIZE, PRECISION = "ViT_Ti16", 64, "float32"
EACH = (8, 32)  # images on each of two devices
ONE, BOTH, MIRRORED, WORKERS = "one", "both", "mirrored", "workers"
STRATEGY = {ONE: "one", BOTH: "one", MIRRORED: "mirrored", WORKERS: "multiworker"}
WHOLE = tuple(2 * images for images in EACH)
BATCHES = {ONE: tuple(sorted({*EACH, *WHOLE})), BOTH: WHOLE, MIRRORED: WHOLE, WORKERS: WHOLE}
MATMUL, SUM, SMALL_SUM = "matmul", "sum", "small sum"  # what is timed beside steps
SIDE, REPEATED = 1024, 10  # of the matrices; small sums in a call


def step(images: int) -> str:
    return f"step of {images}"


def labels_of(kind: str) -> list[str]:
    """What one kind of run is asked to do, in the order of a round."""
    beside = {ONE: [MATMUL], BOTH: []}.get(kind, [SUM, SMALL_SUM])
    return [*map(step, BATCHES[kind]), *beside]


def prepare(kind: str):
    """Name -> call of one process, and what the traced step sums over the devices."""
    import tensorflow as tf

    if kind == MIRRORED:
        cpu = tf.config.list_physical_devices("CPU")[0]
        tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
        tf.config.threading.set_intra_op_parallelism_threads(1)
        tf.config.threading.set_inter_op_parallelism_threads(2)

    from keras_vit.train.recipe import Data, Model, Optimizer, Recipe
    from keras_vit.train.stages import spans_of
    from keras_vit.train.state import first_state
    from keras_vit.train.step import compiled_steps
    from keras_vit.train.strategy import choose

    def recipe_of(batch):
        model, optimizer = Model(MODEL, image_size=SIZE), Optimizer("adamw", 1e-4, weight_decay=0.1)
        return Recipe("scaling", model, Data(batch_size=batch), optimizer=optimizer, precision=PRECISION, steps=10**6)

    devices = choose(STRATEGY[kind], max(BATCHES[kind]))
    first = recipe_of(max(BATCHES[kind]))
    state = first_state(first, tuple(map(str, range(1000))), first.steps, devices.strategy)
    calls, summed = {}, None
    for batch in BATCHES[kind]:
        recipe = recipe_of(batch)
        run = compiled_steps(recipe, state, devices.strategy, spans_of(recipe, recipe.steps)[0])

        def part_of(part, batch=batch):
            images = tf.random.stateless_uniform((batch // part[1], SIZE, SIZE, 3), (0, part[0]), -1.0, 1.0)
            return tf.data.Dataset.from_tensors((images, tf.one_hot(tf.range(batch // part[1]), 1000))).repeat()

        iterator = iter(devices.spread(part_of, batch))
        calls[step(batch)] = lambda run=run, iterator=iterator: run(iterator, tf.constant(1))
        if kind == WORKERS:
            summed = collectives(run.get_concrete_function(iterator, tf.constant(1)).graph)
    if kind in (MIRRORED, WORKERS):
        calls[SUM] = summation(devices.strategy, state.trained, 1)
        calls[SMALL_SUM] = summation(devices.strategy, state.trained[-1:], REPEATED)
    if kind == ONE:
        matrix = tf.random.stateless_uniform((SIDE, SIDE), (0, 0))
        calls[MATMUL] = lambda: tf.matmul(matrix, matrix).numpy()
    return calls, summed


def summation(strategy, variables, times):
    """A call that sums what lies in variables over the replicas, so many times, as the step sums its gradients."""
    import tensorflow as tf

    def on_replica():
        values = [tf.identity(variable.value) for variable in variables]  # on the replica's device, which a read is not
        found = tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, values)
        return tf.add_n([tf.reshape(value, (-1,))[0] for value in found])

    @tf.function
    def call():
        total = tf.zeros(())
        for _ in tf.range(times):
            tf.autograph.experimental.set_loop_options(parallel_iterations=1)
            total += strategy.experimental_local_results(strategy.run(on_replica))[0]
        return total

    return lambda: call().numpy()


def collectives(graph) -> list[int]:
    """Bytes of each collective sum in a graph and in the functions that it calls; None where a shape is not known."""
    found = []
    for operation in graph.get_operations():
        if operation.type.startswith("CollectiveReduce"):
            value = operation.inputs[0]
            count = value.shape.num_elements()
            found.append(None if count is None else count * value.dtype.size)
    for function in graph._functions.values():  # bodies of loops
        inner = getattr(function, "graph", None)
        found += collectives(inner) if inner is not None else []
    return found


def work(kind: str) -> None:
    """One process: prepare, warm up, then time each call that a line names."""
    out, sys.stdout = sys.stdout, sys.stderr  # what libraries print must not mix with the answers
    calls, summed = prepare(kind)
    for label in labels_of(kind):
        calls[label]()
        calls[label]()
    print(json.dumps(summed), file=out, flush=True)
    for line in sys.stdin:
        begun = time.perf_counter()
        calls[line.strip()]()
        print(time.perf_counter() - begun, file=out, flush=True)


class Group:
    """The processes of one kind of run, which are given the same call at once."""

    def __init__(self, kind: str, cores: list[int]):
        pinned = [cores] if kind in (BOTH, MIRRORED) else [[core] for core in cores[: 1 + (kind == WORKERS)]]
        self.kind, self.processes = kind, []
        self.errors = tempfile.TemporaryFile("w+")  # noqa: SIM115  until `end`
        configs = clusters() if kind == WORKERS else [None]
        for config, own in zip(configs, pinned, strict=True):
            environment = {name: value for name, value in os.environ.items() if name != "TF_CONFIG"}
            environment |= {"TF_CONFIG": config} if config else {}
            command = [sys.executable, "-m", "benchmarks.scaling", "--worker", kind, "--cores", ",".join(map(str, own))]
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": self.errors}
            self.processes.append(subprocess.Popen(command, env=environment, text=True, **pipes))

    def answers(self) -> list:
        """A line of JSON of each process."""
        lines = [process.stdout.readline() for process in self.processes]
        if not all(lines):
            self.errors.seek(0)
            sys.exit(f"benchmarks/scaling.py expected {self.kind!r} to answer, received:\n{self.errors.read()[-2000:]}")
        return [json.loads(line) for line in lines]

    def seconds(self, label: str) -> float:
        """Until the slower of the processes is done."""
        for process in self.processes:
            process.stdin.write(label + "\n")
            process.stdin.flush()
        return max(self.answers())

    def end(self) -> None:
        for process in self.processes:
            process.kill()
            process.communicate()
        self.errors.close()


def clusters() -> list[str]:
    """TF_CONFIG of two processes on two free ports."""
    with contextlib.ExitStack() as open_sockets:
        sockets = [open_sockets.enter_context(socket.socket()) for _ in range(2)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        addresses = [f"127.0.0.1:{one.getsockname()[1]}" for one in sockets]
    task = lambda index: {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}}  # noqa: E731
    return [json.dumps(task(index)) for index in range(2)]


def loopback() -> int | None:
    """Bytes that went over loopback since the machine started, where Linux says so."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/net/dev").read_text().splitlines():
            name, _, numbers = line.partition(":")
            if name.strip() == "lo":
                return int(numbers.split()[8])
    return None


def measure(rounds: int) -> dict:
    """All kinds of run, round by round."""
    if not hasattr(os, "sched_getaffinity") or len(os.sched_getaffinity(0)) < 2:
        sys.exit("benchmarks/scaling.py expected Linux and two cores to bind processes to, found fewer.")
    cores = sorted(os.sched_getaffinity(0))[:2]
    seconds = {kind: {label: [] for label in labels_of(kind)} for kind in STRATEGY}
    sent = {label: [] for label in labels_of(WORKERS)}
    groups, summed = [], {}
    try:
        for kind in STRATEGY:  # one after the other: processes that start at once starve the heartbeats of two
            groups.append(Group(kind, cores))
            summed[kind] = groups[-1].answers()[0]
        for _ in range(rounds):
            for group in groups:
                for label in labels_of(group.kind):
                    before = loopback()
                    seconds[group.kind][label].append(group.seconds(label))
                    if group.kind == WORKERS and before is not None:
                        sent[label].append(loopback() - before)
    finally:
        for group in groups:
            group.end()
    return {
        "machine": in_words(), "date": f"{datetime.date.today()}", "model": MODEL, "image_size": SIZE,
        "precision": PRECISION, "rounds": rounds, "each": EACH, "load": os.getloadavg()[2], "matmul_side": SIDE,
        "small_sums": REPEATED, "seconds": seconds, "collectives": summed[WORKERS], "loopback_bytes": sent,
    }  # fmt: skip


def main(arguments: list[str] | None = None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=rounds, default=15)
    parser.add_argument(
        "--read",
        type=json_with("machine", "seconds", "collectives"),
        metavar="JSON",
        help="of an earlier run, in place of measuring",
    )
    parser.add_argument("--predict", action="store_true", help="bring only the predicted tables up to date")
    parser.add_argument("--json", type=Path, default=HERE / "results/scaling.json", help="where the figures go")
    parser.add_argument("--markdown", type=Path, default=HERE / "scaling.md", help="to bring up to date")
    parser.add_argument("--plot", type=Path, default=HERE / "scaling.png")
    parser.add_argument("--worker", choices=STRATEGY, help=argparse.SUPPRESS)
    parser.add_argument("--cores", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.worker:
        os.sched_setaffinity(0, {int(core) for core in options.cores.split(",")})  # before TensorFlow counts them
        work(options.worker)
        return
    if options.predict:
        scaling_report.refresh(options.markdown)
        return
    if options.read:
        _, found = options.read
    else:
        found = measure(options.rounds)
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(found, indent=1) + "\n")
    print(scaling_report.measured(found))
    scaling_report.refresh(options.markdown, found)
    scaling_report.plot(found, options.plot)


if __name__ == "__main__":
    main()
