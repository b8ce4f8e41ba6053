"""Rotary positions, relative biases and biases of some projections: files of timm, read and written."""

import json
from dataclasses import replace

import numpy as np
import parity
import pytest
from parity import nchw, quietly, timm_folder
from support import max_difference

import keras_vit
from keras_vit.weights.timm_architectures import timm_architectures
from keras_vit.weights.timm_models import rope_of_timm

IMAGES = np.random.default_rng(0).uniform(-1, 1, (2, 64, 96, 3)).astype("float32")
WIDE = [64, 96]  # height and width of the images: both coordinates count
KINDS = (
    "vit_small_patch16_rope_224",
    "vit_small_patch16_rope_ape_224",
    "vit_small_patch16_rope_mixed_224",
    "vit_small_patch16_rope_mixed_ape_224",
    "vit_small_patch16_dinov3",
    "vit_small_patch16_dinov3_qkvb",
    "vit_small_patch16_lingbot",
    "vit_base_patch16_rope_reg1_gap_256",
    "vit_mediumd_patch16_rope_reg1_gap_256",
    "eva_giant_patch14_224",
    "eva_giant_patch14_clip_224",
    "eva02_small_patch14_224",
    "eva02_base_patch14_224",
    "eva02_base_patch16_clip_224",
    "vit_small_plus_patch16_dinov3",
    "vit_giant_patch16_lingbot",
    "vit_pe_spatial_tiny_patch16_512",
    "vit_pe_core_base_patch16_224",
    "beit_base_patch16_224",
    "beitv2_base_patch16_224",
    "vit_relpos_small_patch16_224",
    "vit_relpos_medium_patch16_cls_224",
    "vit_relpos_base_patch16_clsgap_224",
)


@pytest.mark.parametrize("name", KINDS)
def test_a_file_of_timm_computes_alike_and_goes_back(name, tmp_path, capsys):
    timm = parity.timm()
    theirs = timm_folder(timm, name, tmp_path / "model", img_size=WIDE)
    expected = quietly(lambda: theirs(nchw(IMAGES)).numpy())
    ours = keras_vit.from_pretrained(tmp_path / "model")
    assert max_difference(ours(IMAGES), expected) < 2e-5 * np.abs(expected).max()
    assert "assumed" not in capsys.readouterr().err
    keras_vit.save_weights(ours, tmp_path / "back", layout="timm")
    assert not capsys.readouterr().err
    again = quietly(lambda: timm.create_model(f"local-dir:{tmp_path / 'back'}", pretrained=True).eval())
    assert max_difference(quietly(lambda: again(nchw(IMAGES)).numpy()), expected) < 2e-5 * np.abs(expected).max()
    assert max_difference(keras_vit.from_pretrained(tmp_path / "back")(IMAGES), ours(IMAGES)) == 0
    ours.save(tmp_path / "own.keras")
    assert max_difference(keras_vit.from_pretrained(tmp_path / "own.keras")(IMAGES), ours(IMAGES)) == 0


@pytest.mark.parametrize("name", ["vit_small_patch16_rope_mixed_224", "vit_small_patch16_dinov3"])
def test_rotary_positions_follow_the_image_size(name, tmp_path):
    """timm's model of another size computes the same as ours, whether our size is fixed or free."""
    timm = parity.timm()
    theirs = timm_folder(timm, name, tmp_path / "model", img_size=WIDE)
    larger = np.random.default_rng(1).uniform(-1, 1, (1, 96, 80, 3)).astype("float32")
    quietly(lambda: theirs.set_input_size((96, 80)))
    expected = quietly(lambda: theirs(nchw(larger)).numpy())
    for shape in ((96, 80, 3), (None, None, 3)):
        ours = keras_vit.from_pretrained(tmp_path / "model", input_shape=shape)
        assert max_difference(ours(larger), expected) < 2e-5 * np.abs(expected).max()


@pytest.mark.parametrize("name", ["beit_base_patch16_224", "vit_relpos_medium_patch16_cls_224"])
def test_relative_biases_are_resized_as_timm_resizes_them(name, tmp_path, capsys):
    timm = parity.timm()
    theirs = timm_folder(timm, name, tmp_path / "model")
    quietly(lambda: theirs.set_input_size((96, 160)))
    larger = np.random.default_rng(1).uniform(-1, 1, (1, 96, 160, 3)).astype("float32")
    expected = quietly(lambda: theirs(nchw(larger)).numpy())
    ours = keras_vit.from_pretrained(tmp_path / "model", input_shape=(96, 160, 3))
    assert max_difference(ours(larger), expected) < 2e-5 * np.abs(expected).max()
    resized = "relative biases resized from (4, 4) to (6, 10) as in timm" in capsys.readouterr().err
    assert resized == name.startswith("beit")


