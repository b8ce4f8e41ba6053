"""A run of two phases: the head alone, then all weights; and a run that keeps the head of another one."""

import dataclasses
import json
import math
from dataclasses import replace

import keras
import numpy as np
import pytest
import tensorflow as tf
from support import needs_tensorflow, randomise
from train import tiny

import keras_vit
from keras_vit import cli
from keras_vit.train import engine
from keras_vit.train.dry_run import dry_run
from keras_vit.train.engine import train
from keras_vit.train.model import build_model
from keras_vit.train.optim.schedule import LearningRate, rate_at
from keras_vit.train.recipe import (
    Checkpoint,
    Curriculum,
    EfficientNetVariant,
    Evaluate,
    HeadFirst,
    Masked,
    Model,
    Recipe,
    Schedule,
    Stage,
)
from keras_vit.train.recipe.file import from_json, override, to_json
from keras_vit.train.stages import Span, spans_of
from keras_vit.train.state import first_state
from keras_vit.train.step import compiled_steps
from keras_vit.weights import save_weights

pytestmark = needs_tensorflow
pytest.importorskip("sklearn", reason="scikit-learn carries the digits")
FIRST = HeadFirst(until=0.5, learning_rate=3e-2)
RECIPE = replace(
    tiny.RECIPE,
    optimizer=replace(tiny.RECIPE.optimizer, layer_decay=0.5),
    head_first=FIRST,
    evaluate=Evaluate(every=1, split="train[95%:]"),
    checkpoint=Checkpoint(seconds=0, keep=9),
    epochs=2,  # of 4 updates
)
LABELS = tuple(map(str, range(10)))


def weights(path):
    return keras.saving.load_model(path, compile=False).get_weights()


def same(one, other):
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def states(recipe, count, after=()):
    """Return the state of a recipe and its variables after each of `count` updates with the same images."""
    state = first_state(recipe, LABELS, recipe.steps, tf.distribute.get_strategy())
    rng = np.random.default_rng(0)
    images = rng.uniform(-1, 1, (16, *recipe.model.input_shape)).astype("float32")
    batches = tf.data.Dataset.from_tensors((images, np.eye(10, dtype="float32")[rng.integers(0, 10, 16)])).repeat()
    seen, spans = [], iter(spans_of(recipe, recipe.steps))
    span = None
    for step in range(count):
        if span is None or step == span.end:
            span = next(spans)
            if span.restarts:
                state.optimizer.restart()
            steps = compiled_steps(recipe, state, tf.distribute.get_strategy(), span)
        steps(iter(batches), tf.constant(1))
        seen.append({variable.path: np.array(variable) for variable in state.model.variables})
    return state, seen


def test_the_stages_and_the_rate_of_two_phases():
    recipe = replace(RECIPE, curriculum=Curriculum((Stage(0.8, image_size=4),)), head_first=HeadFirst(0.3, 0.5))
    small, own = (4, 4, 1), (8, 8, 1)
    assert spans_of(recipe, 10) == [Span(0, 3, small, head_only=True), Span(3, 8, small, optimizer_begin=3),
                                    Span(8, 10, own, optimizer_begin=3)]  # fmt: skip
    assert [span.restarts for span in spans_of(recipe, 10)] == [False, True, False]
    rate = LearningRate(0.1, 10, Schedule("cosine", warmup_steps=2), HeadFirst(0.3, 0.5))
    expected = [0.5] * 3 + [float(rate_at(step, 0.1, 7, "cosine", 2)) for step in range(7)]
    np.testing.assert_allclose([float(rate(step)) for step in range(10)], expected, rtol=1e-6)
    assert [HeadFirst(until).steps_of(total) for until, total in ((0.01, 5), (0.99, 5), (0.5, 1))] == [1, 4, 0]


