"""Recipes: what they may hold, and the way to JSON and back."""

import dataclasses

import pytest
from support import run_python

from keras_vit.train.recipe import (
    Augment,
    Average,
    BiTVariant,
    Curriculum,
    Data,
    Loss,
    Model,
    Optimizer,
    Recipe,
    ResNetStem,
    Schedule,
    Stage,
    Variant,
)
from keras_vit.train.recipe.file import differences, from_json, load_recipe, override, to_json
from keras_vit.train.recipe.inputs import augment_at, check_sizes

OWN = Variant("own", width=8, depth=1, mlp_dim=16, num_heads=2, patch_size=(2, 4), image_size=8)
RECIPE = Recipe(
    "own",
    Model(OWN, image_size=(8, 16), channels=1, pooling="gap"),
    Data("digits", batch_size=16),
    Augment(crop="inception", flip=True, mixup=0.2),
    Optimizer("sgd", learning_rate=0.03, clip_norm=1.0),
    Schedule("linear", warmup_steps=3),
    Loss("sigmoid", label_smoothing=0.1),
    Average(0.9),
    curriculum=Curriculum((Stage(0.5, image_size=8), Stage(0.75, patch_size=(4, 4)))),
    epochs=2,
    seed=7,
)


@pytest.mark.parametrize(
    "recipe",
    [RECIPE, Recipe("B", Model("ViT-B/16")), Recipe("R", Model(BiTVariant("own", (1, 2), 0.5)))],
    ids=["own row", "row's name", "own ResNet"],
)
def test_json_round_trip(recipe):
    assert from_json(to_json(recipe)) == recipe


def test_input_shape_is_the_rows_unless_said():
    assert Model("ViT_B16").input_shape == (224, 224, 3)
    assert Model("vit_base_patch16_384").input_shape == (384, 384, 3)
    assert Model("ViT_B16", image_size=(32, 64), channels=1).input_shape == (32, 64, 1)


def test_override_replaces_fields_by_path():
    changed = override(
        RECIPE,
        ["optimizer.weight_decay=1", "optimizer.clip_norm=null", "model.variant.patch_size=[4, 4]", "epochs=5",
         "augment.flip=false", "name=other"],
    )  # fmt: skip
    assert changed.optimizer == dataclasses.replace(RECIPE.optimizer, weight_decay=1.0, clip_norm=None)
    assert isinstance(changed.optimizer.weight_decay, float)
    assert changed.model.variant.patch_size == (4, 4)
    assert (changed.epochs, changed.augment.flip, changed.name) == (5, False, "other")
    assert override(RECIPE, ["model.variant=ViT_S16"]).model.row.width == 384
    assert RECIPE.epochs == 2


