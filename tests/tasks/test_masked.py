"""Masked patch prediction: its model, its update, and a run of it."""

import json
import os
import signal
from dataclasses import replace

import keras
import numpy as np
import pytest
import tensorflow as tf
from support import max_difference, needs_tensorflow, quick_first, randomise, run_python
from train import tiny

import keras_vit
from keras_vit import cli
from keras_vit.tasks.masked import MaskedPatches
from keras_vit.train import engine, step
from keras_vit.train.datasets import Datasets
from keras_vit.train.engine import train
from keras_vit.train.recipe import (
    Augment,
    Average,
    Curriculum,
    Data,
    Evaluate,
    Loss,
    Masked,
    Model,
    Optimizer,
    Recipe,
    Schedule,
    Stage,
)
from keras_vit.train.recipe.file import from_json, to_json
from keras_vit.train.stages import spans_of
from keras_vit.train.state import first_state

pytestmark = needs_tensorflow
pytest.importorskip("sklearn", reason="scikit-learn carries the digits")

ROW = replace(tiny.ROW, width=16, mlp_dim=32, image_size=16)
RECIPE = replace(
    tiny.RECIPE,
    model=replace(tiny.RECIPE.model, variant=ROW, drop_path_rate=0.1),
    augment=Augment(shift=0.1, rotate=10),
    optimizer=replace(tiny.RECIPE.optimizer, weight_decay=0.01, clip_norm=1.0),
    evaluate=Evaluate(every=1, few_shot="digits", shots=(2,)),
    curriculum=Curriculum((Stage(0.4, image_size=8),)),
    masked=Masked(),
    epochs=2,
    seed=3,
)
RNG = np.random.default_rng(0)


def update_of(recipe, compiled=False):
    strategy = tf.distribute.get_strategy()
    state = first_state(recipe, ("a", "b"), 100, strategy)
    randomise(state.model)
    update = step.Step(recipe, state, strategy, spans_of(recipe, 100)[0])
    return state, tf.function(update, jit_compile=compiled)


def batch_of(recipe, count=16):
    shape = spans_of(recipe, 100)[0].input_shape
    images = tf.constant(RNG.uniform(-1, 1, (count, *shape)), tf.float32)
    return images, MaskedPatches(recipe, shape).corrupt(0, tf.range(count, dtype=tf.int64))


STILL = replace(
    RECIPE, model=Model(replace(ROW, depth=1), channels=1), optimizer=Optimizer("sgd", learning_rate=0.1),
    schedule=Schedule("constant"), average=Average(), curriculum=Curriculum(),
)  # fmt: skip


def test_the_loss_does_not_hang_on_patches_that_are_seen_and_the_model_not_on_hidden_ones():
    """Written out from the model's own layers: the mask token stands where the plan says 0."""
    recipe = replace(STILL, masked=Masked(mask=1.0, swap=0.0))
    state, _ = update_of(recipe)
    images, targets = batch_of(recipe, 2)
    sources, places = targets[:, :16], targets[:, 16:]
    layers = {layer.name: layer for layer in state.model.layers}
    x = np.array(layers["tokens"](layers["embedding"](images)))
    for b in range(2):
        x[b, places.numpy()[b]] = np.array(layers["patch_corruption"].mask_token)[0, 0]
    x = layers["position_embedding"](layers["class_token"](x))
    x = np.array(layers["encoder_norm"](layers["encoder_block_00"](x)))
    x = np.stack([x[b, 1 + places.numpy()[b]] for b in range(2)])
    expected = layers["patch_prediction"].dense(x)
    assert max_difference(state.model([images, sources, places]), expected) < 1e-5


@pytest.mark.broad
@pytest.mark.parametrize("changes", quick_first([{"accumulate": 4}, {"sam": 0.05}], [{"sam": 0.05}]), ids=str)
def test_parts_of_a_batch_and_sam_work_as_with_classes(changes):
    images, targets = batch_of(STILL)
    (plain, update), (state, other) = (
        update_of(replace(STILL, optimizer=replace(STILL.optimizer, **options))) for options in ({}, changes)
    )
    assert float(other(images, targets)[0]) == pytest.approx(float(update(images, targets)[0]), abs=1e-6)
    difference = max_difference(plain.trained, state.trained)
    assert difference < 1e-6 if "accumulate" in changes else 1e-6 < difference < 0.1


