"""A quiet TensorFlow on the CPU, and a fresh state for each test."""

import atexit
import gc
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")  # as `import keras_vit` has it, which comes too late here
# XLA's compiler makes code for one step here, which is not worth optimising: a third less time.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true")

import keras
import pytest

atexit.register(gc.freeze)  # no search for garbage at the end, as keras_vit.terminal has it


@pytest.fixture(autouse=True)
def fresh_state():
    """The same random numbers for every test, and no policy left behind by another."""
    keras.utils.set_random_seed(0)
    keras.config.set_dtype_policy("float32")
    yield
    keras.config.set_dtype_policy("float32")
