"""What a run does when the disk is full or a file is gone."""

import errno
import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf
from support import first_quick, needs_tensorflow, quick_first
from train.photo_runs import RECIPE, lines, model

from keras_vit import cli
from keras_vit.data.sources import in_memory, open_split
from keras_vit.train import engine
from keras_vit.train.datasets import Datasets, files_hash
from keras_vit.train.log.progress import Progress
from keras_vit.train.log.report import Events, Report
from keras_vit.train.recipe import Evaluate
from keras_vit.train.recipe.file import to_json
from keras_vit.train.strategy import Devices

pytestmark = [needs_tensorflow, pytest.mark.usefixtures("one_step_a_call")]


@pytest.fixture
def command(photos, tmp_path):
    """The command line on the recipe: its exit code."""
    (tmp_path / "recipe.json").write_text(to_json(RECIPE))
    arguments = ["train", str(tmp_path / "recipe.json"), "--workdir", str(tmp_path / "run"), "--data-dir"]
    return lambda data=photos, *more: cli.main([*arguments, str(data), *more])


def same_end(one, other):
    ours, theirs = (model(workdir / "model.keras").get_weights() for workdir in (one, other))
    return all(np.array_equal(a, b) for a, b in zip(ours, theirs, strict=True)) and lines(one) == lines(other)


def in_copy(photos, tmp_path, split):
    """A picture of a split, in a copy of the folder; of those to train on, one of the third batch."""
    return tmp_path / "photos" / Path(open_split("folder", split, str(photos)).files[-3]).relative_to(photos)