@pytest.mark.broad
@pytest.mark.parametrize("precision", quick_first(["float32", "mixed_bfloat16", "mixed_float16"], ["float32"]))
def test_the_whole_update_compiles_and_is_the_same(precision):
    recipe = replace(STILL, precision=precision)
    images, targets = batch_of(recipe)
    found = []
    for compiled in (False, True):
        state, update = update_of(recipe, compiled)
        start = [np.array(v) for v in state.trained]
        losses = [float(update(images, targets)[0]) for _ in range(2)]
        found.append((losses, np.concatenate([np.ravel(v - w) for v, w in zip(state.trained, start, strict=True)])))
    (losses, way), (others, other_way) = found
    tolerance = 1e-4 if precision == "float32" else 3e-2
    assert np.allclose(losses, others, atol=tolerance) and losses[0] != losses[1]
    assert np.linalg.norm(way - other_way) < (1e-3 if precision == "float32" else 0.05) * np.linalg.norm(way)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    workdir = tmp_path_factory.mktemp("masked") / "run"
    return workdir, train(RECIPE, workdir)


def lines(workdir, name):
    rows = [json.loads(line) for line in (workdir / "metrics.jsonl").read_text().splitlines()]
    return [row["value"] for row in rows if row["name"] == name]


@pytest.mark.broad
def test_a_run_leaves_the_encoder_the_whole_and_its_numbers(run):
    workdir, summary = run
    assert 0 < summary["accuracy"] < 1 and 0 <= summary["few_shot_2"] <= 1 and summary["test_examples"] == 72
    encoder, whole = (keras.saving.load_model(workdir / f"{name}.keras") for name in ("model", "masked"))
    assert encoder.output_shape == (None, 16) and [x.name for x in whole.inputs] == ["images", "sources", "places"]
    images = RNG.uniform(-1, 1, (2, 16, 16, 1)).astype("float32")
    features = MaskedPatches(RECIPE, (16, 16, 1)).features(whole)
    assert max_difference(encoder(images), features(tf.constant(images))) < 1e-5
    assert from_json(to_json(RECIPE)) == RECIPE and json.loads((workdir / "recipe.json").read_text())["masked"]


@pytest.mark.large  # tests/train/test_stages.py has the same of a classifier
def test_stopped_in_every_stage_it_goes_on_to_the_same_bit(run, tmp_path, monkeypatch):
    monkeypatch.setattr(engine, "CALL_SECONDS", 0.0)
    for _ in range(2):  # in the stage of small images, and in that of large ones
        with monkeypatch.context() as patch:
            calls, save = [], engine.Checkpoints.save

            def saving(self, at, save=save, calls=calls):
                save(self, at)
                calls.append(at)
                if len(calls) == 2:
                    os.kill(os.getpid(), signal.SIGTERM)

            patch.setattr(engine.Checkpoints, "save", saving)
            with pytest.raises(SystemExit):
                train(RECIPE, tmp_path / "parts")
    summary = train(RECIPE, tmp_path / "parts")
    for name in ("model", "masked"):
        one, other = (keras.saving.load_model(folder / f"{name}.keras") for folder in (run[0], tmp_path / "parts"))
        assert all(np.array_equal(a, b) for a, b in zip(one.get_weights(), other.get_weights(), strict=True))
    assert lines(run[0], "loss") == lines(tmp_path / "parts", "loss") and summary["loss"] == run[1]["loss"]


@pytest.mark.broad
def test_the_encoder_fine_tunes_like_any_weight(run, tmp_path):
    source = str(run[0] / "model.keras")
    model = Model(ROW, channels=1, weights=source)
    tuned = first_state(replace(RECIPE, model=model, masked=None), ("a", "b"), 10, tf.distribute.get_strategy()).model
    encoder = keras.saving.load_model(source)
    assert tuned.output_shape == (None, 2)
    for name in ("embedding", "encoder_block_01", "encoder_norm", "position_embedding"):
        pairs = zip(tuned.get_layer(name).get_weights(), encoder.get_layer(name).get_weights(), strict=True)
        assert all(np.array_equal(a, b) for a, b in pairs), name
    larger = keras_vit.from_pretrained(source, input_shape=(24, 24, 1))
    assert larger.get_layer("position_embedding").grid == (6, 6)


@pytest.mark.broad
def test_the_command_line_says_and_draws_it(run, tmp_path, capsys):
    pytest.importorskip("matplotlib", reason="extra `analysis` is not installed")
    workdir = str(run[0])
    assert cli.main(["train", f"{workdir}/recipe.json", "--workdir", workdir]) == 0
    assert "of masked patches on 72 images" in capsys.readouterr().out
    assert cli.main(["analyze", workdir, "--output", str(tmp_path), "--limit", "20"]) == 0
    assert {path.name for path in tmp_path.iterdir()} >= {"masked.png", "training.png", "attention.png", "index.html"}
    assert cli.main(["evaluate", workdir]) == 2
    assert "model expected a classifier, received tiny, which has no top." in capsys.readouterr().err


