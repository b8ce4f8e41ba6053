"""The published files: tags, names, grammar, index."""

import json
import re

import numpy as np
import pytest

import keras_vit
from keras_vit.cli import main
from keras_vit.models.variants import find_variant
from keras_vit.weights import download, unsupported
from keras_vit.weights import timm_checkpoints as timm_module
from keras_vit.weights.catalogue import AugReg, find_released, list_weights, parse_augreg
from keras_vit.weights.find import find
from keras_vit.weights.released import RELEASED
from keras_vit.weights.timm_checkpoints import TIMM_RESULTS, find_timm_checkpoint, timm_checkpoints


def test_every_tag_and_alias_means_one_file():
    names = [name for row in RELEASED for name in (row.tag, *row.aliases)]
    assert len(set(names)) == len(names)
    assert len({row.path for row in RELEASED}) == len(RELEASED)
    for row in RELEASED:
        assert all(find_released(name) is row for name in (row.tag, *row.aliases))


def test_every_file_is_of_a_model_whose_timm_name_its_tag_has():
    for row in RELEASED:
        variant, tag = find_variant(row.tag)
        assert variant.name == row.model and row.tag.endswith("." + tag)
        assert row.image_size is None or variant.image_size == row.image_size
        assert (row.accuracy is None) == (row.source is None)


def test_tags_are_timms_and_so_are_their_files():
    import parity

    timm = parity.timm()
    known, compared = set(timm.list_pretrained()), 0
    for row in RELEASED:
        cfg = timm.models.get_pretrained_cfg(row.tag) if row.tag in known else None
        if cfg is None or "googleapis" not in (cfg.url or ""):
            continue
        compared += 1
        assert row.url == cfg.url and row.classes == cfg.num_classes and row.image_size == cfg.input_size[-1]
    assert compared > 30


def test_official_folders_are_complete():
    folders = {"imagenet21k": 9, "imagenet21k+imagenet2012": 8, "sam": 5}
    for folder, count in folders.items():
        assert sum(row.path.startswith(f"vit_models/{folder}/") for row in RELEASED) == count
    assert sum(row.path.startswith("bit_models/BiT-") for row in RELEASED) == 24
    zeros = {row.path.rpartition("/")[2] for row in RELEASED if "zeros" in row.note}
    assert zeros == {"ViT-L_32.npz", "ViT-H_14.npz"}


def test_lists_by_builder_and_by_pattern():
    assert "vit_base_patch16_224.augreg_in21k" in list_weights("ViT_B16")
    assert list_weights("*.sam_in1k") == [row.tag for row in RELEASED if "sam/" in row.path]
    assert len(keras_vit.list_weights()) == len(RELEASED)
    assert list_weights("ViT_B17") == []


NAME = "B_16-i21k-300ep-lr_0.001-aug_medium1-wd_0.1-do_0.0-sd_0.1"


def test_augregs_grammar():
    upstream = ("B_16", "i21k", 300, 0.001, "medium1", 0.1, 0.0, 0.1)
    assert parse_augreg(NAME) == AugReg(*upstream)
    adapted = parse_augreg(f"augreg/{NAME}--oxford_iiit_pet-steps_0k-lr_0.003-res_384.npz")
    assert adapted == AugReg(*upstream, "oxford_iiit_pet", 500, 0.003, 384)
    hybrid = parse_augreg("R_Ti_16-i21k-30ep-lr_0.001-aug_light0-wd_0.03-do_0.1-sd_0.1")
    assert (hybrid.name, hybrid.epochs, hybrid.augmentation) == ("R_Ti_16", 30, "light0")
    for broken in (NAME[:-4], NAME + "--cifar100", "X_16" + NAME[4:], NAME + "/../../x", "../" + NAME):
        assert parse_augreg(broken) is None


