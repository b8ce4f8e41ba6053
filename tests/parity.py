"""timm as it installs beside a torch whose vision operators do not load, and transformers; both only in tests."""

import importlib.util
import re
import warnings
from pathlib import Path

import pytest


def timm():
    """The module, or a skip."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    pytest.importorskip("safetensors", reason="safetensors is not installed")
    if importlib.util.find_spec("timm") is None:
        pytest.skip("timm is not installed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _declare_vision_operators(torch)
        import timm

    return timm


def transformers():
    """The module, or a skip."""
    pytest.importorskip("torch", reason="torch is not installed")
    if importlib.util.find_spec("transformers") is None:
        pytest.skip("transformers is not installed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _declare_vision_operators(pytest.importorskip("torch"))
        import transformers
    return transformers


_LIBRARIES = []


def _declare_vision_operators(torch):
    """Name torchvision's compiled operators where its library does not load, so that importing it does not fail."""
    spec = importlib.util.find_spec("torchvision")
    if _LIBRARIES or spec is None or hasattr(torch.ops.torchvision, "nms"):
        return
    library = torch.library.Library("torchvision", "DEF")
    source = (Path(spec.submodule_search_locations[0]) / "_meta_registrations.py").read_text()
    named = re.findall(r'register_meta\("([a-z_0-9]+)"\)', source) + re.findall(r"torchvision::([a-z_0-9]+)", source)
    for name in sorted(set(named)):
        library.define(f"{name}(Tensor x) -> Tensor")
    _LIBRARIES.append(library)  # the names last as long as it does
