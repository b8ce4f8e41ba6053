"""timm as it installs beside a torch whose vision operators do not load, and transformers; both only in tests."""

import importlib
import importlib.util
import json
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


SMALL = {"embed_dim": 96, "depth": 2, "img_size": 64, "num_classes": 5}


def timm_folder(timm, name, folder, std=0.5, **changes):
    """A small model of an architecture with random weights, saved as its hub folders are; the model."""
    import torch
    from safetensors.torch import save_file

    torch.manual_seed(0)
    model = quietly(lambda: timm.create_model(name, **SMALL | changes).eval())
    for parameter in model.parameters():
        parameter.data.normal_(std=std)
    folder.mkdir()
    save_file(model.state_dict(), folder / "model.safetensors")
    config = {
        "architecture": name,
        "num_classes": 5,
        "global_pool": model.global_pool,
        "model_args": {"img_size": 64} | changes,
    }
    config["pretrained_cfg"] = {key: model.pretrained_cfg[key] for key in ("mean", "std", "crop_pct", "interpolation")}
    (folder / "config.json").write_text(json.dumps(config))
    return model
