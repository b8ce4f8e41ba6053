"""Norms after the branches, parallel blocks, differential attention, grouped queries and NaFlex: files of timm."""

import json

import numpy as np
import parity
import pytest
from parity import nchw, quietly, timm_folder
from support import max_difference

import keras_vit

WIDE = (64, 96)  # height and width of the images: both coordinates count
IMAGES = np.random.default_rng(0).uniform(-1, 1, (2, *WIDE, 3)).astype("float32")
SIZED = {"img_size": list(WIDE)}
SAPIENS = {"depth": 4, "num_kv_heads": [12, 6, 6, 12], "num_classes": 5, **SIZED}
KINDS = {  # architecture -> arguments of timm
    "vit_base_patch16_rpn_224": SIZED,
    "vit_relpos_medium_patch16_rpn_224": SIZED,
    "vit_relpos_base_patch32_plus_rpn_256": {**SIZED, "embed_dim": 112},
    "eva02_enormous_patch14_clip_224": {**SIZED, "patch_size": 16},
    "vit_srelpos_small_patch16_224": SIZED,
    "vit_dwee_patch16_reg1_gap_256": SIZED,
    "vit_pwee_patch16_reg1_gap_256": SIZED,
    "vit_dpwee_patch16_reg1_gap_256": SIZED,
    "vit_base_patch16_sapiens2": SAPIENS,
    "naflexvit_base_patch16_gap": {},
    "naflexvit_base_patch16_par_gap": {},
    "naflexvit_base_patch16_parfac_gap": {},
    "naflexvit_base_patch16_siglip": {},
    "naflexvit_base_patch16_radio_v3": {"pos_embed_grid_size": [24, 24]},
    "naflexvit_huge_patch16_radio_v4": {"pos_embed_grid_size": [24, 24]},
}


# With larger weights a branch is nearly constant over its features, and its norm amplifies timm's own rounding.
STD = {"vit_base_patch16_rpn_224": 0.2}


def folder_of(name, folder):
    """timm's small model of an architecture, and its folder with the config that states the image size."""
    changes = KINDS[name]
    theirs = timm_folder(parity.timm(), name, folder, STD.get(name, 0.5), **changes)
    if name.startswith("naflexvit"):  # its classes, and its images: of no argument's size
        config = json.loads((folder / "config.json").read_text())
        config["model_args"].pop("img_size")
        config["pretrained_cfg"]["input_size"] = [3, *WIDE]
        (folder / "config.json").write_text(json.dumps(config))
    return theirs


@pytest.mark.parametrize("name", KINDS)
def test_a_file_of_timm_computes_alike_and_goes_back(name, tmp_path, capsys):
    timm = parity.timm()
    theirs = folder_of(name, tmp_path / "model")
    expected = quietly(lambda: theirs(nchw(IMAGES)).numpy())
    scale = np.abs(expected).max()
    ours = keras_vit.from_pretrained(tmp_path / "model")
    assert ours.input_shape == (None, *WIDE, 3)
    assert max_difference(ours(IMAGES), expected) < 2e-5 * scale
    features = quietly(lambda: theirs.forward_features(nchw(IMAGES)).numpy())
    names = [layer.name for layer in ours.layers if layer.name.startswith(("encoder_block_", "encoder_norm"))]
    tokens = keras_vit.feature_model(ours, [max(names)])(IMAGES)
    assert max_difference(tokens, features) < 2e-5 * np.abs(features).max()
    assert "assumed" not in capsys.readouterr().err
    keras_vit.save_weights(ours, tmp_path / "back", layout="timm")
    assert not capsys.readouterr().err
    again = quietly(lambda: timm.create_model(f"local-dir:{tmp_path / 'back'}", pretrained=True).eval())
    assert max_difference(quietly(lambda: again(nchw(IMAGES)).numpy()), expected) < 2e-5 * scale
    assert max_difference(keras_vit.from_pretrained(tmp_path / "back")(IMAGES), ours(IMAGES)) == 0
    ours.save(tmp_path / "own.keras")
    assert max_difference(keras_vit.from_pretrained(tmp_path / "own.keras")(IMAGES), ours(IMAGES)) == 0
