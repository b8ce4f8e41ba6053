"""timm as it installs beside a torch whose vision operators do not load, and transformers; both only in tests."""

import importlib
import importlib.util
import warnings

import numpy as np
import pytest

from benchmarks.harness.torch_peers import declare_vision_operators


def timm():
    """The module, or a skip."""
    return _peer("timm")


def transformers():
    """The module, or a skip."""
    return _peer("transformers")


def _peer(name):
    for needed in ("torch", "safetensors"):
        pytest.importorskip(needed, reason=f"{needed} is not installed")
    if importlib.util.find_spec(name) is None:
        pytest.skip(f"{name} is not installed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        declare_vision_operators()
        return importlib.import_module(name)


def quietly(call):
    """What `call` gives without gradients and without warnings, which the tests would take for errors."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    with warnings.catch_warnings(), torch.inference_mode():
        warnings.simplefilter("ignore")
        return call()


def nchw(images: np.ndarray):
    """Our images (B, H, W, C) as torch takes them."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    return torch.from_numpy(np.ascontiguousarray(images.transpose(0, 3, 1, 2)))
