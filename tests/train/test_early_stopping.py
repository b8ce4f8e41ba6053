"""A run stops early by its validation split, uses its best weights, and evaluates the test split once."""

import json
import warnings
from dataclasses import replace

import keras
import numpy as np
import pytest
from support import needs_tensorflow
from train.tiny import RECIPE

from keras_vit.train import engine
from keras_vit.train.engine import train
from keras_vit.train.recipe import Checkpoint, Evaluate, Masked
from keras_vit.train.recipe.file import override

pytestmark = [needs_tensorflow, pytest.mark.usefixtures("one_step_a_call")]
# Updates of this size destroy what the first ones have learned.
EARLY = replace(
    RECIPE,
    optimizer=replace(RECIPE.optimizer, learning_rate=0.3),
    schedule=replace(RECIPE.schedule, decay="constant", warmup_steps=0),
    evaluate=Evaluate(every=1, split="train[90%:]", patience=3),
    checkpoint=Checkpoint(seconds=0, best=True, use_best=True),
    average=replace(RECIPE.average, decay=0.0),
    epochs=40,
)


def accuracies(workdir, split):
    rows = [json.loads(line) for line in (workdir / "metrics.jsonl").read_text().splitlines()]
    return {row["step"]: row["value"] for row in rows if (row["split"], row["name"]) == (split, "accuracy")}


def weights(path):
    return keras.saving.load_model(path, compile=False).get_weights()


@pytest.fixture(scope="module")
def early(tmp_path_factory):
    workdir = tmp_path_factory.mktemp("early") / "run"
    return workdir, train(EARLY, workdir)


def test_it_stops_at_the_patience_and_its_result_is_the_best_of_the_validation(early):
    workdir, summary = early
    validation, test = (accuracies(workdir, split) for split in ("validation", "test"))
    best = max(validation, key=validation.get)  # the first of equals
    last = max(validation)
    assert list(validation).index(last) - list(validation).index(best) == 3
    assert summary["steps"] == last < 160 and summary["epochs"] == len(validation)
    assert test == {last: summary["accuracy"]}  # once
    kept, used = weights(workdir / "best.keras"), weights(workdir / "model.keras")
    assert all(np.array_equal(a, b) for a, b in zip(kept, used, strict=True))


@pytest.mark.large
def test_interrupted_after_any_evaluation_it_ends_alike(early, tmp_path, monkeypatch):
    save = engine.Checkpoints.save

    def killed(self, step):
        save(self, step)
        raise RuntimeError("killed")

    for _ in range(60):
        with monkeypatch.context() as patch:
            patch.setattr(engine.Checkpoints, "save", killed)
            try:
                train(EARLY, tmp_path / "run")
                break
            except RuntimeError:
                continue
    assert train(EARLY, tmp_path / "run")["accuracy"] == early[1]["accuracy"]
    for split in ("validation", "test"):
        assert accuracies(tmp_path / "run", split) == accuracies(early[0], split)
    pairs = zip(weights(early[0] / "model.keras"), weights(tmp_path / "run" / "model.keras"), strict=True)
    assert all(np.array_equal(a, b) for a, b in pairs)


@pytest.mark.broad
def test_killed_before_its_summary_it_evaluates_again_and_writes_the_line_once(early, tmp_path, monkeypatch):
    def killed(*_):
        raise RuntimeError("killed")

    with monkeypatch.context() as patch, pytest.raises(RuntimeError):
        patch.setattr(engine, "summarise", killed)
        train(EARLY, tmp_path / "run")
    assert train(EARLY, tmp_path / "run")["accuracy"] == early[1]["accuracy"]
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    assert sum('"test"' in line and '"accuracy"' in line for line in lines) == 1


@pytest.mark.broad
def test_without_use_best_the_last_weights_are_the_result(tmp_path):
    recipe = replace(EARLY, checkpoint=Checkpoint(seconds=0, best=True))
    summary = train(recipe, tmp_path / "run")
    assert summary["steps"] < 160 and list(accuracies(tmp_path / "run", "test")) == [summary["steps"]]
    kept, last = weights(tmp_path / "run" / "best.keras"), weights(tmp_path / "run" / "model.keras")
    assert not all(np.array_equal(a, b) for a, b in zip(kept, last, strict=True))


@pytest.mark.parametrize(
    ("recipe", "sentence"),
    [
        (replace(EARLY, checkpoint=Checkpoint(use_best=True)), "best expected true with use_best, received False"),
        (
            replace(EARLY, evaluate=Evaluate(every=1, patience=3)),
            "split expected a split apart from the test split with",
        ),
        (replace(EARLY, evaluate=replace(EARLY.evaluate, split=EARLY.data.test_split)), "split expected a split apart"),
        (replace(EARLY, evaluate=replace(EARLY.evaluate, every=0)), "every expected a number of epochs between eval"),
        (
            replace(EARLY, masked=Masked(), model=replace(EARLY.model, pooling="gap")),
            "masked expected null with use_best, which needs an accuracy",
        ),
    ],
)
def test_a_selection_without_a_split_of_its_own_is_refused(recipe, sentence, tmp_path):
    with pytest.raises(ValueError, match=sentence):
        train(recipe, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_patience_can_be_set_on_the_command_line():
    with warnings.catch_warnings():
        recipe = override(RECIPE, ["evaluate.patience=4", "checkpoint.use_best=true", "data.source=csv"])
    assert (recipe.evaluate.patience, recipe.checkpoint.use_best, recipe.data.source) == (4, True, "csv")
    with pytest.raises(ValueError, match="patience expected an int of at least 0, received -1"):
        Evaluate(patience=-1)
