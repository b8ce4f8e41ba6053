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


@pytest.mark.parametrize("strict", [True, False])
def test_a_decoder_and_a_projection_head_are_left_out(strict, tmp_path, capsys):
    decoder = {f"decoder_blocks.{i}.norm1.weight": np.ones(8, "float32") for i in range(2)}
    decoder |= {"mask_token": np.ones((1, 1, 8), "float32"), "decoder_pred.weight": np.ones((8, 8), "float32")}
    path = save(tmp_path / "mae.safetensors", t1_arrays() | decoder)
    assert logits_differ(keras_vit.from_pretrained(path, num_heads=3, strict=strict)) < 2e-5
    left = "ignored arrays of the file: decoder_blocks (2 arrays), decoder_pred, mask_token"
    assert left in capsys.readouterr().err
    headless = {name: array for name, array in t1_arrays().items() if not name.startswith("head.")}
    path = save(tmp_path / "dino.safetensors", headless | {"head.mlp.0.weight": np.ones((8, 48), "float32")})
    model = keras_vit.from_pretrained(path, num_heads=3, strict=False, include_top=True, classes=9)
    said = capsys.readouterr().err
    assert "ignored arrays of the file: head\n" in said
    assert "not in the file, so they keep their initial values: head/kernel, head/bias" in said
    assert not np.asarray(model.get_layer("head").kernel).any()


def test_what_the_answers_depend_on_may_not_be_left_out(tmp_path):
    model = keras_vit.from_pretrained(T1, num_heads=3)
    sentences = {
        "blocks.1.attn.proj.bias": "unsupported parts: dense layers without bias",
        "cls_token": "missing from the file: class_token/token",
        "norm.bias": "unsupported parts: RMSNorm",
        "pos_embed": "missing from the file: position_embedding/embedding",
        "blocks.0.extra.weight": "left over in the file: blocks.0.extra.weight",
        "input_norm.mean": "left over in the file: input_norm.mean",
    }
    for name, sentence in sentences.items():
        arrays = t1_arrays()
        if arrays.pop(name, None) is None:
            arrays[name] = np.ones(48, "float32")
        with pytest.raises(ValueError) as error:
            keras_vit.load_weights(model, save(tmp_path / "t1.safetensors", arrays), strict=False)
        assert sentence in str(error.value) and "\n" not in str(error.value)
    assert logits_differ(model) < 2e-5


def test_a_representation_layer_under_a_classifier_may_not_be_left_out():
    with pytest.raises(ValueError, match="left over in the file: pre_logits/bias, pre_logits/kernel; strict=False"):
        keras_vit.from_pretrained(GOLDENS / "g2.weights.npz", representation_size=None, strict=False)
