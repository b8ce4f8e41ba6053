"""Checkpoints as the authors' own code names them, made of timm's models by renaming: these codes are no packages.

Where timm itself converts such a file, its converter reads ours, too, so that the renaming is not only ours.
"""

import json
import re

import numpy as np
import parity
import pytest
import torch_files
from parity import nchw, quietly, timm_folder
from support import max_difference
from torch_files import Made

import keras_vit

IMAGES = np.random.default_rng(0).uniform(-1, 1, (2, 64, 64, 3)).astype("float32")
OPTIONS = {"activation": "gelu", "layer_norm_epsilon": 1e-6}
ARGUMENTS = Made("argparse", "Namespace", {"arch": "vit_small", "patch_size": 16})
RNG = np.random.default_rng(1)


def peer(name, folder, **changes):
    """A small model of timm, and its arrays by name."""
    model = timm_folder(parity.timm(), name, folder / "timm", **changes)
    return model, {key: tensor.numpy() for key, tensor in model.state_dict().items()}


def renamed(arrays, *pairs, prefix=""):
    """The arrays with each (pattern, replacement) in their names."""
    found = {}
    for name, array in arrays.items():
        for pattern, new in pairs:
            name = re.sub(pattern, new, name)
        found[prefix + name] = array
    return found


def noise(*shape):
    return RNG.normal(size=shape).astype("float32")


def agrees(ours, theirs, read=lambda answer: answer):
    expected = quietly(lambda: read(theirs(nchw(IMAGES))).numpy())
    assert max_difference(ours(IMAGES), expected) < 2e-5 * np.abs(expected).max()


def timm_takes(theirs, state, tmp_path):
    """timm's own converter reads the file into a model of the same answers."""
    import torch
    from timm.models.vision_transformer import checkpoint_filter_fn

    tensors = {name: torch.from_numpy(np.array(array)) for name, array in state.items()}
    converted = quietly(lambda: checkpoint_filter_fn(tensors, theirs))
    for name, tensor in theirs.state_dict().items():
        np.testing.assert_array_equal(converted[name].reshape(tensor.shape).numpy(), tensor.numpy(), err_msg=name)


OPENCLIP = (
    (r"^cls_token$", "class_embedding"), (r"^pos_embed$", "positional_embedding"),
    (r"^patch_embed\.proj\.", "conv1."), (r"^norm_pre\.", "ln_pre."), (r"^norm\.", "ln_post."),
    (r"^blocks\.", "transformer.resblocks."), (r"\.norm(\d)\.", r".ln_\1."), (r"attn\.qkv\.", "attn.in_proj_"),
    (r"attn\.proj\.", "attn.out_proj."), (r"mlp\.fc1", "mlp.c_fc"), (r"mlp\.fc2", "mlp.c_proj"),
)  # fmt: skip


@pytest.mark.parametrize("quick", [True, False])
def test_open_clips_folder(quick, tmp_path, capsys):
    name = f"vit_base_patch16_clip{'_quickgelu' * quick}_224"
    theirs, arrays = peer(name, tmp_path, num_heads=6)
    theirs.head.bias.data.zero_()
    projection = arrays.pop("head.weight")
    del arrays["head.bias"]
    arrays |= {"cls_token": arrays["cls_token"][0, 0], "pos_embed": arrays["pos_embed"][0]}
    state = renamed(arrays, *OPENCLIP, prefix="visual.") | {"visual.proj": projection.T}
    timm_takes(theirs, state, tmp_path)
    text = {"positional_embedding": noise(77, 96), "token_embedding.weight": noise(50, 96), "logit_scale": noise(1)}
    text |= {
        "transformer.resblocks.0.ln_1.weight": noise(96),
        "ln_final.weight": noise(96),
        "text_projection": noise(96, 5),
    }
    config = {
        "model_cfg": {
            "embed_dim": 5,
            "quick_gelu": quick,
            "vision_cfg": {"image_size": 64, "layers": 2, "width": 96, "head_width": 16, "patch_size": 16},
        },
        "preprocess_cfg": {
            "mean": [0.48, 0.46, 0.41],
            "std": [0.27, 0.26, 0.28],
            "interpolation": "bicubic",
            "resize_mode": "shortest",
        },
    }
    torch_files.save(tmp_path / "open_clip_pytorch_model.bin", state | text)
    (tmp_path / "open_clip_config.json").write_text(json.dumps(config))
    capsys.readouterr()
    ours = keras_vit.from_pretrained(tmp_path / "open_clip_pytorch_model.bin")
    agrees(ours, theirs)
    said = capsys.readouterr().err
    assert "token_embedding" in said and "assumed" not in said
    assert ours.preprocessing.mean == (0.48, 0.46, 0.41) and ours.preprocessing.interpolation == "bicubic"


