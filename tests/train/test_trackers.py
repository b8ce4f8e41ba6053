"""`--log mlflow` and `--log wandb`: with a fake that records the calls, and with the packages where installed."""

import json
import os
import signal
import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest
from support import needs_tensorflow
from train import tiny

from keras_vit.cli import main
from keras_vit.train import engine
from keras_vit.train.checkpoint import Checkpoints
from keras_vit.train.engine import train
from keras_vit.train.log.trackers import send_report
from keras_vit.train.recipe import Evaluate
from keras_vit.train.recipe.file import to_json

pytestmark = needs_tensorflow
RECIPE = replace(tiny.RECIPE, evaluate=Evaluate(every=1), epochs=2)


def metrics_of(workdir):
    """The rows of the run's own file as (step, name, value)."""
    rows = map(json.loads, (workdir / "metrics.jsonl").read_text().splitlines())
    return sorted((row["step"], f"{row['split']}/{row['name']}", row["value"]) for row in rows)


class FakeMLflow:
    """Records the calls that `MLflow` makes, with the signatures of MLflow 3."""

    def __init__(self):
        self.runs, self.params, self.metrics, self.files, self.ended = [], {}, [], [], 0

    def start_run(self, run_id=None, run_name=None):
        self.runs.append((run_id, run_name))
        return SimpleNamespace(info=SimpleNamespace(run_id="abc"))

    def log_params(self, params):
        self.params |= params

    def log_metrics(self, metrics, step=None):
        self.metrics += [(step, name, value) for name, value in metrics.items()]

    def log_artifact(self, local_path, artifact_path=None):
        self.files.append(os.path.basename(local_path))

    def log_artifacts(self, local_dir, artifact_path=None):
        self.files.append(artifact_path)

    def end_run(self):
        self.ended += 1


@pytest.fixture
def fake(monkeypatch):
    found = FakeMLflow()
    monkeypatch.setitem(sys.modules, "mlflow", found)
    return found


def test_a_run_sends_its_fields_its_metrics_and_its_files(fake, tmp_path):
    train(RECIPE, tmp_path / "run", log="mlflow")
    assert fake.runs == [(None, "tiny")] and fake.ended == 1
    assert fake.params["optimizer.learning_rate"] == "0.01" and fake.params["data.source"] == "digits"
    assert sorted(fake.metrics) == metrics_of(tmp_path / "run")
    assert {name for _, name, _ in fake.metrics} >= {"train/loss", "test/loss", "test/accuracy"}
    assert fake.files == ["recipe.json", "summary.json", "metrics.jsonl"]
    (tmp_path / "run" / "report").mkdir()
    for _ in range(2):  # a second call does nothing
        send_report("mlflow", RECIPE, tmp_path / "run")
    assert fake.files[3:] == ["report"] and fake.runs[1:] == [("abc", None)] and fake.ended == 2


@pytest.mark.broad
def test_a_stopped_run_continues_its_record_without_a_line_twice(fake, tmp_path, monkeypatch):
    monkeypatch.setattr(engine, "CALL_SECONDS", 0.0)
    save = Checkpoints.save

    def saving(self, at):
        save(self, at)
        if at == 6:
            os.kill(os.getpid(), signal.SIGTERM)

    with monkeypatch.context() as patch:
        patch.setattr(Checkpoints, "save", saving)
        with pytest.raises(SystemExit):
            train(RECIPE, tmp_path / "run", log="mlflow")
    train(RECIPE, tmp_path / "run", log="mlflow")
    assert fake.runs == [(None, "tiny"), ("abc", None)]
    assert sorted(fake.metrics) == metrics_of(tmp_path / "run")


def test_an_unknown_or_absent_tracker_is_one_sentence(tmp_path, monkeypatch, capsys):
    (tmp_path / "recipe.json").write_text(to_json(RECIPE))
    sentences = {
        "tensorboard": "log expected one of mlflow, wandb, received 'tensorboard'",
        "wandb": "log 'wandb' needs wandb, found none: pip install 'keras-vit-zoo[wandb]'",
    }
    for name, sentence in sentences.items():
        monkeypatch.setitem(sys.modules, "wandb", None)
        arguments = ["train", str(tmp_path / "recipe.json"), "--workdir", str(tmp_path / "run"), "--log", name]
        assert main(arguments) == 2 and sentence in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


@pytest.mark.broad
def test_mlflow_stores_a_run_in_files(tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow", reason="the extra `mlflow` is not installed")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow.set_tracking_uri(f"file://{tmp_path}/store")
    summary = train(RECIPE, tmp_path / "run", log="mlflow")
    client = mlflow.MlflowClient()
    run = client.get_run(json.loads((tmp_path / "run" / "tracking.json").read_text())["run"])
    assert run.info.status == "FINISHED" and run.data.params["optimizer.kind"] == "adamw"
    history = client.get_metric_history(run.info.run_id, "test/accuracy")
    assert [metric.step for metric in history] == [4, 8]
    assert history[-1].value == pytest.approx(summary["accuracy"])
    assert {file.path for file in client.list_artifacts(run.info.run_id)} >= {"recipe.json", "summary.json"}


@pytest.mark.broad
def test_wandb_writes_a_run_offline(tmp_path, monkeypatch):
    pytest.importorskip("wandb", reason="the extra `wandb` is not installed")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    train(RECIPE, tmp_path / "run", log="wandb")
    files = list((tmp_path / "run" / "wandb").glob("offline-run-*/*.wandb"))
    assert len(files) == 1 and files[0].stat().st_size > 1000
    state = json.loads((tmp_path / "run" / "tracking.json").read_text())
    assert state["run"] in str(files[0]) and state["lines"] == len(metrics_of(tmp_path / "run"))