@pytest.mark.parametrize("kind", ["adamw", "muon", pytest.param("adafactor", marks=pytest.mark.broad)])
def test_the_first_phase_moves_the_head_alone_and_the_second_one_starts_anew(kind):
    """The second phase makes the updates of a new run that begins with the weights of the first one."""
    recipe = replace(RECIPE, optimizer=replace(RECIPE.optimizer, kind=kind), average=replace(RECIPE.average, decay=0.9),
                     model=replace(RECIPE.model, dropout_rate=0.0), steps=6,
                     schedule=Schedule("cosine"))  # fmt: skip
    state, seen = states(recipe, 6)
    begin = first_state(recipe, LABELS, 6, tf.distribute.get_strategy())
    for variable in begin.model.variables:
        moved = not np.array_equal(seen[2][variable.path], np.array(variable))
        assert moved == variable.path.startswith("head/") or "seed" in variable.path, variable.path
    one = replace(recipe, head_first=None, steps=3)
    alone = first_state(one, LABELS, 3, tf.distribute.get_strategy())
    for variable in alone.model.variables:
        variable.assign(seen[2][variable.path])
    rng = np.random.default_rng(0)
    images = rng.uniform(-1, 1, (16, 8, 8, 1)).astype("float32")
    batch = tf.data.Dataset.from_tensors((images, np.eye(10, dtype="float32")[rng.integers(0, 10, 16)])).repeat()
    steps = compiled_steps(one, alone, tf.distribute.get_strategy(), spans_of(one, 3)[0])
    steps(iter(batch), tf.constant(3))
    for variable in alone.model.trainable_variables:
        np.testing.assert_array_equal(np.array(variable), seen[5][variable.path])
        if not variable.path.startswith("head/"):
            assert not np.array_equal(seen[2][variable.path], seen[5][variable.path]), variable.path
    assert any(not np.array_equal(np.array(a), np.array(v)) for a, v in zip(state.averages, state.trained, strict=True))


@pytest.mark.broad
def test_the_first_phase_leaves_batch_norms_and_moments_alone():
    row = EfficientNetVariant("tiny", width_factor=0.25, depth_factor=0.1, image_size=32)
    recipe = Recipe("tiny", Model(row, image_size=32), head_first=HeadFirst(0.5), steps=4)
    state, seen = states(recipe, 2)
    begin = first_state(recipe, LABELS, 4, tf.distribute.get_strategy()).model
    for variable in begin.variables:
        if not variable.path.startswith("head/") and "seed" not in variable.path:
            np.testing.assert_array_equal(seen[-1][variable.path], np.array(variable))
    moments = {variable.path: np.abs(np.array(variable)).max() for variable in state.optimizer.variables[2:]}
    assert {"head" in path for path, size in moments.items() if size} == {True}
    states_after = states(recipe, 3)[1]
    moving = [path for path in seen[-1] if path.endswith("moving_mean")]
    assert moving and all(not np.array_equal(seen[-1][path], states_after[-1][path]) for path in moving)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    workdir = tmp_path_factory.mktemp("phases") / "run"
    return workdir, train(RECIPE, workdir)


def test_a_run_says_its_phases(run, tmp_path, capsys):
    workdir, summary = run
    assert summary["head_steps"] == 4 and summary["steps"] == 8
    rows = [json.loads(line) for line in (workdir / "metrics.jsonl").read_text().splitlines()]
    rates = [row["value"] for row in rows if row["name"] == "learning_rate"]
    assert rates[0] == pytest.approx(3e-2) and rates[1] < 1e-2
    train(replace(RECIPE, steps=2), tmp_path / "short")
    said = capsys.readouterr().err
    assert "the head alone is trained until step 1, at a rate of 0.03; then all weights, at 0.01" in said
    assert "step 1 of 2: from here on all weights are trained" in said
    assert from_json(to_json(RECIPE)) == RECIPE


@pytest.mark.broad
@pytest.mark.usefixtures("one_step_a_call")
def test_interrupted_at_any_step_it_ends_bit_equal(run, tmp_path, monkeypatch):
    save = engine.Checkpoints.save

    def killed(self, step):
        save(self, step)
        raise RuntimeError("killed")

    for _ in range(8):  # once at the border of the phases, too
        with monkeypatch.context() as patch, pytest.raises(RuntimeError, match="killed"):
            patch.setattr(engine.Checkpoints, "save", killed)
            train(RECIPE, tmp_path / "run")
    again = train(RECIPE, tmp_path / "run")
    timing = ("seconds", "images_per_second", "peak_memory")
    differs = {name for name in again if again[name] != run[1][name]}
    assert differs <= set(timing)
    assert same(weights(tmp_path / "run" / "model.keras"), weights(run[0] / "model.keras"))


@pytest.mark.broad
def test_patience_waits_for_the_second_phase(tmp_path):
    """Updates of this size destroy the head, so that no evaluation of the first phase is better than the first one."""
    recipe = replace(RECIPE, head_first=HeadFirst(0.75, 1e-12), epochs=4,
                     evaluate=replace(RECIPE.evaluate, patience=1))  # fmt: skip
    assert train(recipe, tmp_path / "run")["steps"] > 12


@pytest.mark.broad
def test_the_dry_run_takes_both_phases():
    assert len(dry_run(RECIPE)["losses"]) == 2


