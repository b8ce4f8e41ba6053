"""Torch's files, read without torch: what checkpoints of training scripts hold, and how they name it.

The files are made without torch; `test_torch_itself_writes_the_same` compares with torch's own where it is installed.
"""

import argparse
import collections
import pathlib
import zipfile

import numpy as np
import pytest
import torch_files
from torch_files import Made

import keras_vit
from keras_vit.weights.files import open_weights

TINY = keras_vit.Variant("tiny", width=8, depth=2, mlp_dim=12, num_heads=2, patch_size=4, image_size=8)
ARGUMENTS = Made(
    "argparse", "Namespace", {"model": "vit_tiny", "lr": 0.1, "out": Made("pathlib", "PosixPath"), "amp": True}
)


@pytest.fixture(scope="module")
def model():
    return keras_vit.build(TINY, classes=3, classifier_activation=None)


@pytest.fixture(scope="module")
def arrays(model, tmp_path_factory):
    """The names of timm -> arrays of small numbers."""
    path = tmp_path_factory.mktemp("timm") / "weights.safetensors"
    keras_vit.save_weights(model, path, "timm")
    rng = np.random.default_rng(0)
    with open_weights(path) as file:
        return {name: rng.normal(0, 0.1, shape).astype("float32") for name, shape in file.shapes.items()}


def head_of(report_or_model):
    return np.asarray(report_or_model.get_layer("head").kernel)


CHECKPOINTS = {
    "timm": lambda state: {"epoch": 3, "arch": "vit", "state_dict": state, "optimizer": {}, "args": ARGUMENTS,
                           "version": 2, "metric": 71.5},
    "deit": lambda state: {"model": state, "optimizer": {}, "lr_scheduler": {}, "epoch": 3, "args": ARGUMENTS},
    "dino": lambda state: {"student": {}, "teacher": state, "epoch": 3, "args": ARGUMENTS, "dino_loss": {}},
    "lightning": lambda state: {"state_dict": state, "epoch": 3, "hyper_parameters": {"lr": 0.1}, "loops": None},
    "bare": lambda state: state,
}  # fmt: skip
ENDINGS = (".pth", ".pt", ".bin", ".pth.tar", ".ckpt")


@pytest.mark.parametrize(("kind", "ending"), list(zip(CHECKPOINTS, ENDINGS, strict=True)))
@pytest.mark.parametrize("save", [torch_files.save, torch_files.save_old], ids=["zip", "old"])
def test_checkpoints_of_training_scripts_are_read(kind, ending, save, model, arrays, tmp_path):
    path = tmp_path / f"checkpoint{ending}"
    save(path, CHECKPOINTS[kind](arrays))
    model.get_layer("head").kernel.assign(np.zeros((8, 3)))
    report = keras_vit.load_weights(model, path)
    assert len(report.used) == len(arrays) and not report.left_over
    assert np.array_equal(head_of(model), arrays["head.weight"].T)


PREFIXES = ("module.", "_orig_mod.", "module._orig_mod.", "_orig_mod.module.", "model.module.", "model._orig_mod.",
            "module.backbone.", "module.base_encoder.", "net._orig_mod.module.")  # fmt: skip


@pytest.mark.parametrize("prefix", PREFIXES)
def test_prefixes_come_off_in_any_order(prefix, model, arrays, tmp_path):
    torch_files.save(tmp_path / "weights.pth", {prefix + name: array for name, array in arrays.items()})
    model.get_layer("head").kernel.assign(np.zeros((8, 3)))
    report = keras_vit.load_weights(model, tmp_path / "weights.pth")
    assert np.array_equal(head_of(model), arrays["head.weight"].T)
    assert f"{prefix}head.weight" in report.used  # the file's own names


def test_blocks_that_were_compiled_one_by_one(model, arrays, tmp_path):
    renamed = {name.replace("blocks.0.", "blocks.0._orig_mod."): array for name, array in arrays.items()}
    torch_files.save(tmp_path / "weights.pth", renamed)
    assert len(keras_vit.load_weights(model, tmp_path / "weights.pth").used) == len(arrays)
    both = {**renamed, **{name: array for name, array in arrays.items() if name.startswith("blocks.0.norm1")}}
    torch_files.save(tmp_path / "weights.pth", both)
    with pytest.raises(ValueError, match=r"left over in the file: blocks\.0\.(_orig_mod\.)?norm1\.bias"):
        keras_vit.load_weights(model, tmp_path / "weights.pth")


