"""Suites of evaluations, on small generated data sets in TensorFlow Datasets' own format: the real ones are not here.

Their features, versions and label names are the real ones'; their images are noise with a shade for each class.
"""

import json
import re

import keras
import numpy as np
import pytest
import tensorflow as tf
from support import ROOT, needs_tensorflow, randomise

import keras_vit
from keras_vit import cli
from keras_vit.cost.published import published
from keras_vit.data.vtab import TASKS
from keras_vit.evaluate import suite_runner
from keras_vit.evaluate.probing import Extractor
from keras_vit.evaluate.suite_tables import suite_table
from keras_vit.evaluate.suites import Settings, run_suite
from keras_vit.evaluate.transfer import PAPER, VTAB1K, fine_tuning
from keras_vit.train.recipe import Model
from keras_vit.train.recipe.file import recipes_in

pytestmark = needs_tensorflow
tfds = pytest.importorskip("tensorflow_datasets", reason="tensorflow-datasets is not installed")
pytest.importorskip("sklearn", reason="scikit-learn is not installed")
ROW = keras_vit.Variant("tiny", width=16, depth=1, mlp_dim=16, num_heads=2, patch_size=4, image_size=8)
SHORT = ("steps=2", "schedule.warmup_steps=1", "data.batch_size=20", "model.image_size=8", "augment.crop=none")
SHORT += ("augment.flip=false", "data.resize=null")


def shaded(labels, channels=3, side=9, seed=0):
    """Noise around a shade that depends on the label."""
    noise = np.random.default_rng(seed).normal(0, 12, (len(labels), side, side, channels))
    return np.clip(40 * (np.asarray(labels) % 6)[:, None, None, None] + 20 + noise, 0, 255).astype("uint8")


def made(root, name, features, examples, version):
    tfds.dataset_builders.store_as_tfds_dataset(
        name=name, version=version, data_dir=str(root), features=tfds.features.FeaturesDict(features),
        split_datasets={split: tf.data.Dataset.from_tensor_slices(rows) for split, rows in examples.items()},
        disable_shuffling=True,
    )  # fmt: skip


def labelled(root, name, version, classes, splits, feature="label"):
    """A data set of images and classes: split -> labels."""
    features = {
        "image": tfds.features.Image(shape=(None, None, 3)), feature: tfds.features.ClassLabel(num_classes=classes)
    }  # fmt: skip
    rows = {
        split: {"image": shaded(labels, seed=i), feature: labels} for i, (split, labels) in enumerate(splits.items())
    }
    made(root, name, features, rows, version)


def real_labels(root, sets):
    """imagenet2012_real: a set of right classes for each image."""
    features = tfds.features.FeaturesDict({
        "image": tfds.features.Image(shape=(None, None, 3)),
        "original_label": tfds.features.ClassLabel(num_classes=1000),
        "real_label": tfds.features.Sequence(tfds.features.ClassLabel(num_classes=1000)),
        "file_name": tfds.features.Text(),
    })  # fmt: skip

    def rows():
        for i, image in enumerate(shaded(np.arange(len(sets)))):
            yield {"image": image, "original_label": i, "real_label": sets[i], "file_name": str(i)}

    signature = {
        "image": tf.TensorSpec((9, 9, 3), tf.uint8), "original_label": tf.TensorSpec((), tf.int64),
        "real_label": tf.TensorSpec((None,), tf.int64), "file_name": tf.TensorSpec((), tf.string),
    }  # fmt: skip
    tfds.dataset_builders.store_as_tfds_dataset(
        name="imagenet2012_real", version="1.0.0", data_dir=str(root), features=features, disable_shuffling=True,
        split_datasets={"validation": tf.data.Dataset.from_generator(rows, output_signature=signature)},
    )  # fmt: skip