def broken_in_copy(photos, tmp_path):
    """A picture to train on that is cut in half, in a copy of the folder, and its whole content."""
    shutil.copytree(photos, tmp_path / "photos")
    victim = in_copy(photos, tmp_path, "train")
    good = victim.read_bytes()
    victim.write_bytes(good[: len(good) // 2])
    return victim, good


def sentence(capsys):
    """The last line on the standard error, which is the only one of the command itself."""
    said = [line for line in capsys.readouterr().err.splitlines() if line.startswith("keras-vit train: ")]
    assert len(said) == 1
    return said[0]


NO_SPACE = [OSError(errno.ENOSPC, "No space left on device"), tf.errors.ResourceExhaustedError(None, None, "no space")]


@pytest.mark.broad
@pytest.mark.parametrize("error", quick_first(NO_SPACE, NO_SPACE[1:]), ids=["python", "tensorflow"])
def test_a_full_disk_gets_a_sentence_and_loses_nothing(error, whole, command, tmp_path, monkeypatch, capsys):
    write = tf.train.Checkpoint.write

    def full(self, path, *arguments, **options):
        found = write(self, path, *arguments, **options)  # part of the files is there when the space runs out
        if "00000006" in str(path):
            raise error
        return found

    with monkeypatch.context() as patch:
        patch.setattr(tf.train.Checkpoint, "write", full)
        assert command() == 2
    said = sentence(capsys)
    assert said.startswith("keras-vit train: checkpoint of step 6 expected to be written to ")
    assert "o space" in said and said.endswith("; the one of step 5 is intact.")
    kept = sorted(path.name for path in (tmp_path / "run" / "checkpoints").iterdir())
    assert kept == ["00000003", "00000004", "00000005"]
    assert command() == 0
    assert same_end(tmp_path / "run", whole[0])


@pytest.mark.broad
@pytest.mark.parametrize("place", quick_first(["model", "metrics", "events"], ["model"]))
def test_a_full_disk_elsewhere_gets_a_sentence_and_loses_nothing(place, whole, command, tmp_path, monkeypatch, capsys):
    """At the best model of the first epoch, half of which is written; at a line of the curve; at the events."""
    make = tf.summary.create_file_writer

    def no_space(*arguments, **_):
        if place == "model":
            arguments[1].write_bytes(b"half of")
        if place == "events":
            raise tf.errors.ResourceExhaustedError(None, None, "No space left on device")
        raise OSError(errno.ENOSPC, "No space left on device")

    def writer(folder):
        found = make(folder)
        found.flush = found.close = no_space
        return found

    with monkeypatch.context() as patch:
        if place == "model":
            patch.setattr(keras.Model, "save", no_space)
        elif place == "events":
            patch.setattr(tf.summary, "create_file_writer", writer)
        else:
            patch.setattr("keras_vit.train.workdir.Metrics.write", no_space)
        assert command() == 2
    said = sentence(capsys)
    assert "No space left on device" in said
    assert place != "events" or "TensorBoard's events expected to be written to " in said
    assert not list((tmp_path / "run").glob("*.keras"))
    assert command() == 0
    assert same_end(tmp_path / "run", whole[0])


def test_events_that_cannot_be_begun_get_a_sentence(tmp_path, monkeypatch):
    def refused(folder):
        raise tf.errors.PermissionDeniedError(None, None, "Permission denied")

    monkeypatch.setattr(tf.summary, "create_file_writer", refused)
    with pytest.raises(OSError, match=r"events expected to be written to '.*', which failed \(Permission denied\)\.$"):
        Events(tmp_path / "tensorboard")


def test_a_checkpoints_error_is_not_replaced_by_that_of_the_events_on_the_same_disk(tmp_path, monkeypatch):
    def full():
        raise tf.errors.ResourceExhaustedError(None, None, "no space")

    report = Report.__new__(Report)
    report._chief, report._progress, report._events = True, Progress(8, 1, quiet=True), Events(tmp_path)
    report._events._writer.close, report._followers = full, ()
    with pytest.raises(OSError, match="checkpoint of step 6"), report:
        raise OSError("checkpoint of step 6")
    with pytest.raises(OSError, match="events expected to be written"), report:
        pass


@pytest.mark.broad
@pytest.mark.parametrize(
    "reason",
    first_quick(
        ["OOM when allocating tensor with shape[9] and type float", "Out of memory while trying to allocate 512.00TiB."]
    ),
)
def test_a_batch_that_memory_is_too_small_for_gets_a_sentence(reason, command, monkeypatch, capsys):
    def steps(*_):
        where = "Graph execution error:\n\nDetected at node MatMul defined at (most recent call last):\n..."
        raise tf.errors.ResourceExhaustedError(None, None, f"{where}\n{reason}\n\t [[{{node MatMul}}]]\nHint: ...")

    monkeypatch.setattr(engine, "compiled_steps", lambda *_: steps)
    assert command() == 2
    assert sentence(capsys) == (
        f"keras-vit train: data.batch_size expected a batch that fits into memory, received 8 ({reason}); a "
        "smaller one, a larger optimizer.accumulate or recompute=true needs less."
    )


@pytest.mark.broad
def test_another_lack_than_of_memory_keeps_its_words(command, monkeypatch):
    def steps(*_):
        raise tf.errors.ResourceExhaustedError(None, None, "Too many open files")

    monkeypatch.setattr(engine, "compiled_steps", lambda *_: steps)
    with pytest.raises(tf.errors.ResourceExhaustedError, match="Too many open files"):
        command()


@pytest.mark.parametrize("error", [tf.errors.UnavailableError, tf.errors.AbortedError])
def test_a_worker_that_stopped_gets_a_sentence_at_the_others(error, command, monkeypatch, capsys):
    def lost(*_):
        raise error(None, None, "Graph execution error:\n\nCollective ops is aborted by: ...")

    monkeypatch.setattr(engine, "choose", lambda *_: Devices(tf.distribute.get_strategy(), 0, 2))
    monkeypatch.setattr(engine, "Run", lost)
    assert command() == 2
    assert sentence(capsys) == (
        "keras-vit train: workers expected all 2 to go on, found that another worker, or the storage of the data, "
        "stopped or cannot be reached; the same command on every machine goes on from the last checkpoint."
    )


def test_the_same_error_on_one_machine_is_not_about_workers():
    with pytest.raises(tf.errors.UnavailableError), Devices(tf.distribute.get_strategy()).naming_lost_workers():
        raise tf.errors.UnavailableError(None, None, "the bucket is away")


@pytest.mark.broad
def test_a_picture_that_goes_missing_is_named_and_once_it_is_back_the_run_goes_on(
    photos, whole, command, tmp_path, monkeypatch, capsys
):
    shutil.copytree(photos, tmp_path / "photos")
    run_steps = engine.compiled_steps
    victim = in_copy(photos, tmp_path, "train")
    aside = tmp_path / "aside.png"

    def losing(*arguments):
        victim.rename(aside)
        return run_steps(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(engine, "compiled_steps", losing)
        assert command(tmp_path / "photos") == 2
    errors = capsys.readouterr().err
    assert f"keras-vit train: data expected the image file '{victim}', which was there when the run began" in errors
    step = int(errors.split("the state of step ")[1].split()[0])
    assert f"the state of step {step} of 8 is saved; the same command goes on from there" in errors
    assert step == 2 and (tmp_path / "run" / "checkpoints" / f"{step:08d}").is_dir()
    aside.rename(victim)
    assert command(tmp_path / "photos") == 0
    assert f"{step} of 8 steps done" in capsys.readouterr().err
    assert same_end(tmp_path / "run", whole[0])


@pytest.mark.broad
@pytest.mark.filterwarnings("always:.*left out.*:UserWarning")
def test_a_broken_picture_is_no_dead_end(photos, command, tmp_path, capsys):
    """The run goes on where the file it named is repaired, removed or skipped; removed and skipped it ends alike."""
    victim, _ = broken_in_copy(photos, tmp_path)
    assert command(tmp_path / "photos") == 2
    said = capsys.readouterr().err
    assert f"received '{victim}'; repair or remove it, or leave such files out by data.on_error=skip." in said
    step = int(said.split("the state of step ")[1].split()[0])
    assert step == 2 and "goes on from there, once the file is repaired or removed, or with --set" in said
    name = victim.relative_to(tmp_path / "photos")
    assert json.loads((tmp_path / "run" / "left_out.json").read_text()) == [str(name)]
    shutil.copytree(tmp_path / "run", tmp_path / "stopped")

    assert command(tmp_path / "photos", "--set", "data.on_error=skip") == 0
    (tmp_path / "run").rename(tmp_path / "skipped")
    assert (
        "keras-vit: left out, because they cannot be decoded: 1 of the 32 files of train of folder"
        in capsys.readouterr().err
    )

    (tmp_path / "stopped").rename(tmp_path / "run")
    victim.unlink()
    assert command(tmp_path / "photos") == 0
    said = capsys.readouterr().err
    assert f"1 files are left out: {victim}; the others keep their order" in said
    assert "31 images of 2 classes" in said and "2 of 6 steps done" in said
    assert same_end(tmp_path / "run", tmp_path / "skipped")
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert cli.main(["evaluate", str(tmp_path / "run"), "--data-dir", str(tmp_path / "photos")]) == 0
    assert f"accuracy {summary['accuracy']:.2%}, loss {summary['loss']:.4f} on" in capsys.readouterr().out  # same split
    facts = json.loads((tmp_path / "run" / "data.json").read_text())
    assert facts == Datasets.open(RECIPE, str(photos)).facts  # of the files that the run began with

    other = in_copy(photos, tmp_path, "test")
    shutil.copy(photos / "day" / "00.png", victim)  # repaired, but another one is gone that the run never named
    other.unlink()
    (tmp_path / "run" / "summary.json").unlink()
    assert command(tmp_path / "photos") == 2
    assert "data expected what the run in" in sentence(capsys)


@pytest.mark.broad
@pytest.mark.filterwarnings("always:.*left out.*:UserWarning")
def test_an_old_run_that_skipped_broken_pictures_goes_on_by_the_command_that_it_is_told(
    photos, command, tmp_path, capsys
):
    """A run begun before `left_out.json` existed: its facts count the good files only."""
    victim, _ = broken_in_copy(photos, tmp_path)
    assert command(tmp_path / "photos", "--set", "data.on_error=skip") == 0
    run, whole = tmp_path / "run", tmp_path / "whole"
    shutil.copytree(run, whole)
    for name in ("left_out.json", "summary.json", "model.keras"):
        (run / name).unlink()
    shutil.rmtree(run / "checkpoints" / "00000006")
    facts = json.loads((run / "data.json").read_text())
    good = open_split("folder", "train", str(tmp_path / "photos"), on_error="skip")
    old = facts | {"train_examples": good.count, "train_files": files_hash(good)}
    assert facts["train_examples"] - good.count == 1 and old["train_files"] != facts["train_files"]
    (run / "data.json").write_text(json.dumps(old))
    capsys.readouterr()

    assert command(tmp_path / "photos") == 2
    said = sentence(capsys)
    assert "train_examples 31 (now 32)" in said and said.endswith("goes on with it.")
    assert command(tmp_path / "photos", "--set", re.search(r"--set (\S+) goes on", said)[1]) == 0
    assert "5 of 6 steps done" in capsys.readouterr().err
    assert same_end(run, whole)
    assert json.loads((run / "data.json").read_text()) == facts
    assert json.loads((run / "left_out.json").read_text()) == [str(victim.relative_to(tmp_path / "photos"))]


@pytest.mark.large  # a picture that comes back is beside it
def test_a_broken_picture_that_is_repaired_changes_nothing(photos, whole, command, tmp_path):
    victim, good = broken_in_copy(photos, tmp_path)
    assert command(tmp_path / "photos") == 2
    victim.write_bytes(good)
    assert command(tmp_path / "photos") == 0
    assert same_end(tmp_path / "run", whole[0])


@pytest.mark.broad
def test_other_data_than_the_run_began_with_are_refused(photos, command, tmp_path, monkeypatch, capsys):
    def stopped(*_):
        raise OSError(errno.EIO, "stopped")

    shutil.copytree(photos, tmp_path / "photos")
    with monkeypatch.context() as patch:
        patch.setattr(tf.train.Checkpoint, "write", stopped)
        assert command(tmp_path / "photos") == 2
    sentence(capsys)
    (tmp_path / "photos" / "dusk").mkdir()
    for i in range(5):
        shutil.copy(photos / "day" / "00.png", tmp_path / "photos" / "dusk" / f"{i}.png")
    assert command(tmp_path / "photos") == 2
    assert "data expected what the run in" in (said := sentence(capsys)) and "train_examples 32 (now 36)" in said
    assert "labels ['day', 'night'] (now ['day', 'dusk', 'night'])" in said

    shutil.rmtree(tmp_path / "photos" / "dusk")
    shutil.move(tmp_path / "photos", tmp_path / "moved")  # the same data in another place
    facts = json.loads((tmp_path / "run" / "data.json").read_text())
    assert Datasets.open(RECIPE, str(tmp_path / "moved")).facts == facts
    (tmp_path / "moved" / "day" / "00.png").rename(tmp_path / "moved" / "day" / "another.png")  # equal counts
    assert command(tmp_path / "moved") == 2
    assert re.search(r"found another (train|test)_files '\w{16}' \(now '\w{16}'\)", sentence(capsys))
    old = {name: value for name, value in facts.items() if not name.endswith("_files")}
    (tmp_path / "run" / "data.json").write_text(json.dumps(old))  # of a version that did not look at names
    assert command(tmp_path / "moved") == 0


def test_a_file_that_changes_its_class_changes_the_facts():
    """Which no path within the folder of a single class tells."""
    files = ("a/0.png", "a/1.png")
    of = lambda targets, files=files: files_hash(in_memory(np.array(files), targets, ["x", "y"], files))  # noqa: E731
    assert of([0, 1]) != of([1, 0]) and of([0, 1]) != of([0, 1], files[::-1])
    assert of([0, 1]) == of([0, 1], ("gs://bucket/a/0.png", "gs://bucket/a/1.png"))


def test_the_files_of_a_validation_split_of_its_own_are_facts_too(photos):
    own = replace(RECIPE, evaluate=Evaluate(split=RECIPE.data.test_split))
    facts = Datasets.open(own, str(photos)).facts
    assert facts["validation_files"] == facts["test_files"] != facts["train_files"]
    assert "validation_files" not in Datasets.open(RECIPE, str(photos)).facts


@pytest.mark.large  # what is lost while training is beside it
def test_a_picture_of_the_test_split_that_goes_missing_is_named(photos, whole, command, tmp_path, monkeypatch, capsys):
    """Found at an evaluation, when the epoch before it has been trained."""
    shutil.copytree(photos, tmp_path / "photos")
    victim = in_copy(photos, tmp_path, "test")
    aside, opened = tmp_path / "aside.png", engine.Datasets.open

    def losing(*arguments):
        found = opened(*arguments)
        victim.rename(aside)
        return found

    with monkeypatch.context() as patch:
        patch.setattr(engine.Datasets, "open", losing)
        assert command(tmp_path / "photos") == 2
    assert f"data expected the image file '{victim}'" in sentence(capsys)
    aside.rename(victim)
    assert command(tmp_path / "photos") == 0
    assert same_end(tmp_path / "run", whole[0])
