"""The catalogue's accuracies, sizes, hashes, hub names and the verbs that print them."""

import json
import re
from dataclasses import replace

import pytest

from keras_vit.cli import main
from keras_vit.models.variants import find_variant
from keras_vit.weights.catalogue import find_released
from keras_vit.weights.find import find, find_one
from keras_vit.weights.image_configs import _from_hf
from keras_vit.weights.published import published_checkpoints
from keras_vit.weights.timm_checkpoints import TIMM_RESULTS, timm_checkpoints
from keras_vit.weights.transformers_checkpoints import PREPROCESSING, transformers_checkpoints
from keras_vit.weights.transformers_models import HUB_MODELS, TOWERS


def test_accuracies_belong_to_classifiers_of_imagenet():
    measured = [row for row in timm_checkpoints() if row.accuracy is not None]
    assert len(measured) > 190 and all(row.classes == 1000 for row in measured)
    assert all(0.3 < row.accuracy < 0.92 for row in measured)
    assert find_one("deit_base_patch16_224.fb_in1k").accuracy == 0.8198
    official = find_one("vit_base_patch16_224.orig_in21k_ft_in1k")  # the publisher's own accuracy, not timm's
    assert official.accuracy == 0.812 and "README" in official.source
    assert find_one("vit_base_patch16_384.orig_in21k_ft_in1k").source == TIMM_RESULTS


def test_urls_state_hashes_and_name_one_file():
    rows = [row for row in timm_checkpoints() if row.url]
    assert len({row.url for row in rows}) == len(rows) > 100
    hashed = {row.tag: row.sha256_prefix for row in rows if row.sha256_prefix}
    assert hashed["deit_base_patch16_224.fb_in1k"] == "b5f2ef4d" and len(hashed) >= 24
    assert (
        find_released(next(row.url for row in rows if row.tag == "deit_base_patch16_224.fb_in1k")).sha256 == "b5f2ef4d"
    )
    assert find_one("vit_small_patch16_224.dino").sha256 is None
    with pytest.raises(
        ValueError, match=r"source expected the URL of a file in the catalogue, received 'https://x/y.pth'"
    ):
        find_released("https://x/y.pth")


def test_every_model_of_transformers_is_of_a_class_that_is_read():
    rows, tags = transformers_checkpoints(), {row.tag for row in published_checkpoints(hub=True)}
    assert len(rows) == len({row.repository for row in rows}) > 100
    for row in rows:
        assert row.model_type in HUB_MODELS or row.model_type in TOWERS, row.repository
        assert row.same_as in (*tags, ""), row.repository
        assert row.spec is None or row.spec.size is not None
        if row.same_as:
            assert row.same_as.startswith(row.architecture)
    families = {row.family for row in rows}
    assert {
        "vit",
        "deit",
        "dino",
        "dinov2",
        "dinov3",
        "mae",
        "msn",
        "ijepa",
        "beit",
        "data2vec",
        "clip",
        "siglip",
    } <= families
    counts = {row.repository: row.parameters for row in rows}
    assert counts["google/vit-base-patch32-384"] == 88_297_192 and counts["facebook/vit-msn-small"] == 21_665_664
    assert counts["facebook/data2vec-vision-base"] is None  # timm has no model with the same arrays
    builders = {
        row.repository: find_variant(row.architecture)[0].name for row in rows if row.family in ("dinov2", "deit")
    }
    assert builders["facebook/dinov2-with-registers-giant"] == "DINOv2_g14_reg"


@pytest.mark.broad
@pytest.mark.parametrize(
    ("name", "processor", "options"),
    [
        ("vit", "ViTImageProcessor", {}),
        ("dinov2", "BitImageProcessor", {"size": {"shortest_edge": 256}, "resample": 3, "imagenet": True}),
        ("dinov3", "DINOv3ViTImageProcessor", {}),
        ("msn", "ViTImageProcessor", {"imagenet": True}),
        ("clip", "CLIPImageProcessor", {}),
        ("siglip", "SiglipImageProcessor", {}),
    ],
)
def test_the_preprocessing_is_that_of_transformers_processors(name, processor, options):
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    import parity

    parity.timm()  # declares torchvision's operators
    imagenet = {"image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225]}
    options = {**options, **(imagenet if options.get("imagenet") else {})}
    options.pop("imagenet", None)
    config = getattr(transformers, processor)(**options).to_dict()
    expected = PREPROCESSING[name]
    values = {name: tuple(expected.per_channel(getattr(expected, name), 3)) for name in ("mean", "std")}
    assert _from_hf(config) == replace(expected, size=(224, 224), **values)


def test_find_searches_all_names_by_family_and_accuracy(capsys):
    rows = find(dataset=None, family="dinov2", hub=True, sort="parameters")
    assert {"hf://facebook/dinov2-base", "vit_base_patch14_dinov2.lvd142m"} <= {row.tag for row in rows}
    counts = [row.parameters for row in rows]
    assert counts == sorted(counts)
    best = find(hub=True)[:20]
    assert [row.accuracy for row in best] == sorted((row.accuracy for row in best), reverse=True)
    assert main(["weights", "find", "google", "vit-base", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["weights"]
    row = next(row for row in found if row["tag"] == "hf://google/vit-base-patch16-224")
    assert (row["outputs"], row["licence"], row["preprocessing"]["mean"]) == (1000, "apache-2.0", [0.5])
    assert row["size"] == 4 * row["parameters"] == 4 * 86_567_656


def test_lines_fit_in_100_columns(capsys):
    for options in (["dinov2"], ["--limit", "20"], ["siglip2"], ["laion"]):
        assert main(["weights", "find", *options]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert len(lines) > 3 and max(map(len, lines)) <= 100, max(lines, key=len)


def test_info_shows_all_fields(capsys):
    assert main(["weights", "info", "deit_base_patch16_224.fb_in1k"]) == 0
    printed = capsys.readouterr().out
    for text in (
        "DeiT_B16, in timm deit_base",
        "86,567,656",
        "346,270,624 bytes",
        "81.980% top-1, results/",
        "b5f2ef4d",
    ):
        assert text in printed
    assert "center, bicubic, crop 0.9, mean (0.485, 0.456, 0.406)" in printed
    assert main(["weights", "info", "google/siglip-base-patch16-224", "--json"]) == 0
    row = json.loads(capsys.readouterr().out)
    assert row["hub"] == "hf://google/siglip-base-patch16-224" and row["accuracy"] is None
    assert row["preprocessing"]["size"] == [224, 224]
    assert main(["weights", "info", "google/siglip-base-patch16-22"]) == 2
    assert "the nearest are hf://google/siglip-base-patch16-224" in capsys.readouterr().err
    assert main(["weights", "info", "vit_huge_patch14_gap_224.in1k_ijepa"]) == 0  # without files on the hub
    printed = capsys.readouterr().out
    assert (
        re.search(r"accuracy +not published", printed) and "\nhub" not in printed and "ijepa/IN1K-vit.h.14" in printed
    )
    assert main(["weights", "info", "sam/ViT-B_16"]) == 0 and "vit_base_patch16_224.sam_in1k" in capsys.readouterr().out


def test_the_names_of_a_builder_find_the_tags_of_every_library(capsys):
    assert main(["weights", "find", "--model", "ViT_B16", "--dataset", "all", "--limit", "99", "--json"]) == 0
    tags = {row["tag"] for row in json.loads(capsys.readouterr().out)["weights"]}
    assert {"vit_base_patch16_224.mae", "vit_base_patch16_224.augreg_in21k", "hf://google/vit-base-patch16-384"} <= tags