SETS = [[3, 5], [], [1], [7, 2, 9], [4], [], [0, 1]] + [[i % 10] for i in range(13)]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """dSprites, Cars, CIFAR-10 and the ImageNets, each with a handful of made images."""
    root = tmp_path_factory.mktemp("tfds")
    count = np.arange(2000)
    sprites = {
        "image": ((count // 2) % 2).astype("uint8")[:, None, None, None] * np.ones((1, 6, 6, 1), "uint8"),
        "label_x_position": (count // 2) % 2 * 16 + count % 2,
        "label_orientation": count % 40,
    }
    features = {
        "image": tfds.features.Image(shape=(6, 6, 1)),
        "label_x_position": tfds.features.ClassLabel(num_classes=32),
        "label_orientation": tfds.features.ClassLabel(num_classes=40),
    }
    made(root, "dsprites", features, {"train": sprites}, "2.0.0")
    labelled(root, "cars196", "2.1.0", 196, {"train": np.arange(60) % 6, "test": np.arange(30) % 6})
    labelled(root, "cifar10", "3.0.2", 10, {"train": np.arange(100) % 10, "test": np.arange(30) % 10})
    labelled(root, "imagenet2012", "5.1.0", 1000, {"train": np.arange(100) % 9, "validation": np.arange(20) % 10})
    labelled(root, "imagenet_r", "0.2.0", 1000, {"test": np.array([2, 5, 999] * 5)})
    real_labels(root, SETS)
    return str(root)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """The file of a model of 1,000 classes."""
    path = tmp_path_factory.mktemp("model") / "model.keras"
    keras.utils.set_random_seed(1)
    randomise(keras_vit.build(ROW, activation="gelu")).save(path)
    return str(path)


def settings(suite, model, output, data, **more):
    return Settings(suite, model, output, data, **more)


def quiet(_):
    pass


@pytest.mark.broad
def test_vtab_is_probed_task_by_task_and_goes_on(model, data, tmp_path, monkeypatch):
    said = []
    probed = settings("vtab1k", model, tmp_path, data, probe="ridge")
    results = run_suite(probed, said.append)
    assert set(results["tasks"]) == {"dsprites_loc", "dsprites_ori"} and len(results["missing"]) == 17
    assert re.search(r"'caltech101:3.*' prepared in .*; run `tfds build caltech101", results["missing"]["caltech101"])
    assert len(said) == 19 and json.loads((tmp_path / "results.json").read_text()) == results
    assert results["tasks"]["dsprites_loc"]["examples"] == 200
    assert results["tasks"]["dsprites_loc"]["accuracy"] == 1.0  # white or black
    assert 0 <= results["tasks"]["dsprites_ori"]["accuracy"] < 0.3

    table = suite_table(results)
    lines = {line.split("|")[1].strip(): line for line in table.splitlines() if line.startswith("|")}
    for task in TASKS:
        assert all(f" {row.scores[task.name]:.1f} " in lines[task.paper] for row in published(9))
    assert "100.00" in lines["dSpr-Loc"] and "–" in lines["SVHN"] and "(2 of 8 tasks)" in lines["**mean, structured**"]
    natural = np.mean([published(9)[0].scores[task.name] for task in TASKS if task.group == "natural"])
    assert f" {natural:.1f} " in lines["**mean, natural**"]
    assert " 77.6 " in lines["**mean, all**"] and "(2 of 19 tasks)" in lines["**mean, all**"]

    # what is done is done; a data set that has come since is measured
    monkeypatch.setattr(suite_runner.Extractor, "__call__", lambda *_: pytest.fail("measured again"))
    with pytest.raises(FileNotFoundError):
        suite_runner.Runner(probed).model and suite_runner.open_split("vtab:svhn", "test", data)
    only = settings("vtab1k", model, tmp_path, data, probe="ridge", tasks=("dsprites_ori", "dsprites_loc"))
    assert run_suite(only, quiet)["tasks"] == results["tasks"]


@pytest.mark.broad
def test_features_are_kept_between_probes(model, data, tmp_path, monkeypatch):
    one = settings("vtab1k", model, tmp_path / "a", data, probe="knn", tasks=("dsprites_loc",))
    assert run_suite(one, quiet)["tasks"]["dsprites_loc"]["accuracy"] == 1.0
    kept = list((tmp_path / "a/features").iterdir())
    assert len(kept) == 3  # train800, val200, test
    monkeypatch.setattr(suite_runner.Extractor, "_compute", lambda *_: pytest.fail("computed again"))
    (tmp_path / "a/results.json").unlink()
    found = run_suite(settings("vtab1k", model, tmp_path / "a", data, probe="logistic", tasks=("dsprites_loc",)), quiet)
    assert found["tasks"]["dsprites_loc"]["accuracy"] == 1.0 and found["tasks"]["dsprites_loc"]["c"] > 0


@pytest.mark.broad
def test_a_model_without_a_classifier_is_probed_on_what_it_puts_out(model, data, tmp_path):
    own = keras_vit.load_model(model)
    keras.Model(own.input, own.get_layer("pooling").output).save(tmp_path / "headless.keras")
    whole, headless = (
        Extractor(keras_vit.load_model(path), None, data) for path in (model, tmp_path / "headless.keras")
    )
    pairs = [extractor("tfds:cars196", "test").x for extractor in (whole, headless)]
    np.testing.assert_allclose(*pairs, rtol=1e-4, atol=1e-5)  # the one computes the class token alone in its last block
    with pytest.raises(ValueError, match=r"model expected a classifier or pooled features \(batch, D\), received"):
        Extractor(keras.Model(own.input, own.get_layer("encoder_norm").output))


@pytest.mark.broad
def test_fine_tuning_takes_the_best_rate_of_the_papers_recipe(model, data, tmp_path, monkeypatch):
    trained = []
    real = suite_runner.train
    monkeypatch.setattr(suite_runner, "train", lambda recipe, *rest: (trained.append(recipe), real(recipe, *rest))[1])
    tuned = settings("paper", model, tmp_path, data, tasks=("cifar10", "pets"), rates=(0.001, 0.3), changes=SHORT)
    tuned = Settings(**{**vars(tuned), "changes": (*SHORT, "data.batch_size=2")})
    results = run_suite(tuned, quiet)
    assert [(r.optimizer.learning_rate, r.data.train_split, r.data.test_split) for r in trained[:2]] == [
        (0.001, "train[:98%]", "train[98%:]"), (0.3, "train[:98%]", "train[98%:]")
    ]  # fmt: skip
    assert (trained[2].data.train_split, trained[2].data.test_split) == ("train", "test")
    assert len(trained) == 4  # the fourth found no Pets
    found = results["tasks"]["cifar10"]
    assert found["learning_rate"] == trained[2].optimizer.learning_rate and found["examples"] == 30
    dev = [
        json.loads((tmp_path / f"runs/cifar10/lr{rate}/summary.json").read_text())["accuracy"] for rate in (0.001, 0.3)
    ]
    assert found["learning_rate"] == (0.001 if dev[0] >= dev[1] else 0.3)
    own = keras_vit.load_model(tmp_path / "runs/cifar10/final")
    assert own.get_layer("encoder_block_00").activation == "gelu"  # the start's, not the builder's default
    assert "oxford_iiit_pet" in results["missing"]["pets"]
    assert run_suite(tuned, quiet)["tasks"] == results["tasks"] and len(trained) == 5


def test_a_rate_whose_accuracy_is_no_number_is_not_the_best(model, data, tmp_path, monkeypatch):
    scores = {0.3: float("nan"), 0.1: 0.5, 0.01: 0.4}
    monkeypatch.setattr(
        suite_runner.Runner,
        "_train",
        lambda self, task, rate, *_, **__: {"accuracy": scores[rate], "test_examples": 9},
    )
    tuned = suite_runner.Runner(settings("paper", model, tmp_path, data, rates=tuple(scores)))
    assert tuned.measure(next(task for task in PAPER if task.name == "pets"))["learning_rate"] == 0.1


@pytest.mark.broad
def test_imagenet_is_trained_on_once_for_both_of_its_labels(model, data, tmp_path):
    tuned = settings("paper", model, tmp_path, data, tasks=("imagenet", "real"), rates=(0.01,), changes=SHORT)
    results = run_suite(tuned, quiet)
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["imagenet"]
    assert results["tasks"]["imagenet"]["examples"] == 20 and results["tasks"]["real"]["examples"] == 18
    table = suite_table(results)
    assert "88.55 ± 0.04" in table and "this model, fine-tuned" in table  # of no row of the paper's: all of Table 2


def scores_of(model, count, split="validation"):
    images = tf.image.resize(shaded(np.arange(count), seed=0).astype("float32"), (8, 8), antialias=True)
    return np.asarray(model(images / 127.5 - 1.0))


def test_the_classifiers_own_accuracy_on_imagenets(model, data, tmp_path):
    results = run_suite(settings("real", model, tmp_path, data), quiet)
    assert set(results["tasks"]) == {"imagenet", "real", "r"} and set(results["missing"]) == {"v2", "a"}
    own = keras_vit.load_model(model)
    answers = scores_of(own, len(SETS)).argmax(axis=1)
    counted = [i for i, right in enumerate(SETS) if right]
    found = results["tasks"]["real"]
    assert found["examples"] == len(counted) == 18
    assert found["accuracy"] == pytest.approx(np.mean([answers[i] in SETS[i] for i in counted]))
    labels = np.array([2, 5, 999] * 5)
    images = tf.image.resize(shaded(labels, seed=0).astype("float32"), (8, 8), antialias=True)
    scores = np.asarray(own(images / 127.5 - 1.0))
    best = np.array([2, 5, 999])[scores[:, [2, 5, 999]].argmax(axis=1)]
    assert results["tasks"]["r"]["classes"] == 3
    assert results["tasks"]["r"]["accuracy"] == pytest.approx(np.mean(best == labels))
    assert 0 <= found["calibration"] <= 1 and "ImageNet-A" in suite_table(results)


@pytest.mark.broad
def test_few_shot_is_scikit_learns_ridge_on_the_middle_of_squeezed_images(model, data, tmp_path):
    linear = pytest.importorskip("sklearn.linear_model")
    few = settings("fewshot", model, tmp_path, data, tasks=("cars196", "dtd"), shots=(1, 5))
    results = run_suite(few, quiet)
    own = keras_vit.load_model(model)
    pooled = keras.Model(own.input, own.get_layer("pooling").output)
    parts = {}
    for i, (split, labels) in enumerate({"train": np.arange(60) % 6, "test": np.arange(30) % 6}.items()):
        images = tf.image.resize(shaded(labels, seed=i).astype("float32"), (9, 9), antialias=True)[:, :8, :8]
        parts[split] = np.asarray(pooled(images / 127.5 - 1.0), "float64"), labels
    for shots in (1, 5):
        right = []
        for seed in range(3):
            rng = np.random.default_rng(seed)
            x, y = parts["train"]
            chosen = np.concatenate([rng.permutation(np.flatnonzero(y == k))[:shots] for k in range(6)])
            mean, std = x[chosen].mean(axis=0), x[chosen].std(axis=0) + 1e-5
            rows = lambda x: np.c_[(x - mean) / std, np.full(len(x), 100.0)]  # noqa: E731,B023
            head = linear.Ridge(alpha=1024.0, fit_intercept=False, solver="cholesky")
            head.fit(rows(x[chosen]), 2 * np.eye(196)[y[chosen]] - 1)
            right.append(np.mean(head.predict(rows(parts["test"][0])).argmax(axis=1) == parts["test"][1]))
        found = results["tasks"]["cars196"]["shots"][str(shots)]
        assert found["accuracy"] == pytest.approx(np.mean(right), abs=0.012)  # one of 90 answers: float32 features
        assert found["deviation"] == pytest.approx(np.std(right, ddof=1), abs=0.02)
    assert "tfds build dtd" in results["missing"]["dtd"]
    assert re.search(r"\| cars196 \| [\d.]+ ± [\d.]+ \| [\d.]+ ± [\d.]+ \|", suite_table(results))


def test_the_recipes_are_those_of_the_recipe_file():
    rows = recipes_in(ROOT / "recipes/paper_finetune.py")
    start = Model(next(iter(rows.values())).model.variant, image_size=384)
    for task in (*PAPER, *VTAB1K):
        for rate in task.rates:
            name = f"vtab_{task.name}" if task.group else f"{task.trained_as or task.name}_lr{rate}"
            own, file = vars(fine_tuning(task, start, rate, choosing=not task.group)), vars(rows[name])
            same = {field for field in own if own[field] == file[field]}
            assert set(own) - same <= {"name", "evaluate", "data"}, name
            ours, theirs = vars(own["data"]), vars(file["data"])
            assert {f for f in ours if ours[f] != theirs[f]} <= {"test_split"}, name


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--probe"], "--suite expected the name of a suite with --probe, received nothing"),
        (
            ["--set", "x=1", "--resize", "9", "--shots", "1", "--rates", "1"],
            "suite with --shots, --rates, --resize, --set",
        ),
        (["--suite", "real", "--recipe", "r.py"], "--recipe expected a recipe's test data, received --suite"),
        (["--suite", "vtab1k", "--shots", "1"], "--shots expected --suite fewshot, received --suite vtab1k"),
        (
            ["--suite", "paper", "--probe", "--set", "steps=1"],
            "--set expected --suite vtab1k or paper without --probe, received --suite paper with --probe logistic",
        ),
        (["--suite", "fewshot", "--set", "steps=1"], "--set expected --suite vtab1k or paper without --probe"),
        (["--suite", "real", "--rates", "0.1"], "--rates expected --suite vtab1k or paper without --probe, received"),
        (["--suite", "fewshot", "--resize", "9"], "--resize expected --suite real, or --probe, received"),
        (["--suite", "vtab1k", "--resize", "9"], "--resize expected --suite real, or --probe, received --suite vtab1k"),
        (["--suite", "vtab1k"], "--output expected the folder of the results"),
        (
            ["--suite", "vtab1k", "--output", "{tmp}/o", "--tasks", "svhm"],
            "tasks expected some of caltech101, .*'?svhm",
        ),
        (["--suite", "real", "--output", "{tmp}/o", "--probe"], "--probe expected --suite vtab1k or paper"),
        (["--suite", "fewshot", "--output", "{tmp}/o", "--shots", "1,x"], "--shots expected positive numbers"),
        (["--suite", "vtab1k", "--output", "{tmp}/done", "--probe"], "results.json differs in how"),
    ],
)
def test_a_mistake_gets_one_sentence(arguments, sentence, model, data, tmp_path, capsys):
    if "{tmp}/done" in arguments:
        knn = settings("vtab1k", model, tmp_path / "done", data, probe="knn", tasks=("svhn",))
        run_suite(knn, quiet)
    arguments = [argument.format(tmp=tmp_path) for argument in arguments]
    assert cli.main(["evaluate", model, "--data-dir", data, *arguments]) == 2
    error = capsys.readouterr().err
    assert re.search(sentence, error) and "Traceback" not in error and error.strip().count("\n") == 0


def test_the_command_prints_the_table_and_writes_it_down(model, data, tmp_path, capsys):
    asked = ["evaluate", model, "--suite", "vtab1k", "--probe", "knn", "--tasks", "dsprites_loc,svhn"]
    assert cli.main([*asked, "--data-dir", data, "--output", str(tmp_path)]) == 0
    shown = capsys.readouterr()
    assert (tmp_path / "results.md").read_text() == shown.out and "| dSpr-Loc | structured | 100.00 |" in shown.out
    assert "run `tfds build svhn_cropped" in shown.out and "dsprites_loc: 100.00% of 200 images" in shown.err


def test_fresh_weights_are_refused(tmp_path):
    with pytest.raises(ValueError, match="model expected trained weights, received the name 'ViT_Ti16'"):
        run_suite(settings("real", "ViT_Ti16", tmp_path, None), quiet)