def test_of_two_sets_of_weights_the_report_says_which(model, arrays, tmp_path, capsys):
    averaged = {name: array + 1 for name, array in arrays.items()}
    torch_files.save(tmp_path / "weights.pth", {"state_dict": arrays, "state_dict_ema": averaged})
    report = keras_vit.load_weights(model, tmp_path / "weights.pth")
    said = "the file holds 'state_dict_ema' and 'state_dict'; 'state_dict_ema' was read"
    assert said in report.notes and said in capsys.readouterr().err
    assert np.array_equal(head_of(model), averaged["head.weight"].T)


@pytest.mark.parametrize("module, name", [("os", "system"), ("timm.models.vision_transformer", "VisionTransformer")])
def test_any_other_type_is_named_and_never_made(module, name, arrays, tmp_path):
    torch_files.save(tmp_path / "weights.pth", {"state_dict": arrays, "model": Made(module, name, {"a": 1})})
    sentence = rf"plain values, received '{module}\.{name}' in .*weights.pth', which only code can read; if you trust"
    with pytest.raises(ValueError, match=sentence) as error:
        keras_vit.from_pretrained(tmp_path / "weights.pth")
    assert "\n" not in str(error.value) and "torch.save(torch.load(FILE, weights_only=False)" in str(error.value)


def test_a_dict_that_holds_itself_ends(tmp_path):
    """`{"model": ...}` with itself inside, which a pickle can say."""
    path = tmp_path / "weights.pth"
    torch_files.save(path, {})
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("archive/data.pkl", b"\x80\x02}q\x00X\x05\x00\x00\x00modelh\x00s.")
    with pytest.raises(ValueError, match="expected a torch state dict of plain tensors, received something else"):
        keras_vit.from_pretrained(path)


@pytest.mark.parametrize("change", ["shape", "offset", "strides"])
def test_a_tensor_is_never_read_beyond_its_storage(change, tmp_path, monkeypatch):
    made = torch_files._pickled

    def pickled(value, storages, old=False):
        data = made(value, storages, old)
        if isinstance(value, np.ndarray):
            shape, strides = made((2, 3), []), made((3, 1), [])
            start, end = {"shape": (shape, made((2, 1000), [])), "strides": (strides, made((300, 1), [])),
                          "offset": (made(0, []) + shape, made(5, []) + shape)}[change]  # fmt: skip
            assert start in data
            data = data.replace(start, end)
        return data

    monkeypatch.setattr(torch_files, "_pickled", pickled)
    torch_files.save(tmp_path / "weights.pth", {"head.weight": np.ones((2, 3), "float32")})
    with pytest.raises(ValueError, match="expected a torch state dict of plain tensors, received something else"):
        keras_vit.from_pretrained(tmp_path / "weights.pth")


@pytest.mark.parametrize("old", [False, True])
def test_torch_itself_writes_the_same(old, arrays, tmp_path):
    """What torch saves, with all that its scripts put beside the weights, is read bit for bit, halves and views too."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    from torch.nn import Parameter

    state = collections.OrderedDict((name, torch.from_numpy(array)) for name, array in arrays.items())
    state["head.weight"] = Parameter(state["head.weight"].T.contiguous().T)  # other strides
    state["head.bias"] = torch.arange(12.0)[2:8:2]  # in the midst of a storage
    state["norm.weight"] = state["norm.weight"].bfloat16()
    state["norm.bias"] = state["norm.bias"].half()
    optimizer = torch.optim.AdamW([torch.ones(2, requires_grad=True)])
    args = argparse.Namespace(model="vit", out=pathlib.Path("here"), size=torch.Size([2]), device=torch.device("cpu"))
    checkpoint = {"state_dict": state, "args": args, "metric": np.float64(71.5), "optimizer": optimizer.state_dict()}
    checkpoint |= {"seed": np.arange(3), "names": {"a"}, "counts": collections.defaultdict(list, {"a": [1]})}
    path = tmp_path / "weights.pth"
    torch.save(checkpoint, path, _use_new_zipfile_serialization=not old)
    with open_weights(path) as file:
        file.verify(file.shapes)
        assert file.shapes.keys() == state.keys()
        for name, tensor in state.items():
            np.testing.assert_array_equal(file[name].astype("float32"), tensor.detach().float().numpy())