def test_any_name_of_the_grammar_is_a_file():
    row = find_released(f"{NAME}--cifar100-steps_10k-lr_0.01-res_224")
    assert (row.model, row.classes, row.image_size) == ("ViT_B16", 100, 224)
    assert row.url.endswith(f"/vit_models/augreg/{NAME}--cifar100-steps_10k-lr_0.01-res_224.npz")
    assert find_released("gsam/ViT-B_16").path == "vit_models/gsam/ViT-B_16.npz"
    assert find_released("vtab/BiT-M-R50x1-run0-caltech101").model == "BiT_R50x1"
    with pytest.raises(
        ValueError, match="received 'vit_base_patch16_224.augreg_in22k'; the nearest are vit_base_patch"
    ):
        find_released("vit_base_patch16_224.augreg_in22k")


KNOWN = NAME[:-3] + "0.0"  # which timm has a tag for
SOURCE = "index of augreg"
INDEX = f"""name,ds,params,filename,final_test,adapt_ds,adapt_resolution,adapt_final_test,adapt_filename
B_16,i21k,86859496,{NAME},,imagenet2012,384,0.85,{NAME}--imagenet2012-steps_20k-lr_0.01-res_384
B_16,i21k,86567656,{NAME},,imagenet2012,224,0.84,{NAME}--imagenet2012-steps_20k-lr_0.01-res_224
S_16,i21k,22196584,S_16-x,,imagenet2012,384,0.83,S_16-x--imagenet2012-steps_20k-lr_0.01-res_384
B_16,i21k,86859496,{KNOWN},,imagenet2012,384,0.8599,{KNOWN}--imagenet2012-steps_20k-lr_0.01-res_384
L_16,i21k,304715752,L_16-x,,imagenet2012,384,0.86,L_16-x--imagenet2012-steps_20k-lr_0.01-res_384
B_16,i21k,86567656,{NAME},,cifar100,224,0.93,{NAME}--cifar100-steps_10k-lr_0.01-res_224
"""


def test_finding_in_augregs_index(tmp_path, capsys, monkeypatch):
    (tmp_path / "index.csv").write_text(INDEX)
    index = tmp_path / "index.csv"
    published = {row.tag for row in find(resolution=384)}
    rows = find(resolution=384, under=100_000_000, index=index, parameters_of=lambda model: 22_000_000)
    added = [row for row in rows if row.tag not in published]
    assert [(row.model, row.accuracy) for row in added] == [("ViT_B16", 0.85), ("ViT_S16", 0.83)]
    assert len(rows) == len(published) + 2 and len({row.tag for row in rows}) == len(rows)
    rows = [row for row in find("B_16", dataset=None, sort="resolution", index=index) if row.tag.startswith(NAME)]
    assert [row.resolution for row in rows] == [384, 224, 224]
    assert {row.dataset for row in rows} == {"imagenet2012", "cifar100"}
    line = ["weights", "find", "--model", "B_16", "--res", "384", "--under", "100M", "--sort", "accuracy"]
    assert main([*line, "--index", str(index)]) == 0
    printed = capsys.readouterr().out
    lines = [re.sub("  +", "  ", text) for text in printed.splitlines()]
    assert lines[:2] == [
        "tag  parameters  size  pixels  outputs  top-1",
        "vit_base_patch16_384.augreg_in21k_ft_in1k  86.9M  347 MB  384  1000  85.99% [1]",
    ]
    assert f"{NAME}--imagenet2012-steps_20k-lr_0.01-res_384  86.9M  347 MB  384  any  85.00% [1]" in lines
    assert f"[1] {SOURCE}" in lines
    assert "vit_base_patch16_384.orig_in21k_ft_in1k" in printed
    monkeypatch.setenv("KERAS_VIT_HOME", str(tmp_path))  # the cached index is found by itself
    (tmp_path / "vit_models/augreg").mkdir(parents=True)
    (tmp_path / "index.csv").rename(tmp_path / "vit_models/augreg/index.csv")
    assert main(line) == 0 and capsys.readouterr().out == printed


