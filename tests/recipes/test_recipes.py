"""The project's recipes against the tables they come from, typed in again here."""

import math
import re

import pytest
from support import ROOT

from keras_vit.train.optim.schedule import LearningRate
from keras_vit.train.recipe import Augment
from keras_vit.train.recipe.file import from_json, load_recipe, recipes_in, to_json

FILES = sorted((ROOT / "recipes").glob("*.py"))
JFT_IMAGES, IN21K_IMAGES, IN1K_IMAGES = 303_000_000, 14_200_000, 1_281_167


def recipe(name):
    return load_recipe(ROOT / "recipes" / name)


def rate(of, step, total):
    """The learning rate that a recipe gives a step."""
    return float(LearningRate(of.optimizer.learning_rate, total, of.schedule)(step))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_recipe_loads_and_its_file_opens_with_a_lab_note(path):
    found = recipes_in(path)
    for row, one in found.items():
        assert one.name == (f"{path.stem}:{row}" if row else path.stem)
        assert from_json(to_json(one)) == one
    note = path.read_text().split('"""')[1]
    assert all(part in note for part in ("Command:", "Hardware:", "Time:", "Figure:", "Source:")), path.name


# Table 3: model, epochs, learning rate, decay, weight decay, dropout.
TABLE_3 = {
    "paper_jft.py": (
        ("ViT_B32", 7, 8e-4), ("ViT_B16", 7, 8e-4), ("ViT_L32", 7, 6e-4), ("ViT_L16_7ep", 7, 4e-4),
        ("ViT_L16", 14, 4e-4), ("ViT_H14", 14, 3e-4), ("BiT_R50x1", 7, 1e-3), ("BiT_R50x2", 7, 1e-3),
        ("BiT_R101x1", 7, 8e-4), ("BiT_R152x1", 7, 6e-4), ("BiT_R152x2", 7, 6e-4), ("R50_ViT_B32", 7, 8e-4),
        ("R50_ViT_B16", 7, 8e-4), ("R50_ViT_L32", 7, 2e-4), ("R50_ViT_L16_7ep", 7, 4e-4), ("R50_ViT_L16", 14, 4e-4),
    ),
    "paper_imagenet21k.py": (
        ("ViT_B16", 90, 1e-3), ("ViT_B32", 90, 1e-3), ("ViT_L16", 90, 1e-3), ("ViT_L16_30ep", 30, 1e-3),
        ("ViT_L32", 90, 1e-3), ("ViT_L32_30ep", 30, 1e-3),
    ),
    "paper_imagenet.py": (
        ("ViT_B16", 300, 3e-3), ("ViT_B32", 300, 3e-3), ("ViT_L16", 300, 3e-3), ("ViT_L32", 300, 3e-3),
    ),
}  # fmt: skip
REST_3 = {  # decay, weight decay, dropout, clipping, images
    "paper_jft.py": ("linear", 0.1, 0.0, None, JFT_IMAGES),
    "paper_imagenet21k.py": ("linear", 0.03, 0.1, None, IN21K_IMAGES),
    "paper_imagenet.py": ("cosine", 0.3, 0.1, 1.0, IN1K_IMAGES),
}


@pytest.mark.parametrize("file", TABLE_3)
def test_pre_training_is_table_3(file):
    decay, weight_decay, dropout, clip, images = REST_3[file]
    assert set(recipes_in(ROOT / "recipes" / file)) == {row for row, *_ in TABLE_3[file]}
    for row, epochs, base in TABLE_3[file]:
        one = recipe(f"{file}:{row}")
        assert one.model.variant == row.removesuffix("_7ep").removesuffix("_30ep")
        assert (one.epochs, one.data.batch_size, one.model.input_shape) == (epochs, 4096, (224, 224, 3))
        assert (one.optimizer.kind, one.optimizer.beta_1, one.optimizer.beta_2) == ("adamw", 0.9, 0.999)
        assert (one.optimizer.weight_decay, one.optimizer.clip_norm) == (weight_decay, clip)
        assert (one.model.dropout_rate, one.schedule.warmup_steps) == (dropout, 10_000)
        total = images * epochs // 4096
        middle = (10_000 + total) / 2
        expected = {0: 0.0, 5_000: base / 2, 10_000: base, middle: base / 2, total: 0.0}  # both decays halve midway
        assert one.schedule.decay == decay
        for step, value in expected.items():
            assert rate(one, step, total) == pytest.approx(value, rel=1e-5, abs=1e-9)
        if not row.startswith("BiT"):
            assert one.model.representation_size == one.model.row.width