def test_a_table_of_a_grid_that_is_not_square_needs_the_grid(tmp_path):
    timm = parity.timm()
    timm_folder(timm, "beit_base_patch16_224", tmp_path / "model", img_size=WIDE)
    with pytest.raises(ValueError, match=r"of another shape: blocks.0.attn.relative_position_bias_table"):
        keras_vit.from_pretrained(tmp_path / "model", input_shape=(96, 96, 3))
    resized = keras_vit.from_pretrained(tmp_path / "model", input_shape=(96, 96, 3), source_grid=(4, 6))
    assert resized.input_shape == (None, 96, 96, 3)


@pytest.mark.parametrize(
    ("changes", "options", "sentence"),
    [
        ({"qkv_bias": "kv"}, {}, r"qkv_bias expected one of \('qkv', 'qv', 'none'\), received 'kv'"),
        ({"relative_bias": "table", "registers": 2}, {}, "relative_bias expected 'mlp' or None with 3 tokens in front"),
        (
            {"relative_bias": "mlp"},
            {"input_shape": (None, None, 3)},
            "input_shape expected a known size with relative_bias",
        ),
        (
            {"rope": keras_vit.Rope(), "width": 18},
            {},
            "rope expected heads of a width that is a multiple of 4, received 6",
        ),
        ({"rope": keras_vit.Rope(order="zx")}, {}, r"order expected one of \('yx', 'xy'\), received 'zx'"),
        ({"rope": keras_vit.Rope(), "axial": True}, {"pooling": "gap"}, "rope expected None with axial blocks"),
    ],
)
def test_a_row_with_parts_that_do_not_go_together_is_refused(changes, options, sentence):
    row = keras_vit.Variant("tiny", 24, 2, 48, 3, patch_size=8, image_size=32)
    with pytest.raises(ValueError, match=sentence):
        keras_vit.build(replace(row, **changes), classes=3, **options)


def test_rotary_positions_are_read_from_a_config_as_timm_states_them():
    stated = {"use_rot_pos_emb": True, "rope_temperature": 50, "rope_rotate_half": True, "ref_feat_shape": 7}
    rope = rope_of_timm({"architecture": "vit_base_patch16_224", "model_args": stated})
    assert (rope["temperature"], rope["pairs"], rope["reference_grid"]) == (50.0, "halves", (7, 7))
    assert rope_of_timm({"architecture": "vit_base_patch16_224"}) is None
    off = {"architecture": "vit_small_patch16_dinov3", "model_args": {"use_rot_pos_emb": False}}
    assert rope_of_timm(off) is None
    with pytest.raises(ValueError, match=r"expected a known 'model_args.rope_grid_indexing', received 'yx'"):
        rope_of_timm({"architecture": "vit_small_patch16_dinov3", "model_args": {"rope_grid_indexing": "yx"}})


def test_a_file_without_positions_whose_config_names_no_rotary_model_is_refused(tmp_path):
    timm_folder(parity.timm(), "vit_small_patch16_dinov3", tmp_path / "model")
    config = json.loads((tmp_path / "model" / "config.json").read_text())
    (tmp_path / "model" / "config.json").write_text(json.dumps({**config, "architecture": "vit_small_patch16_224"}))
    with pytest.raises(
        ValueError, match="source expected a position embedding, or a config that names a model with rotary"
    ):
        keras_vit.from_pretrained(tmp_path / "model")


def test_eva_02_without_a_config_is_refused(tmp_path):
    timm_folder(parity.timm(), "eva02_small_patch14_224", tmp_path / "model")
    (tmp_path / "model" / "config.json").unlink()
    with pytest.raises(ValueError, match="no array shows whether a model like EVA-02 has rotary positions"):
        keras_vit.from_pretrained(tmp_path / "model", num_heads=6)


@pytest.mark.large
def test_every_architecture_of_timm_has_the_rotary_positions_of_the_table():
    timm = parity.timm()
    import torch

    found = 0
    for name in timm_architectures():
        with torch.device("meta"):
            model = quietly(lambda name=name: timm.create_model(name))
        theirs, ours = getattr(model, "rope", None), rope_of_timm({"architecture": name})
        assert (theirs is None) == (ours is None), name
        if theirs is None:
            continue
        found += 1
        kind = type(theirs).__name__
        assert ours["temperature"] == theirs.temperature and ours["order"] == {"ij": "yx"}.get(
            theirs.grid_indexing, "xy"
        )
        assert ours["learned"] == (kind == "RotaryEmbeddingMixed"), name
        assert (ours["coordinates"] == "centers") == (kind == "RotaryEmbeddingDinoV3"), name
        assert ours["offset"] == getattr(theirs, "grid_offset", 0), name
        assert ours["reference_grid"] == getattr(theirs, "ref_feat_shape", None), name
        assert (ours["pairs"] == "halves") == getattr(theirs, "rotate_half", False), name
    assert found == 60