def test_differences_are_paths():
    assert differences(RECIPE, override(RECIPE, ["optimizer.weight_decay=1", "epochs=3"])) == [
        "epochs",
        "optimizer.weight_decay",
    ]


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("optimizer.weight_deacy=0.1", r"set expected .*'optimizer.weight_deacy'.*nearest are weight_decay"),
        ("optimiser=1", "set expected .*'optimiser'.*optimizer"),
        ("epochs.more=1", "set expected .*'epochs.more'"),
        ("epochs", "set expected path.to.field=value, received 'epochs'"),
        ("epochs=many", "epochs expected a positive int, received 'many'"),
        ("epochs=0", "epochs expected a positive int, received 0"),
        ("epochs=true", "epochs expected a positive int, received True"),
        ("optimizer=adamw", r"optimizer expected Optimizer\(...\), received 'adamw'"),
        ("optimizer.kind=adam", "kind expected one of 'adamw', 'sgd', 'lamb', 'adafactor', 'muon', received 'adam'"),
        ("optimizer.clip_norm=0", "clip_norm expected a positive number or null, received 0"),
        ("model.variant=ViT_Q9", "name expected a model of list_models.*'ViT_Q9'"),
        ("model.variant.image_size=null", "image_size expected a positive int, received None"),
        ("model.variant.stem=x", r"stem expected ResNetStem\(...\), ConvStem\(...\) or null, received 'x'"),
        ('model.variant.stem={"units": [1, 0]}', r"units expected a tuple of positive ints, received \(1, 0\)"),
        (
            'model.variant.stem={"units": [], "width_factor": "x"}',
            "width_factor expected a positive number, received 'x'",
        ),
        ("model.variant.depth=2.5", "depth expected a positive int, received 2.5"),
        ("model.variant.width=abc", "width expected a positive int, received 'abc'"),
        ("model.variant.patch_size=null", r"patch_size expected a positive int or \(height, width\), received None"),
        ("model.variant.mlp_kernel_size=a", "mlp_kernel_size expected an odd int, or 0, received 'a'"),
        ("model.variant.positions=[1]", r"positions expected a name, received \[1\]"),
        ("model.variant.axial=no", "axial expected true or false, received 'no'"),
        ('model.variant={"name": "own", "units": 3}', "units expected a tuple of positive ints, received 3"),
        ("seed=4294967296", r"seed expected an int of 0 to 2\*\*32 - 1, received 4294967296"),
        ("model.pooling=max", "pooling expected one of .*'max'"),
        ("model.dropout_rate=1", "dropout_rate expected a rate in .*1"),
        ("model.image_size=[8, 8, 8]", "image_size expected a positive int or .*8, 8, 8"),
        ("model.channels=4", "channels expected 1 or 3, received 4"),
        (
            "data.source=cifar10",
            "source expected one of digits, folder, arrays, .*vtab:TASK, received 'cifar10'",
        ),
        ("data.test_split=null", "test_split expected a split's name, received None"),
        ("data.train_split=", "train_split expected a split's name, received ''"),
        ("data.directory=3", "directory expected a folder's name or null, received 3"),
        ("model.weights=", "weights expected a file's name or null, received ''"),
        ("evaluate.split=2", "split expected a split's name or null, received 2"),
        ("evaluate.few_shot_splits=[train]", "few_shot_splits expected two splits' names, received "),
        ("data.batch_size=1.5", "batch_size expected a positive int, received 1.5"),
        ("augment.crop=center", "crop expected one of 'none', 'inception', 'resize', 'pad', received 'center'"),
        ("augment.crop_area=0", "crop_area expected a share in .*received 0"),
        ("schedule.decay=step", "decay expected one of .*'step'"),
        ("schedule.warmup_steps=-1", "warmup_steps expected an int of at least 0, received -1"),
        ("loss.label_smoothing=1", "label_smoothing expected a share .*1"),
        ("average.decay=1", "decay expected a number in .*1"),
        ("precision=float16", "precision expected one of .*'float16'"),
        ("model.include_preprocessing=no", "include_preprocessing expected true or false, received 'no'"),
        ("model.representation_size=0", "representation_size expected a positive int or null, received 0"),
        ("evaluate.few_shot_directory=", "few_shot_directory expected a folder's name or null, received ''"),
        ('curriculum.stages=[{"image_size": 16}]', "stages expected until, received image_size alone"),
    ],
)
def test_bad_values_get_one_sentence(setting, message):
    with pytest.raises(ValueError, match=message) as error:
        override(RECIPE, [setting])
    assert "\n" not in str(error.value)


CROP = 'augment={"crop": "resize", "crop_resize": %s}'
CROPPED = "crop_resize expected a size with crop 'resize', and null without, received "
STAGE = 'curriculum.stages=[{"until": 0.5, %s}]'
FIXED = "stages expected the model's own sizes with own, whose relative positions are stored for them, received Stage"


