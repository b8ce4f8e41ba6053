"""The files that a run leaves besides the model: the best weights, checkpoints, a profile, TensorBoard's events."""

import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import tensorflow as tf
from support import needs_tensorflow, quick_first
from train.photo_runs import RECIPE, lines, model

from keras_vit.evaluate.accuracy import evaluate_model
from keras_vit.train import engine
from keras_vit.train.engine import train
from keras_vit.train.recipe import Evaluate

pytestmark = [needs_tensorflow, pytest.mark.usefixtures("one_step_a_call")]


@pytest.mark.broad
def test_the_best_weights_are_kept(whole, photos):
    workdir, summary = whole
    accuracies = [row["value"] for row in lines(workdir) if (row["split"], row["name"]) == ("test", "accuracy")]
    assert len(accuracies) == 2 and accuracies[-1] == summary["accuracy"]
    best = evaluate_model(model(workdir / "best.keras"), RECIPE.data, str(photos))
    assert best["accuracy"] == max(accuracies)


@pytest.mark.broad
@pytest.mark.parametrize("split", quick_first([None, "train[75%:]"], ["train[75%:]"]), ids=["test", "validation"])
def test_the_best_weights_are_not_the_last_where_these_are_worse(split, photos, tmp_path, monkeypatch):
    """Evaluations made to rise and fall: the file holds the weights of the highest, through a stop as well. The test
    split, which always does better here, has no say where there is another."""
    measured, weights = [], {}
    measure = engine.Measure.__call__

    def rising_and_falling(self, which):
        found = measure(self, which)
        if split is not None and which == "test":
            return found | {"accuracy": 1.0}
        weights[len(measured)] = [np.asarray(w) for w in self._model.weights]
        measured.append(found | {"accuracy": [0.5, 0.9, 0.7][len(measured)]})
        if len(measured) == 2:
            monkeypatch.setattr(engine.Interrupt, "requested", True, raising=False)
        return measured[-1]

    def never(self):
        self._before, self.code = {}, 130

    monkeypatch.setattr(engine.Measure, "__call__", rising_and_falling)
    monkeypatch.setattr(engine.Interrupt, "__init__", never)
    monkeypatch.setattr(engine.Interrupt, "requested", False, raising=False)
    recipe = replace(RECIPE, epochs=3, evaluate=Evaluate(every=1, split=split))
    with pytest.raises(SystemExit):
        train(recipe, tmp_path / "run", str(photos))
    monkeypatch.setattr(engine.Interrupt, "requested", False)
    assert train(recipe, tmp_path / "run", str(photos))["accuracy"] == (0.7 if split is None else 1.0)
    kept = model(tmp_path / "run" / "best.keras").get_weights()
    assert all(np.array_equal(a, b) for a, b in zip(kept, weights[1], strict=True))
    assert not all(np.array_equal(a, b) for a, b in zip(kept, weights[2], strict=True))
    seen = [row["split"] for row in lines(tmp_path / "run") if row["name"] == "accuracy"]
    assert seen == (["test"] * 3 if split is None else ["validation"] * 3 + ["test"])


@pytest.mark.broad
def test_a_state_behind_a_loss_that_is_not_finite_is_not_saved(photos, tmp_path, monkeypatch):
    """Not even where the data fails in the same call."""
    run_steps = engine.compiled_steps

    def failing(recipe, state, *arguments):
        steps = run_steps(recipe, state, *arguments)

        def call(iterator, count):
            if int(state.optimizer.iterations.numpy()) < 2:
                return steps(iterator, count)
            state.optimizer.iterations.assign_add(1)
            state.counters.tally.assign_add([0.0, 0.0, 1.0])
            raise tf.errors.DataLossError(None, None, "torn")

        return call

    monkeypatch.setattr(engine, "compiled_steps", failing)
    with pytest.raises(tf.errors.DataLossError):
        train(RECIPE, tmp_path / "run", str(photos))
    assert sorted(path.name for path in (tmp_path / "run" / "checkpoints").iterdir()) == ["00000001", "00000002"]


@pytest.mark.broad
def test_a_profile_is_left_where_asked_for(whole):
    assert list((whole[0] / "profile").glob("plugins/profile/*/*.xplane.pb"))


@pytest.mark.broad
def test_tensorboards_events_hold_the_numbers_of_the_curve(whole):
    found = {}
    for path in (whole[0] / "tensorboard").iterdir():
        for record in tf.data.TFRecordDataset(str(path)).as_numpy_iterator():
            event = tf.compat.v1.Event.FromString(record)
            for value in event.summary.value:
                assert value.metadata.plugin_data.plugin_name == "scalars"
                found[event.step, value.tag] = float(tf.make_ndarray(value.tensor))
    rows = [json.loads(line) for line in (whole[0] / "metrics.jsonl").read_text().splitlines()]
    assert len(rows) == len(found) > 9
    for row in rows:
        assert found[row["step"], f"{row['split']}/{row['name']}"] == pytest.approx(row["value"], rel=1e-6)


@pytest.mark.large  # an import of its own time
def test_tensorboard_reads_the_events(whole):
    pytest.importorskip("tensorboard", reason="extra `recipes` is not installed")
    code = (
        "import sys; from tensorboard.backend.event_processing.event_accumulator import EventAccumulator\n"
        "events = EventAccumulator(sys.argv[1]); events.Reload()\n"
        "print(len(events.Tensors('test/accuracy')), *events.Tags()['tensors'])"
    )
    command = [sys.executable, "-c", code, str(whole[0] / "tensorboard")]
    count, *tags = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert count == "2" and {"train/loss", "test/accuracy"} <= set(tags)
