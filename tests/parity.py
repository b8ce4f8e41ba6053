"""timm as it installs beside a torch whose vision operators do not load, and transformers; both only in tests."""

import importlib.util
import warnings

import pytest

from benchmarks.harness import declare_vision_operators


def timm():
    """The module, or a skip."""
    pytest.importorskip("torch", reason="torch is not installed")
    pytest.importorskip("safetensors", reason="safetensors is not installed")
    if importlib.util.find_spec("timm") is None:
        pytest.skip("timm is not installed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        declare_vision_operators()
        import timm

    return timm


def transformers():
    """The module, or a skip."""
    pytest.importorskip("torch", reason="torch is not installed")
    if importlib.util.find_spec("transformers") is None:
        pytest.skip("transformers is not installed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        declare_vision_operators()
        import transformers
    return transformers
