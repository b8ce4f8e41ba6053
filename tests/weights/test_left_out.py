"""What a load leaves out of a file: buffers, heads, decoders, the copy of the weights that it did not read."""

import numpy as np
import pytest
from support import GOLDENS, golden, max_difference

import keras_vit

T1 = GOLDENS / "t1.weights.safetensors"


def t1_arrays():
    return pytest.importorskip("safetensors.numpy").load_file(T1)


def save(path, arrays):
    pytest.importorskip("safetensors.numpy").save_file(arrays, path)
    return path


def logits_differ(model):
    return max_difference(model(golden("t1")["images"]), golden("t1")["logits"])


def test_integer_buffers_do_not_refuse_a_file(tmp_path):
    buffers = {"n_averaged": np.full((), 7, "int64"), "position_ids": np.arange(17, dtype="int32")[None]}
    path = save(tmp_path / "t1.safetensors", t1_arrays() | buffers)
    model = keras_vit.from_pretrained(path, num_heads=3)
    assert logits_differ(model) < 2e-5
    weights = t1_arrays() | {"blocks.0.attn.qkv.weight": np.ones((144, 48), "int8")}
    with pytest.raises(ValueError, match="expected arrays of floats, received dtype I8 for 'blocks.0.attn.qkv.weight'"):
        keras_vit.from_pretrained(save(tmp_path / "int8.safetensors", weights), num_heads=3)


def test_a_file_with_weights_and_their_average_says_which_was_read(tmp_path, capsys):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    averaged = {name: torch.from_numpy(array) for name, array in t1_arrays().items()}
    plain = {name: torch.zeros_like(tensor) for name, tensor in averaged.items()}
    torch.save({"state_dict": plain, "state_dict_ema": averaged}, tmp_path / "run.pth")
    model = keras_vit.from_pretrained(tmp_path / "run.pth", num_heads=3)
    sentence = "the file holds 'state_dict_ema' and 'state_dict'; 'state_dict_ema' was read"
    assert sentence in capsys.readouterr().err
    assert logits_differ(model) < 2e-5
    assert sentence in keras_vit.load_weights(model, tmp_path / "run.pth").notes
