"""Threads, parts of a batch and versions: the last bits of a run depend on them, too."""

import importlib.metadata
import json
import os
import warnings
from pathlib import Path

import tensorflow as tf

from keras_vit.train.strategy import Devices, usable_cores
from keras_vit.train.workdir import write_atomically

NAME = "process.json"


def process_facts(devices: Devices) -> dict:
    """Return the threads, parts, versions and switches of this process."""
    threads = tf.config.threading
    return {
        "intra_op_threads": _threads(threads.get_intra_op_parallelism_threads(), "TF_NUM_INTRAOP_THREADS"),
        "inter_op_threads": _threads(threads.get_inter_op_parallelism_threads(), "TF_NUM_INTEROP_THREADS"),
        "parts_of_a_batch": devices.replicas * devices.cores,
        "onednn": os.environ.get("TF_ENABLE_ONEDNN_OPTS", "1") != "0",
        **{name: importlib.metadata.version(name) for name in ("tensorflow", "keras")},
    }


def _threads(requested: int, variable: str) -> int:
    """Return the number of TensorFlow's threads: as set, else by the environment, else all cores."""
    named = os.environ.get(variable, "")
    return requested or (int(named) if named.isdigit() else 0) or usable_cores()


def record_process(workdir: Path, devices: Devices, step: int) -> None:
    """Write `process.json`; warn if a run resumes at `step` with other facts than before.

    Another number of threads sums in another order, so the last bits differ.
    """
    facts, written = process_facts(devices), Path(workdir) / NAME
    before = json.loads(written.read_text()) if step and written.is_file() else {}
    changed = [
        f"{name} {value} (was {before[name]})" for name, value in facts.items() if before.get(name, value) != value
    ]
    if changed:
        warnings.warn(
            f"the run continues from step {step} with {', '.join(changed)}: its weights will differ in their last bits "
            "from a run without this change.",
            stacklevel=2,
        )
    write_atomically(written, json.dumps(facts, indent=2) + "\n")
