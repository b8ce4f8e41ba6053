"""Two processes train as one device does; stopped together, or killed, a run goes on to the same end."""

import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import keras
import numpy as np
import pytest
from support import AT_ONCE, ROOT, needs_tensorflow

from keras_vit.train.strategy import worker_of

LIMIT = 300  # seconds, after which a process has lost its way
pytestmark = needs_tensorflow
pytest.importorskip("sklearn", reason="scikit-learn carries the digits")

RECIPE = """
import os, signal, sys, time
import keras, numpy as np, tensorflow as tf
from keras_vit.train import engine
from keras_vit.train.engine import train
from keras_vit.train.recipe import *

row = Variant("tiny", width=8, depth=2, mlp_dim=16, num_heads=2, patch_size=4, image_size=8)
recipe = Recipe(
    "tiny", Model(row, channels=1, dropout_rate=0.1, attention_dropout_rate=0.1, drop_path_rate=0.1),
    Data("digits", train_split="train[:5%]", test_split="test[:20%]", batch_size=16),
    Augment(shift=0.1, mixup=0.2),
    Optimizer("adamw", learning_rate=1e-2, weight_decay=0.1, clip_norm=0.1, epsilon=1e-4, accumulate=2),
    Schedule("linear", warmup_steps=2), average=Average(0.9), checkpoint=Checkpoint(seconds=0), epochs=2,
    evaluate=Evaluate(few_shot="digits", shots=(2,), few_shot_splits=("train[:5%]", "test[:15%]")),
)
engine.CALL_SECONDS = 0.0
"""

WORKER = """
folder, interrupted = sys.argv[1], sys.argv[2] == "yes"
save = engine.Checkpoints.save
def saving(self, step):
    save(self, step)
    if interrupted and step == 3 and not self.chief:
        os.kill(os.getpid(), signal.SIGTERM)
engine.Checkpoints.save = saving
print(train(recipe, folder)["replicas"])
"""

KILLED = """
save = engine.Checkpoints.save
def saving(self, step):
    save(self, step)
    if step == 3 and not self.chief:
        os.kill(os.getpid(), signal.SIGKILL)
engine.Checkpoints.save = saving
try:
    train(recipe, sys.argv[1])
except ConnectionError as error:
    print(error)
"""

RANDOM = """
recipe = override(recipe, ["model.dropout_rate=0.1", "model.drop_path_rate=0.1", "optimizer.accumulate=1"])
""".replace("override(", "__import__('keras_vit.train.recipe.file', fromlist=['']).override(")

SLOW = """
save = engine.Checkpoints.save
def saving(self, step):
    time.sleep(0.1)  # or the run might be over before it is killed
    save(self, step)
engine.Checkpoints.save = saving
"""

WHOLE = """
train(recipe, sys.argv[1] + "/killed", strategy=sys.argv[2])
train(recipe, sys.argv[1] + "/whole", strategy=sys.argv[2])
"""

TWO_CPUS = """
import tensorflow as tf
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
"""


def start(code, *arguments, **environment):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    return subprocess.Popen(
        [sys.executable, "-c", AT_ONCE + code, *map(str, arguments)], env=environment, text=True, cwd=ROOT,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def finish(*processes, code=0):
    """What each of several processes that run at once wrote to standard output and error; all of them are ended."""
    with ThreadPoolExecutor(len(processes)) as threads:  # side by side: a full pipe would hold one of them up
        try:
            found = list(threads.map(lambda process: process.communicate(timeout=LIMIT), processes))
        finally:
            for process in processes:
                process.kill()
    for process, (_, errors) in zip(processes, found, strict=True):
        assert process.returncode == code, errors[-3000:]
    return found


def two_workers(folder, interrupted, first="worker"):
    """Both processes of a run to their end, of which the first one is a worker or a chief."""
    return finish(*start_two(RECIPE + WORKER, folder, interrupted, first=first), code=143 * (interrupted == "yes"))


def start_two(code, *arguments, first="worker"):
    """Both processes of a run."""
    with contextlib.ExitStack() as open_sockets:
        sockets = [open_sockets.enter_context(socket.socket()) for _ in range(2)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))  # any two ports that are free
        addresses = [f"127.0.0.1:{one.getsockname()[1]}" for one in sockets]
    cluster, tasks = {"worker": addresses}, [("worker", 0), ("worker", 1)]
    if first == "chief":
        cluster, tasks = {"chief": addresses[:1], "worker": addresses[1:]}, [("chief", 0), ("worker", 0)]
    configs = [json.dumps({"cluster": cluster, "task": {"type": kind, "index": index}}) for kind, index in tasks]
    return [start(code, *arguments, TF_CONFIG=config) for config in configs]


