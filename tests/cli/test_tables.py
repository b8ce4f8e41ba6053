"""CSV tables of classes, ordered classes, probabilities and numbers in `check`, `new` and `finetune --plan`."""

import csv
import json
import runpy
from collections import Counter

import numpy as np
import pytest
from PIL import Image
from support import needs_tensorflow, randomise

import keras_vit
from keras_vit import cli
from keras_vit.cli.table_kinds import targets_of
from keras_vit.train.recipe.file import load_recipe
from keras_vit.train.recipe.labels import check_labels

pytestmark = needs_tensorflow


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    file = tmp_path_factory.mktemp("weights") / "ti16.safetensors"
    keras_vit.save_weights(randomise(keras_vit.ViT_Ti16(classes=5)), file, layout="timm")
    return str(file)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with 60 different pictures and tables about them; the current folder."""
    rng = np.random.default_rng(0)
    rows = {"age": ["path,age,note"], "grade": ["path,label"], "rare": ["path,label"], "soft": ["path,cat,dog"]}
    rows["several"] = ["path,labels,split"]
    for i in range(60):
        pixels = np.kron(rng.integers(0, 256, (6, 6, 3), "uint8"), np.ones((6, 6, 1), "uint8"))
        Image.fromarray(pixels).save(tmp_path / f"{i:02d}.png")
        rows["age"].append(f"{i:02d}.png,{20 + i},")
        rows["grade"].append(f"{i:02d}.png,{('poor', 'fair', 'good')[i % 3]}")
        rows["rare"].append(f"{i:02d}.png,{'owl' if i >= 6 else 'rat'}")
        rows["soft"].append(f"{i:02d}.png,{i / 59:.2f},{1 - i / 59:.2f}")
        rows["several"].append(f"{i:02d}.png,{'cat;dog' if i % 2 else 'cat'},{'train' if i < 40 else 'test'}")
    for name, lines in rows.items():
        (tmp_path / f"{name}.csv").write_text("\n".join(lines) + "\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def said(capsys, *arguments, status=0):
    assert cli.main(list(map(str, arguments))) == status
    output = capsys.readouterr()
    return " ".join((output.out if not status else output.err).split())


def planned(capsys, weights, table, *options):
    text = said(
        capsys, "finetune", table, "--workdir", "run", "--model", weights, "--image-size", 32, "--plan", *options
    )
    recipe = load_recipe("run/recipe.py")
    check_labels(recipe)
    with open("run/splits.csv") as file:
        return text, recipe, list(csv.DictReader(file))


def test_finetune_plans_a_regression_in_equal_parts_of_the_values(folder, weights, capsys):
    text, recipe, rows = planned(capsys, weights, "age.csv", "--numbers", "age")
    assert "and a new head for age" in text and "no lower loss on the validation split" in text
    assert (recipe.loss.kind, recipe.data.targets, recipe.data.columns) == ("huber", "numbers", ("age",))
    assert recipe.loss.label_smoothing == 0 and "label smoothing" not in text
    assert list(rows[0]) == ["path", "age", "split", "sha256"]
    ages = {split: [float(row["age"]) for row in rows if row["split"] == split] for split in ("train", "test")}
    assert sorted(Counter(int(age - 20) // 12 for age in ages["test"]).values()) == [2] * 5  # two of each fifth
    from keras_vit.data.sources import open_data

    opened = open_data(recipe.data, "test")
    assert opened.labels == ("age",) and sorted(opened.targets[:, 0]) == sorted(ages["test"])


def test_finetune_plans_ordered_classes_and_probabilities(folder, weights, capsys):
    text, recipe, _ = planned(capsys, weights, "grade.csv", "--order", "poor,fair,good")
    assert recipe.loss.kind == "ordinal" and recipe.data.classes == ("poor", "fair", "good")
    assert "no higher kappa on the validation split" in text
    for file in (folder / "run").iterdir():
        file.unlink()
    _, recipe, rows = planned(capsys, weights, "soft.csv", "--probabilities", "cat,dog")
    assert (recipe.loss.kind, recipe.data.targets, list(rows[0])[1:3]) == ("softmax", "probabilities", ["cat", "dog"])


@pytest.mark.broad
def test_finetune_weighs_rare_classes_above_a_ratio_and_says_so(folder, weights, capsys):
    text, recipe, rows = planned(capsys, weights, "rare.csv")
    counts = Counter(row["label"] for row in rows if row["split"] == "train")
    assert recipe.loss.logit_adjustment == 1.0 and counts["owl"] > 5 * counts["rat"]
    assert f"rare rat has {counts['rat']} images to train on and owl {counts['owl']}, over 5 times as many" in text
    assert "the mean accuracy of the classes rises, and the accuracy may fall" in text
    for file in (folder / "run").iterdir():
        file.unlink()
    text, recipe, _ = planned(capsys, weights, "grade.csv")
    assert recipe.loss.logit_adjustment == 0 and "so rare classes count more" not in text


@pytest.mark.parametrize(
    ("header", "rows", "expected"),
    [
        ("label", ["cat", "dog", "cat"], ("classes", (), "")),
        ("label", ["cat;dog", "dog", "cat"], ("classes", (), "'cat;dog' is read as one class; a column named labels")),
        ("label", ["1", "2", "3"] * 9, ("classes", (), "--order 1,2,3 fits ordered ones, --numbers label values")),
        ("label", ["1.5", "2", "3"], ("numbers", ("label",), "the column label has 3 different numbers")),
        ("label", [str(i) for i in range(60)], ("numbers", ("label",), "60 different numbers, so the model is a reg")),
        ("label", [str(i % 60) for i in range(600)], ("classes", (), "--order NAMES")),
        ("labels,note", ["cat;dog,x", ",y", "cat,z"], ("several", ("labels",), "several labels per image")),
        ("cat,dog", ["1,0", "True,False", "0.0,1.0"], ("several", ("cat", "dog"), "columns of 0 and 1")),
        ("cat,dog", ["0.3,0.7", "1,0", "0.5,0.5"], ("probabilities", ("cat", "dog"), "--numbers cat,dog fits")),
        ("age,weight", ["1,70", "2,65", "3,80"], ("numbers", ("age", "weight"), "the columns age, weight have numbe")),
        ("age", ["1", "2", "3"], ("numbers", ("age",), "the column age has numbers, so the model is a regression")),
        ("age,note", ["1,x", "2,y", "3,z"], "received 'table.csv' with the columns path, age, note; --numbers age"),
        ("cat", ["1", "0", "1"], "--data expected a CSV file with a column label (one class per image)"),
    ],
)  # fmt: skip
def test_a_table_says_what_it_states(header, rows, expected, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = [f"path,{header}", *(f"{i}.png,{row}" for i, row in enumerate(rows))]
    (tmp_path / "table.csv").write_text("\n".join(lines) + "\n")
    if isinstance(expected, str):
        with pytest.raises(ValueError) as error:
            targets_of("table.csv", "--data")
        assert expected in str(error.value)
        return
    found = targets_of("table.csv", "--data")
    assert (found.kind, found.columns) == expected[:2] and expected[2] in found.note
    assert bool(found.note) == bool(expected[2])


def test_finetune_plans_several_labels_stratified_by_the_rarest(folder, weights, capsys):
    lines = [f"{i:02d}.png,{'cat;dog' if i % 2 else 'cat'}{';owl' if i % 10 == 0 else ''}" for i in range(60)]
    (folder / "all.csv").write_text("\n".join(["path,labels", *lines]) + "\n")
    text, recipe, rows = planned(capsys, weights, "all.csv")
    assert "test: cat 60, dog 30, owl 6." in text and "a new classifier of several labels per image" in text
    assert "no higher mean average precision on the validation split" in text and "smoothing" not in text
    assert (recipe.loss.kind, recipe.data.targets) == ("sigmoid", "classes") and 0 < recipe.model.head_bias < 0.3
    assert "mean_average_precision" in recipe.evaluate.metrics
    assert list(rows[0]) == ["path", "labels", "split", "sha256"]
    assert Counter(row["split"] for row in rows if "owl" in row["labels"]) == {"train": 4, "validation": 1, "test": 1}
    from keras_vit.data.sources import open_data

    assert open_data(recipe.data, "test").labels == ("cat", "dog", "owl")


@pytest.mark.broad
def test_finetune_plans_columns_of_0_and_1(folder, weights, capsys):
    from keras_vit.data.sources import open_data

    matrix = [f"{i:02d}.png,{i % 2},{int(i % 3 == 0)}" for i in range(60)]
    (folder / "matrix.csv").write_text("\n".join(["path,cat,dog", *matrix]) + "\n")
    _, recipe, rows = planned(capsys, weights, "matrix.csv")
    assert list(rows[0]) == ["path", "cat", "dog", "split", "sha256"]
    opened = open_data(recipe.data, "train")
    assert opened.multi and opened.labels == ("cat", "dog") and opened.count == 42


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            ["age.csv"],
            "one column of 0 and 1 for each label, received 'age.csv' with the columns path, age, note; --numbers age",
        ),
        (["age.csv", "--numbers", "height"], "FOLDER expected a CSV file with the columns path, height, received"),
        (["age.csv", "--numbers", "age,"], "--numbers expected distinct names separated by commas, received 'age,'"),
        (
            ["age.csv", "--numbers", "age", "--order", "a,b"],
            "--numbers expected no other of --numbers, --probabilities",
        ),
        (["pictures", "--numbers", "age"], "--numbers expected a CSV file, which has columns, received 'pictures'"),
        (
            ["grade.csv", "--order", "poor,good"],
            "--order expected the names of all classes (fair, good, poor), received",
        ),
        (["soft.csv", "--probabilities", "cat"], "expected a column for each of 2 classes or more"),
        (
            ["several.csv", "--order", "cat,dog"],
            "--order expected a table of other targets, received 'several.csv': the column labels has several labels "
            "per image; without --order it is read so.",
        ),
        (["several.csv", "--numbers", "labels"], "--numbers expected a table of other targets"),
        (["grade.csv", "--numbers", "label"], "received 'poor' in row 1; names are classes, which need no option"),
    ],
)
def test_a_mistake_gets_one_sentence(arguments, sentence, folder, weights, capsys):
    arguments = ["finetune", *arguments, "--workdir", "run", "--model", weights, "--image-size", "32", "--plan"]
    assert sentence in said(capsys, *arguments, status=2)
    assert not (folder / "run").exists()


@pytest.mark.broad
def test_new_writes_a_recipe_for_each_table(folder, capsys):
    wanted = {
        "age": (["--numbers", "age"], "huber", 46),
        "grade": (["--order", "poor,fair,good"], "ordinal", 46),
        "rare": ([], "softmax", 46),
        "soft": (["--probabilities", "cat,dog"], "softmax", 46),
        "several": ([], "sigmoid", 40),
    }
    for name, (options, kind, train) in wanted.items():
        text = said(capsys, "new", f"{name}.py", "--data", f"{name}.csv", "--model", "ViT_Ti16", *options)
        recipe = load_recipe(f"{name}.py")
        check_labels(recipe)
        assert recipe.loss.kind == kind and recipe.data.directory == f"{name}.csv"
        note = " ".join(runpy.run_path(f"{name}.py")["__doc__"].split())
        count = int(note.split("Data: ")[1].split()[0])
        assert (count == train or name != "several") and f"{count} training" in text
        if name == "age":
            assert "with values of age (age)" in note or "with values of age" in note
    assert "values of age" in said(
        capsys, "new", "b.py", "--data", "age.csv", "--numbers", "age", "--model", "ViT_Ti16"
    )


def test_check_reads_a_table(folder, capsys):
    (folder / "03.png").write_bytes(b"no image")
    (folder / "04.png").write_bytes((folder / "06.png").read_bytes())
    (folder / "50.png").unlink()
    assert cli.main(["check", "several.csv", "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert report["files"] == 60 and report["splits"] == {"train": {"": 39}, "test": {"": 19}}
    assert [row["file"].rsplit("/", 1)[-1] for row in report["broken"]] == ["03.png", "50.png"]
    assert len(report["duplicates_within"]) == 1 and report["tiny_classes"] == []
    assert cli.main(["check", "rare.csv"]) == 1
    output = capsys.readouterr().out
    assert "rare.csv: 60 files of 2 classes" in output and "  rat: " in output
