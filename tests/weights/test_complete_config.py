"""Files whose config states little: the catalogue's row of the tag, the name on the hub or the URL completes it."""

import json

import pytest
from support import randomise

import keras_vit
from keras_vit.cli import main
from keras_vit.models.model_names import require_trained
from keras_vit.weights import complete_config, download, files
from keras_vit.weights.catalogue import file_of
from keras_vit.weights.complete_config import row_of_source
from keras_vit.weights.timm_checkpoints import find_timm_checkpoint, timm_checkpoints

TINY = keras_vit.Variant("tiny", 24, 1, 48, 3, patch_size=8, image_size=16)
URL = "https://dl.fbaipublicfiles.com/deit/deit_tiny_patch16_224-a1311bcf.pth"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a tiny model in timm's layout, which every source means."""
    model = randomise(keras_vit.build(TINY, classes=3, activation="gelu", layer_norm_epsilon=1e-6))
    keras_vit.save_weights(model, tmp_path / "model", layout="timm")
    monkeypatch.setattr(files, "locate", lambda source, verified: tmp_path / "model")
    return tmp_path / "model"


@pytest.mark.parametrize("source", ["hf://timm/deit_tiny_patch16_224.fb_in1k", "deit_tiny_patch16_224.fb_in1k", URL])
def test_a_thin_config_is_completed_by_the_row(source, folder, capsys):
    (folder / "config.json").write_text(json.dumps({"num_classes": 3}))
    model = keras_vit.from_pretrained(source)
    printed = capsys.readouterr().err
    assert (
        "the catalogue's row of 'deit_tiny_patch16_224.fb_in1k' does: architecture='deit_tiny_patch16_224'" in printed
    )
    assert "assumed" not in printed
    block = model.get_layer("encoder_block_00")
    assert (block.num_heads, block.activation) == (3, "gelu")
    spec = model.preprocessing
    assert (spec.interpolation, spec.crop_fraction, spec.mean[0]) == ("bicubic", 0.9, 0.485)


def test_a_full_config_is_not_changed(folder, capsys):
    config = json.loads((folder / "config.json").read_text())
    config["pretrained_cfg"]["mean"] = [0.1] * 3
    (folder / "config.json").write_text(json.dumps(config))
    model = keras_vit.from_pretrained("hf://timm/deit_tiny_patch16_224.fb_in1k")
    assert model.preprocessing.mean == (0.1,) * 3 and "catalogue" not in capsys.readouterr().err


def test_a_tag_that_shares_files_has_its_own_architecture(folder, capsys):
    config = {"architecture": "vit_base_patch32_clip_224", "num_classes": 3}
    (folder / "config.json").write_text(json.dumps(config))
    shared = [row.tag for row in timm_checkpoints() if row.shares_repository]
    assert len(shared) > 10 and all("quickgelu" in tag for tag in shared)
    quick = keras_vit.from_pretrained("vit_base_patch32_clip_quickgelu_224.openai")
    assert quick.get_layer("encoder_block_00").activation == "quick_gelu"
    assert "its config names 'vit_base_patch32_clip_224'; the tag 'vit_base" in capsys.readouterr().err
    plain = keras_vit.from_pretrained("hf://timm/vit_base_patch32_clip_224.openai")
    assert plain.get_layer("encoder_block_00").activation == "gelu"


def test_a_model_of_transformers_without_a_processor_config(folder, tmp_path, monkeypatch):
    model = randomise(keras_vit.build(TINY, classes=3, activation="gelu", layer_norm_epsilon=1e-12))
    keras_vit.save_weights(model, tmp_path / "hf", layout="hf")
    monkeypatch.setattr(files, "locate", lambda source, verified: tmp_path / "hf")
    (tmp_path / "hf" / "preprocessor_config.json").unlink()
    spec = keras_vit.from_pretrained("hf://facebook/vit-msn-small").preprocessing
    assert spec.mean == (0.485, 0.456, 0.406) and spec.interpolation == "bilinear"


def test_rows_of_sources(tmp_path, monkeypatch):
    assert row_of_source("hf://timm/vit_base_patch16_clip_224.openai").tag == "vit_base_patch16_clip_224.openai"
    assert row_of_source("hf://google/vit-base-patch16-224/model.safetensors@main").classes == 1000
    assert row_of_source(URL).tag == "deit_tiny_patch16_224.fb_in1k"
    assert row_of_source("hf://org/name") is row_of_source("ViT_B16") is row_of_source(tmp_path) is None
    for source in ("hf://org/name", URL, "vit_base_patch16_224.mae"):
        assert complete_config.is_published(source)
        require_trained(source)
    assert not complete_config.is_published("vit_base_patch16_224.augreg_in21k")  # a tag of `list_weights`
    monkeypatch.chdir(tmp_path)
    (tmp_path / "vit_base_patch16_224.mae").mkdir()
    assert row_of_source("vit_base_patch16_224.mae") is None  # the folder


def test_a_tag_without_files_on_the_hub_has_those_of_its_publisher(monkeypatch, capsys):
    asked = []
    monkeypatch.setattr(download, "download", lambda released, to=None: asked.append((released.url, to)) or "path")
    row = find_timm_checkpoint("vit_giant_patch16_gap_224.in22k_ijepa")
    assert row.hub is None and file_of(row).place.startswith("dl.fbaipublicfiles.com/ijepa/")
    assert download.locate(row.tag) == "path"
    assert main(["weights", "download", row.tag, "--to", "here"]) == 0
    assert asked == [(row.url, None), (row.url, "here")]
    assert not [row.tag for row in timm_checkpoints() if row.hub is None and not row.url]
    monkeypatch.setattr(download, "_from_hub", lambda source, verified: source)
    capsys.readouterr()
    assert main(["weights", "download", "vit_base_patch16_224.mae"]) == 0
    assert capsys.readouterr().out.strip() == "hf://timm/vit_base_patch16_224.mae"
    assert main(["weights", "download", "vit_base_patch16_224.mae", "--to", "here"]) == 2