@pytest.mark.parametrize(
    ("row", "settings", "message"),
    [
        (OWN, ["data.resize=15"], "resize expected at least the model's 16 pixels, received 15"),
        (OWN, ["augment.crop=resize"], CROPPED + "None"),
        (OWN, ["augment.crop_resize=32"], CROPPED + "32"),
        (OWN, [CROP % 9], r"crop_resize expected at least the images' \(8, 16\), received 9"),
        (dataclasses.replace(OWN, positions="relative"), [], FIXED),
        (BiTVariant("own", (1, 2), 0.5, axial=True), [], FIXED),
        (OWN, [STAGE % '"patch_size": [2, 20]'], r"stages expected images of at least one patch \(2x20 pixels\) in "),
        (OWN, [STAGE % '"image_size": [8, 3]'], r"stages .* one patch \(2x4 pixels\) in each, received Stage"),
        (dataclasses.replace(OWN, stem=ResNetStem(())), [STAGE % '"image_size": 12'], r"stages .* \(8x16 pixels\) in"),
        (BiTVariant("own", (1, 2), 0.5), [], r"patch_size expected null in a stage of own, which has no patches, rec"),
    ],
)  # fmt: skip
def test_sizes_that_do_not_go_together(row, settings, message):
    """Asked when a run begins: on the way `--set` may change one size before the other."""
    recipe = override(dataclasses.replace(RECIPE, model=dataclasses.replace(RECIPE.model, variant=row)), settings)
    with pytest.raises(ValueError, match=message):
        check_sizes(recipe)
    check_sizes(override(RECIPE, [CROP % "[8, 16]", "data.resize=16"]))
    check_sizes(override(RECIPE, ["augment.crop=resize", "augment.crop_resize=16"]))
    stem = dataclasses.replace(RECIPE.model, variant=dataclasses.replace(OWN, stem=ResNetStem(())), image_size=32)
    check_sizes(
        override(dataclasses.replace(RECIPE, model=stem), [STAGE % '"image_size": 13'])
    )  # 4 cells, one filled up


@pytest.mark.parametrize(
    ("size", "crop", "expected"),
    [
        ((64, 64), 72, (72, 8)),
        ((32, 32), 72, (36, 4)),
        ((32, 32), (72, 80), ((36, 40), 4)),
        ((32, 32), 64, (32, 4)),
        ((4, 4), 65, (4, 1)),
        ((32, 48), 72, (54, 6)),
        ((128, 128), None, (None, 16)),
    ],
)
def test_crops_of_a_stage_show_as_much_as_the_models(size, crop, expected):
    augment = Augment("resize" if crop else "pad", crop_resize=crop, crop_pad=8)
    found = augment_at(augment, size, (64, 64))
    assert (found.crop_resize, found.crop_pad) == expected
    assert dataclasses.replace(found, crop_resize=crop, crop_pad=8) == augment


def test_unknown_field_in_json():
    with pytest.raises(ValueError, match="received nonsense as well"):
        from_json(to_json(RECIPE).replace('"epochs"', '"nonsense"'))
    with pytest.raises(ValueError, match="recipe expected name, model, received epochs alone"):
        from_json('{"epochs": 3}')
    with pytest.raises(ValueError, match="recipe expected a JSON object, received a list"):
        from_json("[]")


def test_load_recipe_reads_files(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text("from keras_vit.train.recipe import *\nrecipe = Recipe('mine', Model('ViT_Ti16'))\n")
    assert load_recipe(file) == Recipe("mine", Model("ViT_Ti16"))
    (tmp_path / "recipe.json").write_text(to_json(RECIPE))
    assert load_recipe(tmp_path / "recipe.json") == RECIPE
    file.write_text("recipe = 3\n")
    with pytest.raises(ValueError, match="to define `recipe = Recipe.*found 3"):
        load_recipe(file)
    with pytest.raises(FileNotFoundError, match="found none at"):
        load_recipe(tmp_path / "absent.py")


def test_a_row_of_a_file_is_named_behind_a_colon(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(
        "from keras_vit.train.recipe import *\n"
        "recipes = {name: Recipe(name, Model('ViT_Ti16')) for name in ('small', 'large')}\n"
    )
    assert load_recipe(f"{file}:large").name == "large"
    with pytest.raises(
        ValueError, match="one of the 2 rows of mine.py behind a colon, received ''; they are small, la"
    ):
        load_recipe(file)
    with pytest.raises(ValueError, match="received 'lange'; the nearest are large, small"):
        load_recipe(f"{file}:lange")
    with pytest.raises(FileNotFoundError, match="absent.py"):
        load_recipe(f"{tmp_path / 'absent.py'}:large")
    file.write_text(file.read_text().replace("('small', 'large')", "map(str, range(30))"))
    with pytest.raises(ValueError, match="one of the 30 rows .* they are 0, 1, 2, 3, 4, 5, 6, 7 and 22 more"):
        load_recipe(file)


def test_a_recipe_needs_no_tensorflow():
    loaded = run_python(
        "import sys; import keras_vit.train.recipe.file as f; f.load_recipe('recipes/digits.py');"
        "print('tensorflow' in sys.modules)",
        backend="jax",
    )
    assert loaded.strip() == "False"