# Table 4: steps and learning rates; the steps of warm-up are the official code's.
TABLE_4 = {
    "imagenet": ("tfds:imagenet2012", 20_000, 500, (0.003, 0.01, 0.03, 0.06)),
    "cifar100": ("tfds:cifar100", 10_000, 500, (0.001, 0.003, 0.01, 0.03)),
    "cifar10": ("tfds:cifar10", 10_000, 500, (0.001, 0.003, 0.01, 0.03)),
    "pets": ("tfds:oxford_iiit_pet", 500, 100, (0.001, 0.003, 0.01, 0.03)),
    "flowers": ("tfds:oxford_flowers102", 500, 100, (0.001, 0.003, 0.01, 0.03)),
}


def check_fine_tuning_rates(one, base, total, warmup):
    """Half the base at half the warm-up, the base at its end, then base * (1 + cos(pi * done)) / 2 down to 0."""
    behind = total - warmup
    expected = {0: 0.0, warmup // 2: base / 2, warmup: base, warmup + behind // 2: base / 2, total: 0.0}
    expected[warmup + behind // 4] = base * (1 + math.cos(math.pi / 4)) / 2
    expected[total - 1] = base * (1 + math.cos(math.pi * (behind - 1) / behind)) / 2
    for step, value in expected.items():
        assert rate(one, step, one.steps) == pytest.approx(value, rel=1e-5, abs=1e-7 * base), (one.name, step)


def test_ablations_are_table_8_and_the_learning_rates_of_the_heads():
    rows = recipes_in(ROOT / "recipes/paper_ablations.py")
    resnet = rows.pop("axial_r50").model
    assert (resnet.row.name, resnet.row.axial, resnet.pooling) == ("AxialResNet_R50x1", True, "gap")
    positions = {(one.model.row.positions, one.model.row.positions_at) for one in rows.values()}
    expected = {(kind, at) for kind in ("1d", "2d") for at in ("stem", "layers", "shared")}
    assert positions - {("learned", "stem")} == expected | {("none", "stem"), ("relative", "stem")}
    heads = {row: (one.model.pooling, one.optimizer.learning_rate) for row, one in rows.items()}
    assert (heads["token"], heads["gap"], heads["gap_8e4"]) == (("token", 8e-4), ("gap", 3e-4), ("gap", 8e-4))
    assert all(heads[row] == ("token", 8e-4) for row in rows if row.startswith("positions_"))
    assert [row for row, one in rows.items() if one.model.row.axial] == ["axial_b16", "axial_b32"]


def test_masked_pre_training_is_appendix_b12():
    one = recipe("paper_masked.py")
    masked, optimizer = one.masked, one.optimizer
    assert (masked.share, masked.mask, masked.swap, masked.target) == (0.5, 0.8, 0.1, "mean_colour")
    assert (one.model.variant, one.steps, one.data.batch_size) == ("ViT_B16", 1_000_000, 4096)
    assert (optimizer.kind, optimizer.learning_rate, optimizer.beta_1, optimizer.beta_2) == ("adamw", 2e-4, 0.9, 0.999)
    assert (one.schedule.decay, one.schedule.warmup_steps) == ("cosine", 10_000)
    assert [masked.count(196), masked.units((16, 16), 3)] == [98, 512]
    rows = recipes_in(ROOT / "recipes/paper_masked.py")
    assert rows["colours"].masked.units((16, 16), 3) == 16 * 512 and rows["pixels"].masked.units((16, 16), 3) == 768
    assert rows["mean_colour_15"].masked.share == 0.15


def test_fine_tuning_is_table_4():
    rows = recipes_in(ROOT / "recipes/paper_finetune.py")
    for name, (source, steps, warmup, rates) in TABLE_4.items():
        assert {row for row in rows if row.startswith(f"{name}_lr")} == {f"{name}_lr{base}" for base in rates}
        for base in rates:
            one = rows[f"{name}_lr{base}"]
            assert (one.data.source, one.steps, one.optimizer.learning_rate) == (source, steps, base)
            assert one.model.input_shape == (384, 384, 3)
            check_fine_tuning_rates(one, base, steps, warmup)
    vtab = {row: one for row, one in rows.items() if row.startswith("vtab_")}
    assert len(vtab) == 19
    for one in vtab.values():
        assert (one.steps, one.optimizer.learning_rate, one.data.train_split) == (2_500, 0.01, "vtab1k")
        assert one.model.input_shape == (384, 384, 3)
        check_fine_tuning_rates(one, 0.01, 2_500, 500)
    for one in rows.values():
        assert (one.optimizer.kind, one.optimizer.momentum, one.optimizer.weight_decay) == ("sgd", 0.9, 0.0)
        assert (one.data.batch_size, one.optimizer.clip_norm, one.schedule.decay) == (512, 1.0, "cosine")
        assert one.model.representation_size is None and one.model.head_bias == 0


def test_table_2_has_larger_images_and_an_average():
    for row, size in (("imagenet512_ViT_L16", 512), ("imagenet518_ViT_H14", 518)):
        one = recipe(f"paper_finetune.py:{row}")
        assert one.model.input_shape == (size, size, 3)
        assert one.average.decay == 0.9999
        assert one.data.resize > size
        assert one.optimizer.learning_rate in TABLE_4["imagenet"][-1]
        check_fine_tuning_rates(one, one.optimizer.learning_rate, 20_000, 500)


# Table 1 of "How to train your ViT?": p of mixup, RandAugment's operations and magnitude.
AUGREG = {
    "none": (0.0, None), "light1": (0.0, (2, 0)), "light2": (0.2, (2, 10)), "medium1": (0.2, (2, 15)),
    "medium2": (0.5, (2, 15)), "strong1": (0.5, (2, 20)), "strong2": (0.8, (2, 20)),
}  # fmt: skip
AUGREG_MODELS = {
    "Ti_16": ("ViT_Ti16", 192), "S_32": ("ViT_S32", 384), "S_16": ("ViT_S16", 384), "B_32": ("ViT_B32", 768),
    "B_16": ("ViT_B16", 768), "B_8": ("ViT_B8", 768), "L_16": ("ViT_L16", 1024), "R_Ti_16": ("R_ViT_Ti16", 192),
    "R26_S_32": ("R26_ViT_S32", 384), "R50_L_32": ("R50_ViT_L32", 1024),
}  # fmt: skip
AUGREG_NAME = re.compile(
    r"(?P<model>\w+)-(?P<data>i1k|i21k)-(?P<epochs>\d+)ep-lr_(?P<lr>[\d.]+)-aug_(?P<aug>\w+)"
    r"-wd_(?P<wd>[\d.]+)-do_(?P<do>[\d.]+)-sd_(?P<sd>[\d.]+)"
)


def test_augreg_is_the_whole_grid_as_each_row_is_named():
    rows = recipes_in(ROOT / "recipes/augreg.py")
    names = {name: AUGREG_NAME.fullmatch(name) for name in rows}
    grid = {(n["model"], n["data"], n["epochs"], n["aug"], n["wd"], n["do"]) for n in names.values()}
    pairs = (("i1k", "300"), ("i21k", "300"), ("i21k", "30"))
    assert len(rows) == len(grid) == 840
    assert grid == {(model, *pair, augment, decay, rate) for model in AUGREG_MODELS for pair in pairs
                    for augment in AUGREG for decay in ("0.03", "0.1") for rate in ("0.0", "0.1")}  # fmt: skip
    for name, one in rows.items():
        said, (mixup, randaugment) = names[name], AUGREG[names[name]["aug"]]
        many = said["data"] == "i21k"
        assert said["do"] == said["sd"], name
        optimizer, model = one.optimizer, one.model
        assert (model.variant, model.representation_size) == AUGREG_MODELS[said["model"]], name
        assert model.input_shape == (224, 224, 3), name
        assert (model.dropout_rate, model.drop_path_rate) == (float(said["do"]), float(said["sd"])), name
        assert one.augment == Augment("inception", flip=True, randaugment=randaugment, mixup=mixup), name
        assert (optimizer.weight_decay, optimizer.learning_rate) == (float(said["wd"]), float(said["lr"])), name
        assert (optimizer.kind, optimizer.beta_1, optimizer.beta_2) == ("adamw", 0.9, 0.999), name
        assert (optimizer.clip_norm, optimizer.moment_dtype) == (1.0, "bfloat16"), name
        assert (one.epochs, one.data.batch_size) == (int(said["epochs"]), 4096), name
        assert (one.schedule.decay, one.schedule.warmup_steps) == ("cosine", 10_000), name
        assert (one.loss.kind, model.head_bias) == (("sigmoid", -10.0) if many else ("softmax", 0.0)), name
        assert one.data.source == ("folder" if many else "tfds:imagenet2012"), name
        if not many:
            assert (one.data.train_split, one.data.test_split) == ("train[:99%]", "validation"), name


@pytest.mark.parametrize(
    ("file", "shuffle"),
    [
        ("paper_imagenet.py", 50_000),  # not in the paper
        ("paper_finetune.py", 50_000),  # vit_jax/configs/common.py
        ("augreg.py", 250_000),  # big_vision/configs/vit_i1k.py
        ("imagenet_s16.py", 250_000),  # big_vision/configs/vit_s16_i1k.py
    ],
)
def test_the_images_held_in_memory_are_said(file, shuffle):
    """A recipe of ImageNet names how many, which the default would fill 27 GB with, and its lab note their size."""
    streamed = [one for one in recipes_in(ROOT / "recipes" / file).values() if one.data.source != "folder"]
    assert streamed and {one.data.shuffle for one in streamed} == {shuffle}
    note = (ROOT / "recipes" / file).read_text().split('"""')[1]
    assert f"{shuffle:,}" in note and f"{27 if shuffle == 250_000 else 5.5} GB" in note


def test_tiny_imagenet_starts_from_the_model_of_the_cifar10_hybrid():
    own, hybrid = recipe("tiny_imagenet.py").model, recipe("cifar10.py:hybrid").model
    assert own == hybrid and recipe("tiny_imagenet.py:scratch").model == hybrid


def test_s16_is_big_visions():
    one = recipe("imagenet_s16.py:90ep")
    assert (one.data.batch_size, one.optimizer.learning_rate, one.optimizer.weight_decay) == (1024, 1e-3, 0.1)
    assert one.augment == Augment("inception", flip=True, randaugment=(2, 10), mixup=0.2)
    assert (one.model.pooling, one.model.row.positions, one.model.representation_size) == ("gap", "sincos2d", 384)
    assert (one.schedule.decay, one.schedule.warmup_steps, one.optimizer.clip_norm) == ("cosine", 10_000, 1.0)
    assert one.data.resize == 256


# Google-research/vision_transformer's configurations: the weights, and the dropout that each model keeps.
OFFICIAL = {
    "b16": ("vit_base_patch16_224.orig_in21k", 0.0), "b32": ("vit_base_patch32_224.orig_in21k", 0.0),
    "l16": ("vit_large_patch16_224.orig_in21k", 0.1), "l32": ("vit_large_patch32_224.orig_in21k", 0.0),
    "h14": ("vit_huge_patch14_224.orig_in21k", 0.1), "r50_b16": ("vit_base_r50_s16_224.orig_in21k", 0.1),
}  # fmt: skip
OFFICIAL_DATA = {  # percent to train on, test split, steps
    "cifar10": (98, "test", 10_000), "cifar100": (98, "test", 10_000), "imagenet2012": (99, "validation", 20_000),
}  # fmt: skip


def test_official_fine_tuning_is_the_official_codes():
    rows = recipes_in(ROOT / "recipes/official_finetune.py")
    named = {f"{model}-{data}" for model in OFFICIAL for data in OFFICIAL_DATA}
    augreg = {f"augreg_{model}" for model in AUGREG_MODELS}
    assert set(rows) == named | augreg
    for name, one in rows.items():
        optimizer = one.optimizer
        assert (one.data.batch_size, one.data.shuffle, optimizer.accumulate) == (512, 50_000, 8), name
        assert (optimizer.kind, optimizer.momentum, optimizer.moment_dtype) == ("sgd", 0.9, "bfloat16"), name
        assert (optimizer.weight_decay, optimizer.clip_norm) == (0.0, 1.0), name
        assert (optimizer.layer_decay, optimizer.sam, one.average.decay) == (1.0, 0.0, 0.0), name
        assert (one.model.input_shape, one.model.representation_size) == ((384, 384, 3), None), name
        assert one.augment == Augment("inception", flip=True) and one.data.resize is None, name
        assert (one.loss.kind, one.loss.label_smoothing, one.model.head_bias) == ("softmax", 0.0, 0.0), name
        assert (one.model.attention_dropout_rate, one.model.drop_path_rate) == (0.0, 0.0), name
        assert one.schedule.decay == "cosine", name
    for name in named:
        (model, _, data), one = name.partition("-"), rows[name]
        percent, test, steps = OFFICIAL_DATA[data]
        assert (one.model.variant, one.model.dropout_rate) == OFFICIAL[model], name
        assert (one.data.source, one.data.train_split) == (f"tfds:{data}", f"train[:{percent}%]"), name
        assert (one.data.test_split, one.evaluate.split, one.steps) == (test, f"train[{percent}%:]", steps), name
        assert one.schedule.warmup_steps == 500, name
        check_fine_tuning_rates(one, 0.01 if name == "b16-cifar10" else 0.03, steps, 500)
    for name in augreg:
        one, (variant, _) = rows[name], AUGREG_MODELS[name.removeprefix("augreg_")]
        assert (one.model.row.name, one.model.dropout_rate) == (variant, 0.0), name
        assert one.model.variant.endswith(".augreg_in21k") and one.steps == 500, name
        assert one.schedule.warmup_steps == 100, name
        check_fine_tuning_rates(one, 0.03, 500, 100)