@pytest.mark.large
def test_it_learns(tmp_path):
    """The loss of whoever knows how common each colour is, and nothing of the image, is the entropy of the colours."""
    row = replace(ROW, width=32, mlp_dim=64, patch_size=2, image_size=8)
    recipe = Recipe(
        "learns", Model(row, channels=1), Data("digits", batch_size=64), masked=Masked(),
        optimizer=Optimizer("adamw", learning_rate=3e-3), schedule=Schedule("cosine", warmup_steps=20), epochs=14,
    )  # fmt: skip
    summary = train(recipe, tmp_path / "run")
    data = Datasets.open(recipe)
    own = MaskedPatches(recipe, (8, 8, 1))
    classes = np.concatenate([own.patch_targets(images).numpy().ravel() for images, *_ in data.evaluation(data.test)])
    shares = np.bincount(classes, minlength=8) / len(classes)
    entropy = -(shares[shares > 0] * np.log(shares[shares > 0])).sum()
    assert summary["loss"] < 0.85 * entropy and summary["accuracy"] > shares.max() + 0.05, (summary, entropy)


def test_workers_parts_of_an_evaluation_are_corrupted_as_the_whole_is():
    data, task = Datasets.open(RECIPE), MaskedPatches(RECIPE, (16, 16, 1))
    of = lambda shard: list(task.evaluation(data.evaluation(data.test, shard), shard).as_numpy_iterator())  # noqa: E731
    whole, parts = of((0, 1)), [of((i, 2)) for i in range(2)]
    assert len(whole) == len(parts[0]) == 5  # 72 images in batches of 16
    for expected, *halves in zip(whole, *parts, strict=True):
        for one, *two in zip(expected, *halves, strict=True):
            np.testing.assert_array_equal(one, np.concatenate(two))


@pytest.mark.broad
def test_pixels_have_no_accuracy(tmp_path):
    recipe = replace(RECIPE, masked=Masked("pixels"), epochs=1, evaluate=Evaluate(), curriculum=Curriculum())
    summary = train(recipe, tmp_path / "run")
    assert "accuracy" not in summary and summary["loss"] > 0


MIRRORED = """
import tensorflow as tf
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
import sys, tempfile, keras, numpy as np
sys.path.insert(0, "tests")
from dataclasses import replace
from keras_vit.train.engine import train
from tasks.test_masked import STILL
found = []
for strategy in ("one", "mirrored"):
    with tempfile.TemporaryDirectory() as folder:
        summary = train(replace(STILL, epochs=1, evaluate=replace(STILL.evaluate, few_shot=None)), folder + "/run",
                        strategy=strategy)
        found.append([summary["loss"], *keras.saving.load_model(folder + "/run/masked.keras").get_weights()])
print(max(float(np.max(np.abs(a - b))) for a, b in zip(*found, strict=True)) < 1e-5)
"""


@pytest.mark.large  # tests/train/test_distribution.py has the same of a classifier
def test_two_replicas_hide_the_same_patches_and_make_the_same_updates():
    assert run_python(MIRRORED).strip().endswith("True")


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"masked": "mean_colour"}, r"masked expected Masked\(...\) or null, received 'mean_colour'"),
        ({"model": Model("BiT_R50x1", pooling="gap")}, "variant expected a row with patches to mask"),
        ({"model": replace(RECIPE.model, pooling="map")}, "pooling expected 'token' or 'gap' with masked patches"),
        ({"model": replace(RECIPE.model, weights="a.npz")}, "weights expected null with masked patches"),
        ({"augment": Augment(mixup=0.2)}, "mixup expected 0 with masked patches, received 0.2"),
        ({"loss": Loss("sigmoid")}, "loss expected the default one with masked patches, whose target says it"),
        ({"model": replace(RECIPE.model, patch_size=2), "masked": Masked("colours")},
         r"patch_size expected a multiple of 4 pixels for 4 x 4 colours, received \(2, 2\)"),
        ({"model": replace(RECIPE.model, patch_size=16)}, "image_size expected two patches or more"),
        ({"curriculum": Curriculum((Stage(0.5, patch_size=8),))}, "patch_size expected null in a stage with masked"),
    ],
    ids=str,
)  # fmt: skip
def test_recipes_that_make_no_sense_are_refused(changes, sentence):
    with pytest.raises(ValueError, match=sentence):
        replace(RECIPE, **changes)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"target": "edges"}, r"target expected one of \('mean_colour', 'colours', 'pixels'\), received 'edges'"),
        ({"share": 0}, r"share expected a share in \(0, 1\], received 0"),
        ({"mask": 0.8, "swap": 0.3}, "mask expected a share that leaves room for swap, received 0.8"),
    ],
)
def test_mistakes_are_named(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        Masked(**options)