def test_a_tower_of_timm_in_open_clip(tmp_path):
    theirs, arrays = peer("vit_base_patch16_siglip_224", tmp_path, num_classes=0)
    state = {f"visual.trunk.{name}": array for name, array in arrays.items()} | {
        "text.token_embedding.weight": noise(5, 8)
    }
    timm_takes(theirs, state, tmp_path)
    torch_files.save(tmp_path / "open_clip_pytorch_model.bin", state | {"logit_bias": noise(1)})
    config = {"model_cfg": {"vision_cfg": {"timm_model_name": "vit_base_patch16_siglip_224", "timm_pool": "map"}}}
    (tmp_path / "open_clip_config.json").write_text(json.dumps(config))
    agrees(keras_vit.from_pretrained(tmp_path / "open_clip_pytorch_model.bin"), theirs)
    (tmp_path / "open_clip_config.json").write_text(json.dumps({"vision_cfg": {"attentional_pool": True, "width": 96}}))
    with pytest.raises(ValueError, match="expected 'attentional_pool' to be False, received True"):
        keras_vit.from_pretrained(tmp_path / "open_clip_pytorch_model.bin")


@pytest.mark.parametrize("which", ["teacher", "student", "both"])
def test_dinos_teacher_and_student(which, tmp_path, capsys):
    theirs, arrays = peer("vit_small_patch16_224", tmp_path, num_classes=0, num_heads=6)
    head = {
        "head.mlp.0.weight": noise(8, 96),
        "head.last_layer.weight_g": noise(9, 1),
        "head.last_layer.weight_v": noise(9, 8),
    }
    teacher = {f"backbone.{name}": array for name, array in arrays.items()} | head
    student = {f"module.{name}": array for name, array in teacher.items()}
    kinds = {"teacher": {"teacher": teacher}, "student": {"student": student}}
    other = {name: array + 1 for name, array in student.items()}
    kinds["both"] = {"student": other, "teacher": teacher}
    torch_files.save(tmp_path / "checkpoint.pth", {**kinds[which], "epoch": 3, "args": ARGUMENTS, "optimizer": {}})
    agrees(keras_vit.from_pretrained(tmp_path / "checkpoint.pth", num_heads=6), theirs)
    said = capsys.readouterr().err
    assert "head" in said and ("'teacher' was read" in said) == (which == "both")


@pytest.mark.parametrize("linear", [True, False])
def test_moco_v3(linear, tmp_path, capsys):
    """Its S has 12 heads, which the file itself tells by its `arch`."""
    theirs, arrays = peer("vit_small_patch16_224", tmp_path, embed_dim=384, num_heads=12, num_classes=5 * linear)
    if linear:
        state = {f"module.{name}": array for name, array in arrays.items()}
    else:
        state = {f"module.base_encoder.{name}": array for name, array in arrays.items()}
        state |= {f"module.momentum_encoder.{name}": array + 1 for name, array in arrays.items()}
        state |= {
            "module.base_encoder.head.0.weight": noise(8, 384),
            "module.base_encoder.head.1.running_mean": noise(8),
        }
        state |= {"module.predictor.0.weight": noise(8, 8), "module.predictor.1.running_var": noise(8)}
    checkpoint = {"epoch": 3, "arch": "vit_small", "state_dict": state, "optimizer": {}, "scaler": {}}
    torch_files.save(tmp_path / "vit-s.pth.tar", checkpoint)
    agrees(keras_vit.from_pretrained(tmp_path / "vit-s.pth.tar"), theirs)
    assert ("momentum_encoder" in capsys.readouterr().err) != linear


def test_an_architecture_in_timms_own_checkpoint_is_read(tmp_path, capsys):
    theirs, arrays = peer("vit_so400m_patch14_siglip_gap_224", tmp_path, embed_dim=96, num_heads=16)
    state = {"epoch": 1, "arch": "vit_so400m_patch14_siglip_gap_224", "state_dict": arrays}
    torch_files.save(tmp_path / "best.pth.tar", state)
    agrees(keras_vit.from_pretrained(tmp_path / "best.pth.tar", input_shape=(64, 64, 3)), theirs)
    assert "neither the file nor its config" not in capsys.readouterr().err


def test_maes_encoder_out_of_pretraining(tmp_path, capsys):
    theirs, arrays = peer("vit_base_patch16_224.mae", tmp_path, num_classes=0, num_heads=6)
    decoder = {"mask_token": noise(1, 1, 8), "decoder_pos_embed": noise(1, 17, 8), "decoder_embed.weight": noise(8, 96)}
    decoder |= {"decoder_blocks.0.attn.qkv.weight": noise(24, 8), "decoder_pred.weight": noise(9, 8)}
    torch_files.save(tmp_path / "mae.pth", {"model": arrays | decoder, "args": ARGUMENTS, "epoch": 3})
    agrees(keras_vit.from_pretrained(tmp_path / "mae.pth", num_heads=6), theirs)
    assert "decoder_blocks" in capsys.readouterr().err