def test_finding_without_an_index(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("KERAS_VIT_HOME", str(tmp_path))
    assert main(["weights", "find", "--model", "vit_large_patch16", "--res", "384", "--limit", "1"]) == 0
    _, first, more, source, *about = capsys.readouterr().out.splitlines()
    assert (
        re.sub("  +", "  ", first)
        == "vit_large_patch16_384.augreg_in21k_ft_in1k  304.7M  1219 MB  384  1000  87.10% [1]"
    )
    assert more == "... and 3 more; --limit prints them" and source == f"[1] {TIMM_RESULTS}"
    assert about[0] == "size: float32, computed from the parameters" and "weights info TAG" in about[1]
    assert main(["weights", "find", "--under", "1k"]) == 2
    assert "expected options that match a published checkpoint" in capsys.readouterr().err


def test_mistakes_get_a_sentence(tmp_path):
    (tmp_path / "other.csv").write_text("a,b\n1,2\n")
    (tmp_path / "binary.csv").write_bytes(b"\xff\xfe\x00\x01")
    with pytest.raises(ValueError, match="sort expected one of .* received 'beauty'"):
        find(sort="beauty")
    with pytest.raises(FileNotFoundError, match="index expected augreg's index.csv, found nothing at"):
        find(index=tmp_path / "none.csv")
    for name in ("other.csv", "binary.csv"):
        with pytest.raises(ValueError, match="index expected a table with the columns name, filename"):
            find(index=tmp_path / name)


def test_show_says_what_is_in_a_file(capsys):
    from support import GOLDENS

    assert main(["weights", "show", str(GOLDENS / "g5.weights.npz")]) == 0
    printed = capsys.readouterr().out
    assert "layout 'npz', 43 arrays, 61,302 values" in printed
    assert "stem_root/kernel" in printed and "conv_root/kernel" in printed


def test_convert_writes_what_another_library_reads(tmp_path, capsys):
    from support import GOLDENS, golden, max_difference

    assert main(["weights", "convert", str(GOLDENS / "g1.weights.npz"), str(tmp_path / "hub"), "--layout", "hf"]) == 0
    assert "72,299 parameters" in capsys.readouterr().out
    model = keras_vit.from_pretrained(tmp_path / "hub")
    assert max_difference(model(golden("g1")["images"]), golden("g1")["logits"]) < 2e-5
    line = ["weights", "convert", str(GOLDENS / "t1.weights.safetensors"), str(tmp_path / "t1.keras")]
    assert main(line) == 2 and "num_heads expected" in capsys.readouterr().err
    assert main([*line, "--num-heads", "3"]) == 0 and (tmp_path / "t1.keras").is_file()


FILES = (".pth", ".pth.tar", ".pt", ".npz")


def test_timms_checkpoints_are_those_of_timm():
    import parity

    timm = parity.timm()
    rows = timm_checkpoints()
    assert len(rows) == len({row.tag for row in rows}) == 490
    for row in rows:
        cfg = timm.models.get_pretrained_cfg(row.tag)
        spec = row.spec
        assert (*cfg.input_size[1:],) == spec.size and cfg.num_classes == row.classes
        assert (cfg.interpolation, cfg.crop_mode, cfg.crop_pct) == (
            spec.interpolation, spec.resize_mode, spec.crop_fraction
        )  # fmt: skip
        for theirs, ours in ((cfg.mean, spec.mean), (cfg.std, spec.std)):
            assert theirs == tuple(spec.per_channel(ours, 3))
        assert (cfg.license or "") == row.licence
        assert cfg.hf_hub_id == row.repository
        assert row.url in (cfg.url or "", "") and bool(row.url) == (cfg.url or "").endswith(FILES)


def test_whether_a_checkpoint_loads_follows_from_its_arrays(monkeypatch):
    row = find_timm_checkpoint("vit_base_patch14_dinov2.lvd142m")
    assert row.refusal is None and row.family == "dinov2" and row.hub == f"hf://timm/{row.tag}"
    features = (*unsupported.FEATURES, unsupported.Feature("class tokens", "cls_token", without=("none",)))
    monkeypatch.setattr(unsupported, "FEATURES", features)
    timm_module._refusal.cache_clear()
    assert row.refusal == "unsupported: class tokens"  # the check of real files, not a column
    monkeypatch.setattr(unsupported, "FEATURES", features[:-1])
    timm_module._refusal.cache_clear()
    monkeypatch.setattr(timm_module, "_arrays", lambda: {row.kind: {"blocks.0.strange": (3,), "cls_token": (1, 1, 8)}})
    assert "'embedding/kernel'" in row.refusal
    timm_module._refusal.cache_clear()


def test_every_checkpoint_loads_and_a_refused_kind_is_named_as_the_real_check_names_it(tmp_path, monkeypatch):
    """The headers of a kind with a part more, written as a file, get the same answer from `from_pretrained`."""
    numpy = pytest.importorskip("safetensors.numpy", reason="safetensors is not installed")
    assert not [row.tag for row in timm_checkpoints() if row.refusal]
    row = next(row for row in timm_checkpoints() if row.architecture == "deit_tiny_patch16_224")
    shapes = timm_module._arrays()[row.kind]
    for part, name in (
        ("batch norm", "patch_embed.backbone.bn1.running_mean"),
        ("talking heads", "blocks.0.attn.proj_l.weight"),
    ):
        changed = {row.kind: {**shapes, name: (2, 2)}}
        monkeypatch.setattr(timm_module, "_arrays", lambda changed=changed: changed)
        timm_module._refusal.cache_clear()
        assert row.refusal == f"unsupported: {part}"
        small = {key: np.zeros([min(side, 2) for side in shape], "float32") for key, shape in changed[row.kind].items()}
        (tmp_path / part).mkdir()
        numpy.save_file(small, tmp_path / part / "model.safetensors")
        (tmp_path / part / "config.json").write_text(json.dumps({"architecture": row.architecture}))
        with pytest.raises(ValueError, match=f"unsupported parts: {part} "):
            keras_vit.from_pretrained(tmp_path / part)
    timm_module._refusal.cache_clear()


def test_finding_on_the_hub(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("KERAS_VIT_HOME", str(tmp_path))
    assert main(["weights", "find", "--family", "dinov2", "--res", "518", "--loads", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    tags = {row["tag"] for row in found["weights"]}
    assert {"vit_base_patch14_reg4_dinov2.lvd142m", "vit_giant_patch14_dinov2.lvd142m"} <= tags
    row = next(row for row in found["weights"] if row["tag"] == "vit_base_patch14_dinov2.lvd142m")
    assert (row["loads"], row["refusal"], row["licence"]) == (True, None, "apache-2.0")
    assert row["hub"] == "hf://timm/vit_base_patch14_dinov2.lvd142m" and row["parameters"] == 86_579_712
    assert row["preprocessing"]["size"] == [518, 518] and row["preprocessing"]["interpolation"] == "bicubic"
    monkeypatch.setattr(timm_module, "_refusal", lambda architecture, kind: "unsupported: class tokens")
    assert main(["weights", "find", "resnetv2_50d"]) == 0
    assert "refused, unsupported:" in capsys.readouterr().out
    assert main(["weights", "find", "clip", "--licence", "cc-by-nc-4.0", "--json"]) == 0
    assert {row["licence"] for row in json.loads(capsys.readouterr().out)["weights"]} == {"cc-by-nc-4.0"}
    assert main(["weights", "find", "no-such-word"]) == 2
    capsys.readouterr()
    for options, sentence in (
        (["dinvo2"], "word expected a part of a published tag, received 'dinvo2'; the nearest are dinov2, "),
        (["--family", "dinvo2"], "received 'dinvo2'; the nearest are dinov2, "),
        (["--licence", "apache"], "licence expected one of apache-2.0, "),
    ):
        assert main(["weights", "find", *options]) == 2 and sentence in capsys.readouterr().err


def test_a_tag_that_only_the_hub_has_is_downloaded_there(monkeypatch):
    asked = []
    monkeypatch.setattr(download, "_from_hub", lambda source, verified: asked.append(source) or source)
    assert download.locate("vit_base_patch16_224.mae") == "hf://timm/vit_base_patch16_224.mae"
    download.published_classes("deit3_base_patch16_224.fb_in1k")
    assert asked == ["hf://timm/vit_base_patch16_224.mae"]
    assert download.published_classes("deit3_base_patch16_224.fb_in1k") == 1000
    assert download.published_classes("hf://timm/deit3_base_patch16_224.fb_in1k") == 1000
    assert download.published_classes("hf://timm/vit_base_patch16_224.mae") is None
    with pytest.raises(ValueError, match="weights expected a file or a tag of list_weights"):
        download.locate("vit_base_patch16_224.nobody")
