"""A training run: what it leaves, that it is exact, and that it can be stopped anywhere."""

import dataclasses
import json
import os
import re
import signal
import types
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf
from support import needs_tensorflow
from train import tiny

import keras_vit
from keras_vit.evaluate.accuracy import evaluate_model
from keras_vit.models.model_names import require_trained
from keras_vit.train import engine, state
from keras_vit.train import workdir as workdir_module
from keras_vit.train.checkpoint import Checkpoints
from keras_vit.train.engine import train
from keras_vit.train.lock import locked
from keras_vit.train.recipe import Augment, Evaluate, Loss
from keras_vit.train.recipe.file import from_json, override, to_json
from keras_vit.train.state import first_state

pytestmark = [needs_tensorflow]
pytest.importorskip("sklearn", reason="scikit-learn carries the digits")

RECIPE = dataclasses.replace(
    tiny.RECIPE,
    model=dataclasses.replace(tiny.RECIPE.model, drop_path_rate=0.1),
    augment=Augment(shift=0.1, rotate=10, flip=True, mixup=0.2),
    optimizer=dataclasses.replace(tiny.RECIPE.optimizer, clip_norm=1.0),
    loss=Loss(label_smoothing=0.1),
    evaluate=Evaluate(every=2),
    epochs=3,
    seed=3,
)
STEPS = 3 * (72 // 16)


def lines(workdir):
    return [json.loads(line) for line in (workdir / "metrics.jsonl").read_text().splitlines()]


def weights(workdir):
    return [np.asarray(w) for w in keras.saving.load_model(workdir / "model.keras", compile=False).weights]


def equal(one, other):
    return all(np.array_equal(a, b) for a, b in zip(weights(one), weights(other), strict=True))


def timeless(workdir):
    return [row for row in lines(workdir) if row["name"] not in ("images_per_second", "seconds")]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The uninterrupted run: its folder and what it returned."""
    workdir = tmp_path_factory.mktemp("whole") / "run"
    return workdir, train(RECIPE, workdir)


def stop_at(monkeypatch, step, how):
    """Do `how` right after the checkpoint of a step has been written."""
    save = Checkpoints.save

    def saving(self, at):
        save(self, at)
        if at == step:
            how()

    monkeypatch.setattr(Checkpoints, "save", saving)


def test_what_a_run_leaves(run):
    workdir, summary = run
    assert sorted(path.name for path in workdir.iterdir()) == [
        "checkpoints", "data.json", "metrics.jsonl", "model.keras", "process.json", "recipe.json", "summary.json",
        "tensorboard",
    ]  # fmt: skip
    assert from_json((workdir / "recipe.json").read_text()) == RECIPE
    assert json.loads((workdir / "summary.json").read_text()) == summary
    model = keras.saving.load_model(workdir / "model.keras", compile=False)
    known = {
        "recipe": "tiny", "steps": STEPS, "epochs": 3, "train_examples": 72, "test_examples": 72, "replicas": 1,
        "labels": list("0123456789"), "parameters": model.count_params(),
    }  # fmt: skip
    assert {name: summary[name] for name in known} == known
    assert summary["seconds"] > 0 and summary["images_per_second"] > 0
    assert ("peak_device_memory" in summary) == bool(tf.config.list_physical_devices("GPU"))
    assert keras_vit.decode_predictions(model(np.zeros((1, 8, 8, 1))), labels=model.get_layer("head").labels)


@pytest.mark.broad
def test_reports_can_be_counted_in_steps_which_pass_the_ends_of_epochs(tmp_path):
    recipe = dataclasses.replace(RECIPE, evaluate=Evaluate(every=1, interval=5))
    train(recipe, tmp_path / "run")
    rows = [(row["step"], row["split"]) for row in lines(tmp_path / "run") if row["name"] == "loss"]
    assert rows == [(step, split) for step in (5, 10, 12) for split in ("train", "test")]


def test_metrics_have_every_epoch_and_every_evaluation(run):
    rows = lines(run[0])
    assert all(set(row) == {"step", "split", "name", "value"} for row in rows)
    steps = lambda split, name: [r["step"] for r in rows if (r["split"], r["name"]) == (split, name)]  # noqa: E731
    assert steps("train", "loss") == steps("train", "images_per_second") == [4, 8, 12]
    assert steps("test", "accuracy") == steps("test", "loss") == [8, 12]
    seconds = [row["value"] for row in rows if row["name"] == "seconds"]
    assert 0 < seconds[0] < seconds[1] < seconds[2] <= run[1]["seconds"]
    last = [row["value"] for row in rows if (row["step"], row["split"], row["name"]) == (12, "test", "accuracy")]
    assert last == [run[1]["accuracy"]]
    rates = [row["value"] for row in rows if row["name"] == "learning_rate"]
    assert rates[0] > rates[1] > rates[2] > 0


def test_the_saved_model_gives_the_figure_of_the_summary(run):
    workdir, summary = run
    model = keras.saving.load_model(workdir / "model.keras", compile=False)
    result = evaluate_model(model, RECIPE.data)
    assert result["examples"] == 72
    assert result["accuracy"] == summary["accuracy"] and result["loss"] == pytest.approx(summary["loss"], abs=1e-6)
    assert evaluate_model(model, RECIPE.data, split="test[20%:40%]")["examples"] == 72


@pytest.mark.broad
def test_a_second_run_is_equal_to_the_bit_and_says_what_its_evaluations_find(run, tmp_path, capsys):
    train(RECIPE, tmp_path / "again")
    figures = rf"test loss {run[1]['loss']:.4f}, accuracy {run[1]['accuracy']:.2%}"
    last = rf"^epoch 3/3, step 12 of 12: train loss \d\.\d+, {figures}, best accuracy \d+\.\d\d%, 00:00 left$"
    said = capsys.readouterr().err
    assert re.search(last, said, re.MULTILINE) and re.search(
        r"^epoch 2/3, step 8 of 12: train loss \d\S+, test loss \d", said, re.MULTILINE
    )
    assert equal(run[0], tmp_path / "again")
    assert timeless(run[0]) == timeless(tmp_path / "again")


def test_another_seed_starts_from_other_weights():
    kernels = [
        np.asarray(first_state(override(RECIPE, [f"seed={seed}"]), tuple("0123456789"), 9, tf.distribute.get_strategy())
                   .model.get_layer("embedding").kernel)
        for seed in (3, 3, 4)
    ]  # fmt: skip
    assert np.array_equal(kernels[0], kernels[1]) and not np.array_equal(kernels[0], kernels[2])


def test_stopped_twice_and_gone_on_is_equal_to_the_bit(run, tmp_path, monkeypatch, capsys, one_step_a_call):
    for number, at in ((signal.SIGTERM, 5), (signal.SIGINT, 9)):
        handler = signal.getsignal(number)
        with monkeypatch.context() as patch:
            stop_at(patch, at, lambda number=number: os.kill(os.getpid(), number))
            with pytest.raises(SystemExit) as stopped:
                train(RECIPE, tmp_path / "run")
        assert stopped.value.code == 128 + number  # so that `train && export` stops, too
        assert f"stopped at step {at + 1} of 12; the same command goes on from there." in capsys.readouterr().err
        assert signal.getsignal(number) is handler
        assert not (tmp_path / "run" / "summary.json").exists()
    summary = train(RECIPE, tmp_path / "run")
    assert equal(run[0], tmp_path / "run")
    assert timeless(run[0]) == timeless(tmp_path / "run")
    assert summary["accuracy"] == run[1]["accuracy"]


@pytest.mark.large  # keras-cv takes its time; test_pipeline.py has its batches
def test_with_mosaics_stopped_and_gone_on_is_equal_to_the_bit(tmp_path, monkeypatch, one_step_a_call):
    pytest.importorskip("keras_cv", reason="extra `recipes` is not installed")
    recipe = override(RECIPE, ["augment.mosaic=0.5"])
    train(recipe, tmp_path / "whole")
    with monkeypatch.context() as patch:
        stop_at(patch, 5, lambda: os.kill(os.getpid(), signal.SIGTERM))
        with pytest.raises(SystemExit):
            train(recipe, tmp_path / "run")
    train(recipe, tmp_path / "run")
    assert equal(tmp_path / "whole", tmp_path / "run")


@pytest.mark.broad
def test_killed_with_its_newest_checkpoint_broken_goes_on_from_the_one_before(
    run, tmp_path, monkeypatch, one_step_a_call
):
    def die():
        raise RuntimeError("killed")

    with monkeypatch.context() as patch:
        stop_at(patch, 7, die)
        with pytest.raises(RuntimeError, match="killed"):
            train(RECIPE, tmp_path / "run")
    data = next((tmp_path / "run" / "checkpoints" / "00000007").glob("state.data-*"))
    data.write_bytes(data.read_bytes()[:-1])
    with pytest.warns(UserWarning, match="checkpoint of step 7 .* cannot be read"):
        train(RECIPE, tmp_path / "run")
    assert sorted(path.name for path in (tmp_path / "run" / "checkpoints").iterdir()) == [
        "00000007.broken", "00000011", "00000012",
    ]  # fmt: skip
    assert equal(run[0], tmp_path / "run")
    assert timeless(run[0]) == timeless(tmp_path / "run")


@pytest.mark.broad
def test_asked_to_stop_before_its_first_step_it_says_how_to_go_on(run, tmp_path, monkeypatch, capsys):
    opened = engine.Datasets.open

    def asked(*arguments):
        os.kill(os.getpid(), signal.SIGTERM)
        return opened(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(engine.Datasets, "open", asked)
        patch.setattr(engine, "compiled_steps", lambda *_: pytest.fail("trained"))
        for recipe, folder in ((RECIPE, "run"), (override(RECIPE, ["schedule.warmup_steps=99"]), "warm")):
            with pytest.raises(SystemExit) as stopped:
                train(recipe, tmp_path / folder)
            assert stopped.value.code == 143
            said = capsys.readouterr().err
            assert "stopped at step 0 of 12; the same command goes on from there." in said
            note = "schedule.warmup_steps 99 does not fit into the 12 steps of the run: 1 used"
            assert (note in said) == (folder == "warm")
    train(RECIPE, tmp_path / "run")
    assert equal(run[0], tmp_path / "run")


@pytest.mark.broad
def test_asked_to_stop_behind_its_last_step_it_finishes(run, tmp_path, monkeypatch):
    finished = engine.finished_models

    def asked(*arguments):
        os.kill(os.getpid(), signal.SIGINT)
        return finished(*arguments)

    monkeypatch.setattr(engine, "finished_models", asked)
    assert train(RECIPE, tmp_path / "run")["accuracy"] == run[1]["accuracy"]
    assert equal(run[0], tmp_path / "run")


@pytest.mark.broad
def test_killed_before_its_summary_it_still_knows_how_fast_it_was(tmp_path, monkeypatch):
    def killed(*_):
        raise RuntimeError("killed")

    with monkeypatch.context() as patch:
        patch.setattr(engine, "summarise", killed)
        patch.setattr(state, "peak_device_memory", lambda: 5e9)
        with pytest.raises(RuntimeError, match="killed"):
            train(RECIPE, tmp_path / "run")
    monkeypatch.setattr(engine, "compiled_steps", lambda *_: pytest.fail("trained again"))
    monkeypatch.setattr(state, "peak_device_memory", lambda: 1e9)
    process = tmp_path / "run" / "process.json"
    facts = json.loads(process.read_text())
    process.write_text(json.dumps(facts | {"intra_op_threads": 96}))
    with pytest.warns(UserWarning, match=rf"step 12 with intra_op_threads {facts['intra_op_threads']} \(was 96\): "):
        summary = train(RECIPE, tmp_path / "run")
    assert json.loads(process.read_text()) == facts
    assert summary["images_per_second"] > 0 and summary["seconds"] > 0 and summary["peak_memory"] > 1e7
    assert summary["peak_device_memory"] == 5_000_000_000


def test_the_memory_of_the_gpu_that_held_most(monkeypatch):
    peaks = {"GPU:0": {"current": 1, "peak": 10}, "GPU:1": {"current": 2, "peak": 30}}

    def info(device):
        if device not in peaks:
            raise ValueError(f"Allocator stats not available for device {device!r}")
        return peaks[device]

    monkeypatch.setattr(tf.config.experimental, "get_memory_info", info)
    for count, most in ((0, 0.0), (1, 10.0), (2, 30.0), (3, 30.0)):
        monkeypatch.setattr(tf.config, "list_logical_devices", lambda kind, count=count: [kind] * count)
        assert state.peak_device_memory() == most


def test_a_state_from_before_that_memory_was_kept_is_read(tmp_path):
    old = [tf.Variable(tf.range(1.0, 7.0, dtype=tf.float64)), tf.Variable(tf.ones(3, tf.float64))]
    Checkpoints(tmp_path, 1, {"counters": old}).save(4)
    counters = state.Counters()
    assert Checkpoints(tmp_path, 1, {"counters": counters.variables}).restore() == 4
    counters.load()
    found = (counters.seconds, counters.skipped_before, counters.best, counters.images, counters.images_seconds)
    assert found == (1.0, 2.0, 3.0, 4.0, 5.0) and (counters.peak_memory, counters.peak_device_memory) == (6.0, 0.0)
    counters.peak_device_memory = 7.0
    counters.store()
    Checkpoints(tmp_path, 1, {"counters": counters.variables}).save(5)
    again = state.Counters()
    assert Checkpoints(tmp_path, 1, {"counters": again.variables}).restore() == 5
    again.load()
    assert again.peak_device_memory >= 7.0


@pytest.mark.broad
def test_killed_while_it_claims_its_folder_it_goes_on(run, tmp_path, monkeypatch):
    """In whatever moment: some of the two files are there, or half of one."""
    write = workdir_module.write_atomically
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "recipe.json.partial").write_text("{")

    def killed(path, text):
        if path.name == "data.json":
            raise OSError("no space left on device")
        write(path, text)

    with monkeypatch.context() as patch:
        patch.setattr(workdir_module, "write_atomically", killed)
        with pytest.raises(OSError, match="no space"):
            train(RECIPE, tmp_path / "run")
    train(RECIPE, tmp_path / "run")
    assert equal(run[0], tmp_path / "run")


def times(workdir):
    """When each file of a run was written, the lock's apart."""
    return {path: path.stat().st_mtime_ns for path in workdir.rglob("*") if path.is_file() and "lock" not in path.name}


def test_a_finished_run_reports_its_summary_and_writes_nothing(run):
    before = times(run[0])
    assert train(RECIPE, run[0]) == run[1] and times(run[0]) == before


def test_a_folder_of_another_recipe_is_refused(run):
    other = override(RECIPE, ["optimizer.weight_decay=0.2"])
    with pytest.raises(ValueError, match="workdir expected .* recipe 'tiny', which differs in optimizer.weight_decay"):
        train(other, run[0])


def test_a_rate_laid_out_over_the_run_is_not_extended_and_the_command_that_goes_on_from_its_weights_is_said(run):
    with pytest.raises(ValueError, match="epochs expected .* its cosine learning rate was laid out over ") as refused:
        train(override(RECIPE, ["epochs=5"]), run[0])
    folder = re.search(r"--from (\S+),", str(refused.value))[1]
    settings = [f"model.weights={folder}", "model.keep_head=true"]
    begun = first_state(override(RECIPE, settings), tuple("0123456789"), 9, tf.distribute.get_strategy()).model
    trained = keras.saving.load_model(run[0] / "model.keras", compile=False)
    for name in ("embedding", "head"):
        assert np.array_equal(*(np.asarray(model.get_layer(name).kernel) for model in (begun, trained)))
    assert json.loads((run[0] / "summary.json").read_text()) == run[1]


@pytest.mark.broad
def test_a_constant_rate_is_extended_to_the_longer_run_bit_for_bit(tmp_path):
    recipe = override(RECIPE, ["schedule.decay=constant", "epochs=1"])
    longer = override(recipe, ["epochs=2", "data.on_error=skip"])
    assert train(recipe, tmp_path / "run")["steps"] == 4
    assert train(longer, tmp_path / "run")["steps"] == 8
    train(longer, tmp_path / "whole")
    assert equal(tmp_path / "run", tmp_path / "whole")
    before = times(tmp_path / "run")
    assert train(longer, tmp_path / "run")["steps"] == 8 and times(tmp_path / "run") == before
    with pytest.raises(ValueError, match="steps expected at least the 8 that the run in .* has made, received 4"):
        train(recipe, tmp_path / "run")
    with pytest.raises(
        ValueError, match="warmup_steps expected what the run .* its constant learning rate was laid out"
    ):
        workdir_module.write_atomically(tmp_path / "run" / "recipe.json", to_json(with_warmup(longer, 99)))
        train(with_warmup(override(longer, ["epochs=3"]), 99), tmp_path / "run")


def with_warmup(recipe, steps):
    return override(recipe, [f"schedule.warmup_steps={steps}"])


def test_a_folder_that_another_process_trains_in_is_refused_and_free_when_it_ends(tmp_path):
    with (
        locked(tmp_path / "run"),
        pytest.raises(ValueError, match=f"workdir expected .* where process {os.getpid()} on .* is training; "),
    ):
        train(RECIPE, tmp_path / "run")
    assert not (tmp_path / "run").exists()
    (tmp_path / "left").mkdir()
    (tmp_path / "left" / "run.lock").write_text("process 1 on a machine that lost its power")
    assert workdir_module.find_summary(tmp_path / "left", RECIPE) is None
    with locked(tmp_path / "left"):
        pass
    assert not list((tmp_path / "left").iterdir())


def test_the_workers_of_a_run_do_not_lock_each_other_out(tmp_path, monkeypatch):
    devices = engine.choose("one", 16)
    monkeypatch.setattr(engine, "choose", lambda *_: dataclasses.replace(devices, worker=1, workers=2))
    monkeypatch.setattr(engine, "Run", lambda *_: types.SimpleNamespace(train=lambda _: {"worker": 1}))
    with locked(tmp_path):
        assert train(RECIPE, tmp_path) == {"worker": 1}


def test_a_folder_of_something_else_is_refused(tmp_path):
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(ValueError, match="workdir expected a new or empty folder .* holds other files"):
        train(RECIPE, tmp_path)
    with pytest.raises(ValueError, match="workdir expected a folder, received the file"):
        train(RECIPE, tmp_path / "thesis.txt")
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


@pytest.mark.parametrize("kind", [str, Path])
def test_a_place_that_is_no_local_folder_is_refused(kind, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    place = kind("gs://bucket/run")
    sentence = f"workdir expected a local folder or one that is mounted, received {str(place)!r}."
    with pytest.raises(ValueError, match=re.escape(sentence)):
        train(RECIPE, place)
    with pytest.raises(ValueError, match="model expected a local path, .* received 'gs://bucket/run'"):
        require_trained("gs://bucket/run")
    assert not list(tmp_path.iterdir())


def test_a_mistake_does_not_lock_the_folder(tmp_path):
    for setting, message in (
        ("data.test_split=validation", "split expected test or train"),
        ("data.batch_size=100", "batch_size expected at most the 72 training examples"),
        ("data.resize=7", "resize expected at least the model's 8 pixels, received 7"),
    ):
        with pytest.raises(ValueError, match=message):
            train(override(RECIPE, [setting]), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_loss_that_is_not_finite_stops_the_run(tmp_path):
    wild = override(RECIPE, ["optimizer.kind=sgd", "optimizer.learning_rate=1e30", "optimizer.clip_norm=null"])
    with pytest.raises(FloatingPointError, match="loss expected a finite value .* received another .* last good state"):
        train(wild, tmp_path / "run")


def test_unknown_strategy(tmp_path):
    with pytest.raises(ValueError, match="strategy expected one of .*received 'gpu'"):
        train(RECIPE, tmp_path / "run", strategy="gpu")
    with pytest.raises(ValueError, match="strategy 'multiworker' expected the environment's TF_CONFIG"):
        train(RECIPE, tmp_path / "run", strategy="multiworker")