def test_ijepas_encoder(tmp_path, capsys):
    theirs, arrays = peer("vit_huge_patch14_gap_224", tmp_path, num_heads=6, patch_size=16, fc_norm=False)
    arrays = {name: array for name, array in arrays.items() if not name.startswith("head")}
    wrapped = {f"module.{name}": array for name, array in arrays.items()}
    state = {
        "encoder": wrapped,
        "target_encoder": {name: array + 1 for name, array in wrapped.items()},
        "predictor": {},
    }
    torch_files.save(tmp_path / "IN1K-vit.h.14-300e.pth.tar", state)
    ours = keras_vit.from_pretrained(tmp_path / "IN1K-vit.h.14-300e.pth.tar", num_heads=6)
    expected = quietly(lambda: theirs.forward_features(nchw(IMAGES)).mean(axis=1).numpy())
    assert max_difference(ours(IMAGES), expected) < 2e-5 * np.abs(expected).max()
    assert "'encoder' was read" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["vit_small_patch16_dinov3_qkvb", "vit_small_plus_patch16_dinov3_qkvb"])
def test_metas_dinov3(name, tmp_path, capsys):
    """Heads, epsilon and rotary positions follow from the names. A mask removes the bias of the keys."""
    theirs, arrays = peer(name, tmp_path, num_classes=0)
    heads = theirs.blocks[0].attn.num_heads
    pairs = [
        (r"^reg_token$", "storage_tokens"),
        (r"gamma_(\d)$", r"ls\1.gamma"),
        (r"mlp\.fc1_g", "mlp.w1"),
        (r"mlp\.fc1_x", "mlp.w2"),
    ]
    pairs += [(r"mlp\.fc2", "mlp.w3")] if "plus" in name else []
    state = {}
    for key, array in renamed(arrays, *pairs).items():
        if key.endswith(("q_bias", "v_bias", "k_bias")):
            continue
        state[key] = array
    for i, block in enumerate(theirs.blocks):
        query, value = (getattr(block.attn, f"{word}_bias").detach().numpy() for word in "qv")
        state[f"blocks.{i}.attn.qkv.bias"] = np.concatenate([query, noise(96), value])
        state[f"blocks.{i}.attn.qkv.bias_mask"] = np.repeat([1, 0, 1], 96).astype("float32")
    state |= {"mask_token": noise(1, 96), "local_cls_norm.weight": noise(96), "local_cls_norm.bias": noise(96)}
    state["rope_embed.periods"] = (100 ** (np.arange(96 // heads // 4) * 4 / (96 // heads))).astype("float32")
    torch_files.save(tmp_path / "dinov3.pth", state)
    ours = keras_vit.from_pretrained(tmp_path / "dinov3.pth", input_shape=(64, 64, 3))
    expected = quietly(lambda: theirs.forward_features(nchw(IMAGES))[:, 0].numpy())
    assert max_difference(ours(IMAGES), expected) < 2e-5 * np.abs(expected).max()
    assert "assumed, because neither" not in capsys.readouterr().err


def test_beits_pretraining_shares_its_biases(tmp_path, capsys):
    theirs, arrays = peer("beit_base_patch16_224", tmp_path, num_heads=6)
    tables = [name for name in arrays if name.endswith("relative_position_bias_table")]
    table = arrays[tables[0]]
    for block in theirs.blocks:
        block.attn.relative_position_bias_table.data.copy_(theirs.blocks[0].attn.relative_position_bias_table)
    state = {name: array for name, array in arrays.items() if name not in tables and "index" not in name}
    state |= {"rel_pos_bias.relative_position_bias_table": table, "mask_token": noise(1, 1, 96)}
    state |= {"lm_head.weight": noise(9, 96), "lm_head.bias": noise(9)}
    torch_files.save(tmp_path / "beit.pth", {"model": state})
    agrees(keras_vit.from_pretrained(tmp_path / "beit.pth", num_heads=6), theirs)
    assert "lm_head" in capsys.readouterr().err


def test_paligemmas_tower(tmp_path, capsys):
    """Its projection to the language model is the classifier of big_vision's ViT, which reads every token."""
    row = keras_vit.Variant("tiny", 24, 2, 48, 3, patch_size=8, image_size=32)
    model = keras_vit.build(row, include_top=False, pooling=None, class_token=False)
    keras_vit.save_weights(model, tmp_path / "plain.npz", layout="linen")
    arrays = dict(np.load(tmp_path / "plain.npz"))
    names = {"Transformer/posembed_input/pos_embedding": "pos_embedding"}
    state = {f"params/img/{names.get(name, name)}": array for name, array in arrays.items()}
    state |= {"params/img/head/kernel": noise(24, 7), "params/img/head/bias": noise(7)}
    state |= {"params/llm/embedder/input_embedding": noise(5, 7), "params/llm/layers/attn/q_einsum/w": noise(2, 3, 4)}
    np.savez(tmp_path / "paligemma.npz", **state)
    ours = keras_vit.from_pretrained(tmp_path / "paligemma.npz", num_heads=3)
    images = IMAGES[:, :32, :32]
    assert max_difference(ours(images), model(images)) < 1e-6
    assert "llm" in capsys.readouterr().err