def test_a_first_phase_is_refused_where_it_cannot_be(tmp_path, run):
    with pytest.raises(ValueError, match=r"until expected a share in \(0, 1\), received 1"):
        HeadFirst(until=1)
    with pytest.raises(ValueError, match=r"head_first expected HeadFirst\(...\) or null, received 0.2"):
        override(RECIPE, ["head_first=0.2"])
    with pytest.raises(ValueError, match="head_first expected null with masked patches, which have no head"):
        replace(RECIPE, masked=Masked())
    frozen = replace(RECIPE, model=replace(RECIPE.model, freeze=("head",)))
    with pytest.raises(ValueError, match="freeze expected a head that is trained with head_first"):
        train(frozen, tmp_path / "frozen")
    assert override(replace(RECIPE, head_first=None), ["head_first.until=0.4"]).head_first == HeadFirst(0.4)
    with pytest.raises(ValueError, match="epochs expected .* its first phase was laid out over its steps"):
        train(replace(RECIPE, epochs=3), run[0])


@pytest.fixture
def other(tmp_path):
    """A model of three classes, and the file of its weights in this package's and in timm's layout."""
    row = replace(tiny.ROW, image_size=16)
    model = randomise(keras_vit.build(row, classes=3, labels=["a", "b", "c"], classifier_activation="softmax"))
    (tmp_path / "run").mkdir()
    model.save(tmp_path / "run" / "model.keras")
    save_weights(model, tmp_path / "model.safetensors", layout="timm")
    return Recipe("tiny", Model(row)), model, tmp_path


def built(recipe, weights, labels=("a", "b", "c")):
    return build_model(replace(recipe, model=replace(recipe.model, weights=str(weights), keep_head=True)), labels)


@pytest.mark.parametrize("place", ["run", "run/model.keras", "model.safetensors"])
def test_the_head_is_kept(other, place):
    recipe, model, folder = other
    images = np.random.default_rng(0).uniform(-1, 1, (2, 16, 16, 3)).astype("float32")
    expected = np.asarray(model(images))
    np.testing.assert_allclose(built(recipe, folder / place)(images), expected, atol=1e-6)
    moved = built(recipe, folder / place, ("c", "a", "b"))
    np.testing.assert_allclose(moved(images), expected[:, [2, 0, 1]], atol=1e-6)
    assert moved.get_layer("head").labels == ("c", "a", "b")


def test_another_head_is_refused(other, capsys):
    recipe, _, folder = other
    message = (r"keep_head expected weights of the 3 classes of the data, received '.*' of 3: only the data has 'd', "
               "and only the weights have 'c'; set model.keep_head=false for a new classifier")  # fmt: skip
    for place in ("run", "model.safetensors"):
        with pytest.raises(ValueError, match=message):
            built(recipe, folder / place, ("a", "b", "d"))
    with pytest.raises(ValueError, match="of the 2 classes of the data, received '.*' of 3: only the weights have 'c'"):
        built(recipe, folder / "run", ("a", "b"))
    bare = keras_vit.build(recipe.model.row, include_top=False)
    save_weights(bare, folder / "bare.npz")
    with pytest.raises(ValueError, match="keep_head expected weights with a classifier"):
        built(recipe, folder / "bare.npz")
    with pytest.raises(ValueError, match="keep_head expected false without weights"):
        build_model(replace(recipe, model=replace(recipe.model, keep_head=True)), ("a", "b"))
    unnamed = randomise(keras_vit.build(recipe.model.row, classes=3))
    save_weights(unnamed, folder / "unnamed.npz")
    assert built(recipe, folder / "unnamed.npz").get_layer("head").labels == ("a", "b", "c")
    said = capsys.readouterr().err
    assert "the file names no classes, so they are assumed to be in the order of the data: 'a'" in said


@pytest.mark.broad
def test_a_finished_run_goes_on_with_other_settings(tmp_path):
    """The command names the run; no rate moves the weights, so that the result is the first run's."""
    recipe = replace(tiny.RECIPE, average=replace(tiny.RECIPE.average, decay=0.0))
    (tmp_path / "recipe.json").write_text(to_json(recipe))
    first = train(recipe, tmp_path / "a")
    again = ["train", str(tmp_path / "recipe.json"), "--workdir", str(tmp_path / "b"), "--from", str(tmp_path / "a")]
    assert cli.main([*again, "--set", "optimizer.learning_rate=1e-12", "name=again", "--quiet"]) == 0
    assert json.loads((tmp_path / "b" / "summary.json").read_text())["accuracy"] == first["accuracy"]
    assert json.loads((tmp_path / "b" / "recipe.json").read_text())["model"]["keep_head"]
    pairs = zip(weights(tmp_path / "a" / "model.keras"), weights(tmp_path / "b" / "model.keras"), strict=True)
    assert max(float(np.abs(a - b).max()) for a, b in pairs if a.size) < 1e-6
    assert math.isfinite(first["loss"]) and dataclasses.is_dataclass(recipe)
