"""A quiet TensorFlow on the CPU, and a fresh state for each test."""

import atexit
import gc
import os
import time
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")  # as `import keras_vit` has it, which comes too late here
# XLA's compiler makes code for one step here, which is not worth optimising: a third less time.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true")

import keras
import pytest

HERE = Path(__file__).parent
# The files and folders that take longest, which two processes start with, so that both end at about the same time.
LONGEST = (
    "contract/test_contract.py",
    "serve",
    "cli/test_cli.py",
    "train/test_engine.py",
    "export/test_write.py",
    "kernels/test_compiled.py",
    "export/test_gate.py",
    "models/test_builders.py",
    "train/test_failures.py",
    "kernels/test_training.py",
    "models/test_vision_model.py",
    "train/test_step.py",
    "tasks/test_masked.py",
    "evaluate/test_suites.py",
    "test_terminal.py",
    "test_architecture.py",
    "export/test_saved_model.py",
    "export/test_without_classes.py",
    "cost/test_operations.py",
    "weights/test_write.py",
    "train/test_left_files.py",
    "train/test_distribution.py",
)

atexit.register(gc.freeze)  # no search for garbage at the end, as keras_vit.terminal has it


@pytest.fixture(autouse=True)
def fresh_state():
    """The same random numbers for every test, and no policy left behind by another."""
    keras.utils.set_random_seed(0)
    keras.config.set_dtype_policy("float32")
    yield
    keras.config.set_dtype_policy("float32")


def pytest_runtest_setup(item):
    """Skip a test that would begin after KERAS_VIT_TESTS_END, in seconds since 1970, which `.ci/run` sets."""
    if time.time() > float(os.environ.get("KERAS_VIT_TESTS_END", "inf")):
        pytest.skip("no time is left: CI ends within its hour")


def pytest_configure(config):
    absent = [name for name in LONGEST if not (HERE / name).exists()]
    if absent:
        raise pytest.UsageError(f"LONGEST expected files and folders in {HERE}, received {absent}.")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Sort the files of tests, the longest first; within a file the order stays."""

    def place(item):
        name = item.path.relative_to(HERE).as_posix()
        return next((i for i, start in enumerate(LONGEST) if name.startswith(start)), len(LONGEST))

    items.sort(key=place)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Give each file of tests to one process, and all files of `serve`, which share a server, to one."""
    from xdist.scheduler import LoadFileScheduling

    class ByServer(LoadFileScheduling):
        def _split_scope(self, nodeid):
            file = super()._split_scope(nodeid)
            return "serve" if file.startswith("tests/serve/") else file

    return ByServer(config, log) if config.getoption("dist") == "loadfile" else None
