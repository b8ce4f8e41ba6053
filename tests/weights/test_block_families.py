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
    "vit_base_mci_224": {**SIZED, "embed_dim": 768},
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


RESNETS = {  # architecture -> arguments of timm
    "resnetv2_18": {},
    "resnetv2_34d": {},
    "resnetv2_50": {},
    "resnetv2_50d_gn": {},
    "resnetv2_50d_evos": {},
}


@pytest.mark.broad
@pytest.mark.parametrize("name", RESNETS)
def test_a_resnet_of_timm_computes_alike_and_goes_back(name, tmp_path, capsys):
    """At full depth, whose stages the names state. Odd sides pad unevenly."""
    timm = parity.timm()
    torch = pytest.importorskip("torch")
    from safetensors.torch import save_file

    images = np.random.default_rng(0).uniform(-1, 1, (2, 68, 75, 3)).astype("float32")
    torch.manual_seed(0)
    theirs = quietly(lambda: timm.create_model(name, num_classes=5).eval())
    for key, array in theirs.state_dict().items():
        if array.dim() == 1:
            array.copy_(torch.rand_like(array) + 0.5 if "norm" in key else torch.randn_like(array))
    (tmp_path / "model").mkdir()
    save_file(theirs.state_dict(), tmp_path / "model" / "model.safetensors")
    (tmp_path / "model" / "config.json").write_text(json.dumps({"architecture": name, "num_classes": 5}))
    expected = quietly(lambda: theirs(nchw(images)).numpy())
    ours = keras_vit.from_pretrained(tmp_path / "model")
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 1 and said[0].endswith("images are scaled to [-1, 1], as by preprocess_input")
    assert max_difference(ours(images), expected) < 2e-5 * np.abs(expected).max()
    features = quietly(lambda: theirs.forward_features(nchw(images)).numpy()).transpose(0, 2, 3, 1)
    last = keras_vit.feature_model(ours, ["relu"])
    assert max_difference(last(images), features) < 2e-5 * np.abs(features).max()
    keras_vit.save_weights(ours, tmp_path / "back", layout="timm")
    assert not capsys.readouterr().err
    config = json.loads((tmp_path / "back" / "config.json").read_text())
    assert config["architecture"] == name
    again = quietly(lambda: timm.create_model(f"local-dir:{tmp_path / 'back'}", pretrained=True).eval())
    assert max_difference(quietly(lambda: again(nchw(images)).numpy()), expected) < 2e-5 * np.abs(expected).max()
    ours.save(tmp_path / "own.keras")
    assert max_difference(keras_vit.from_pretrained(tmp_path / "own.keras")(images), ours(images)) == 0
    with pytest.raises(ValueError, match="layout 'hf' expected a BiT, received one with"):
        keras_vit.save_weights(ours, tmp_path / "hf", layout="hf")