def weights(folder):
    return keras.saving.load_model(folder / "model.keras", compile=False).get_weights()


@pytest.mark.broad
def test_two_workers_stop_together_go_on_and_equal_one_device(tmp_path):
    """SIGTERM to the second alone stops both at one step; the end is that of one device on the same batches, dropout
    included. Going on, the first of them is called chief."""
    (_, told), (_, quiet) = two_workers(tmp_path / "two", "yes")
    assert "stopped at step 4 of 8; the same command goes on from there." in told and "stopped" not in quiet
    assert sorted(path.name for path in (tmp_path / "two" / "checkpoints").iterdir()) == ["00000003", "00000004"]
    ends = two_workers(tmp_path / "two", "no", "chief")
    assert [said.split()[-1] for said, _ in ends] == ["2", "2"]
    assert "4 of 8 steps done" in ends[0][1]
    finish(start(RECIPE + 'train(recipe, sys.argv[1], strategy="one")', tmp_path / "one"))
    one, two = weights(tmp_path / "one"), weights(tmp_path / "two")
    assert max(float(np.max(np.abs(a - b))) for a, b in zip(one, two, strict=True)) < 1e-6
    assert np.max(np.abs(one[-2])) > 1e-3  # the head's kernel, which starts at 0
    measured = [json.loads((tmp_path / run / "summary.json").read_text()) for run in ("one", "two")]
    assert all(measured[0][name] == measured[1][name] > 0 for name in ("accuracy", "few_shot_2"))
    lines = [json.loads(line) for line in (tmp_path / "two" / "metrics.jsonl").read_text().splitlines()]
    assert [row["step"] for row in lines if row["name"] == "loss" and row["split"] == "train"] == [4, 8]


@pytest.mark.large
def test_the_other_one_of_a_killed_worker_says_what_to_do(tmp_path):
    """When TensorFlow has missed the killed one for long enough, about a minute."""
    left, killed = start_two(RECIPE + KILLED, tmp_path / "run")
    try:
        ((said, _),) = finish(left)
    finally:
        killed.kill()
        killed.communicate()
    assert killed.returncode == -signal.SIGKILL
    assert said.startswith(
        "workers expected all 2 to go on, found that another worker, or the storage of the data, stopped "
    )
    assert (tmp_path / "run" / "checkpoints" / "00000003").is_dir()


def test_workers_are_numbered_as_tensorflow_numbers_them():
    def of(cluster, kind, index):
        return worker_of({"cluster": cluster, "task": {"type": kind, "index": index}})

    workers = {"worker": ["a:1", "b:1"]}
    assert [of(workers, "worker", index) for index in range(2)] == [(0, 2), (1, 2)]
    with_chief = {"worker": ["b:1", "c:1"], "chief": ["a:1"]}
    assert [of(with_chief, *task) for task in (("chief", 0), ("worker", 0), ("worker", 1))] == [(0, 3), (1, 3), (2, 3)]
    assert of({"chief": ["a:1"]}, "chief", 0) == (0, 1)
    for cluster, kind in ((workers, "evaluator"), ({**workers, "ps": ["c:1"]}, "worker"), ({}, "worker")):
        with pytest.raises(ValueError, match="TF_CONFIG expected a cluster of 'worker', .* received a cluster of "):
            of(cluster, kind, 0)


@pytest.mark.large  # test_engine.py has one that is stopped, and one whose newest checkpoint is broken
@pytest.mark.parametrize("strategy", ["one", "mirrored"])
def test_killed_anywhere_it_goes_on_to_the_same_bit(tmp_path, strategy):
    """kill -9 at a random step, with shuffle, dropout, stochastic depth, mixup and average on."""
    code = (TWO_CPUS if strategy == "mirrored" else "") + RECIPE + RANDOM
    step, delay = random.randint(1, 6), random.uniform(0, 0.05)
    process = start(code + SLOW + 'train(recipe, sys.argv[1] + "/killed", strategy=sys.argv[2])', tmp_path, strategy)
    checkpoints = tmp_path / "killed" / "checkpoints"
    until = time.monotonic() + LIMIT
    while not (checkpoints / f"{step:08d}").exists() and process.poll() is None and time.monotonic() < until:
        time.sleep(0.001)
    time.sleep(delay)
    process.kill()
    said = process.communicate(timeout=LIMIT)
    assert process.returncode == -signal.SIGKILL, (step, delay, said)
    assert list(checkpoints.glob("0*")) and not (tmp_path / "killed" / "summary.json").exists(), (step, delay)
    finish(start(code + WHOLE, tmp_path, strategy))
    for killed, whole in zip(weights(tmp_path / "killed"), weights(tmp_path / "whole"), strict=True):
        assert np.array_equal(killed, whole), (step, delay)
