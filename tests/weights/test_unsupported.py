"""Files of models with parts that this package does not have: one sentence names the parts."""

import json

import numpy as np
import pytest
from support import GOLDENS

import keras_vit
from keras_vit.cli import main
from keras_vit.weights.timm_architectures import timm_architectures

T1 = GOLDENS / "t1.weights.safetensors"
GAMMA, KERNEL = np.ones(48, "float32"), np.ones((48, 48), "float32")


def write(folder, arrays, config=None):
    pytest.importorskip("safetensors.numpy").save_file(arrays, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(config or {}))
    return folder


def changed(added=(), without=()):
    arrays = pytest.importorskip("safetensors.numpy").load_file(T1)
    return {name: array for name, array in arrays.items() if name not in without} | dict(added)


ADDED = {
    "LayerScale": {"layer.0.layer_scale1.lambda1": GAMMA},  # transformers' names
    "a distillation token without a classifier": {"dist_token": GAMMA[None, None]},
    "a classifier of the class token beside a distillation token": {
        "deit.embeddings.distillation_token": GAMMA[None, None],
        "classifier.weight": KERNEL,
    },
    "decomposed or other relative position biases": {
        "encoder.layer.0.attention.rel_pos_h": np.ones((7, 16), "float32")
    },
    "rotary position embedding (RoPE)": {"rope.periods": GAMMA},
    "a gated MLP (SwiGLU)": {"blocks.0.ffn.gate_proj.weight": KERNEL},
    "a norm inside attention or the MLP": {"blocks.0.mlp.ffn_ln.weight": GAMMA, "blocks.0.mlp.ffn_ln.bias": GAMMA},
    "query, key and value apart": {"encoder.0.attn.q_proj.weight": KERNEL, "encoder.0.attn.q_proj.bias": GAMMA},
    "a norm of query and key": {"encoder.0.attn.q_norm.weight": GAMMA},
    "a norm before the first block (CLIP)": {"visual.ln_pre.weight": GAMMA, "visual.ln_pre.bias": GAMMA},
    "batch norm": {"patch_embed.bn.running_mean": GAMMA, "patch_embed.bn.num_batches_tracked": np.full((), 5, "int64")},
}
LEFT_OUT = {
    "RMSNorm": ["blocks.0.norm1.bias"],
    "no final norm": ["norm.weight", "norm.bias"],
    "dense layers without bias": ["blocks.0.attn.proj.bias"],
}


@pytest.mark.parametrize("strict", [True, False])
def test_a_file_says_which_part_is_not_supported(strict, tmp_path):
    files = {part: changed(added) for part, added in ADDED.items()}
    files |= {part: changed(without=names) for part, names in LEFT_OUT.items()}
    for part, arrays in files.items():
        with pytest.raises(ValueError, match="unsupported parts") as error:
            keras_vit.from_pretrained(write(tmp_path, arrays), num_heads=3, strict=strict)
        assert f"{part} (" in str(error.value) and "\n" not in str(error.value)


def test_a_model_that_is_there_is_not_filled_from_such_a_file(tmp_path):
    model = keras_vit.build(keras_vit.Variant("t1", 48, 3, 120, 3, 8, image_size=32), classes=9)
    before = model.get_weights()
    folder = write(tmp_path, changed(ADDED["LayerScale"] | ADDED["a norm of query and key"]))
    with pytest.raises(ValueError, match=r"LayerScale \(.*\), a norm of query and key \(.*\)\."):
        keras_vit.load_weights(model, folder, strict=False)
    assert all((old == new).all() for old, new in zip(before, model.get_weights(), strict=True))


def test_weights_show_names_the_parts_beside_what_it_can_read(tmp_path, capsys):
    assert main(["weights", "show", str(write(tmp_path, changed(ADDED["LayerScale"])))]) in (0, None)
    shown = capsys.readouterr().out
    assert "not supported: LayerScale (layer.0.layer_scale1.lambda1)" in shown and "head/kernel" in shown


def test_every_row_of_the_table_can_be_built_or_names_what_is_missing():
    rows = timm_architectures()
    assert len(rows) == 292
    for row in rows.values():
        assert row.num_heads > 0 and row.layer_norm_epsilon in (1e-6, 1e-5)
        assert row.activation in ("gelu", "gelu_tanh", "quick_gelu", "relu", "silu")
        assert row.pooling in ("token", "gap", "map", None)
