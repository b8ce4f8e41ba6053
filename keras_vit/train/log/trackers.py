"""Follow the metrics of a run with MLflow or Weights & Biases.

Both read `metrics.jsonl` of the workdir, so a run does not depend on them, and a resumed run continues its record.
"""

import json
from pathlib import Path

from keras_vit.train.recipe import Recipe
from keras_vit.train.recipe.file import flat_fields
from keras_vit.train.workdir import SUMMARY, write_atomically

PACKAGES = {"mlflow": "mlflow", "wandb": "wandb"}  # name -> extra
STATE = "tracking.json"  # in the workdir: the record's id, and the number of lines that it has
FILES = ("recipe.json", SUMMARY, "metrics.jsonl")  # kept as artifacts
REPORT = "report"  # folder of the report of `keras-vit finetune`


def tracker(name: str, recipe: Recipe, workdir: Path) -> "Tracker":
    """Return the tracker of a name, `mlflow` or `wandb`.

    Raises:
        ImportError: its package is not installed.
        ValueError: the name is unknown.
    """
    if name not in PACKAGES:
        raise ValueError(f"log expected one of {', '.join(PACKAGES)}, received {name!r}.")
    try:
        package = __import__(PACKAGES[name])
    except ImportError:
        raise ImportError(f"log {name!r} needs {name}, found none: pip install 'keras-vit-zoo[{name}]'.") from None
    return {"mlflow": MLflow, "wandb": Wandb}[name](package, recipe, workdir)


def send_report(name: str, recipe: Recipe, workdir: Path) -> None:
    """Keep the report of a finished run as an artifact of its record, once."""
    record = tracker(name, recipe, workdir)
    state = record.state()
    if "run" in state and not state.get("report") and (workdir / REPORT).is_dir():
        record.begin(state["run"], {})
        record.keep(workdir / REPORT)
        record.end()
        record.store(state | {"report": True})


class Tracker:
    """Base of the trackers: sends new lines of `metrics.jsonl`, and the files of the workdir at the end."""

    def __init__(self, package, recipe: Recipe, workdir: Path):
        self._package, self._recipe, self._workdir = package, recipe, Path(workdir)
        self._open = False

    def update(self, last: bool = False) -> None:
        """Send the metrics that were written since the last call."""
        file = self._workdir / "metrics.jsonl"
        if not file.is_file():
            return
        state = self.state()
        if not self._open:
            state["run"] = self.begin(state.get("run"), flat_fields(self._recipe))
            self._open = True
        lines = file.read_text(encoding="utf-8").splitlines()
        steps = {}  # step -> metrics by name
        for row in map(json.loads, lines[state["lines"] :]):
            steps.setdefault(row["step"], {})[f"{row['split']}/{row['name']}"] = row["value"]
        for step, metrics in steps.items():
            self.log(step, metrics)
        state["lines"] = max(state["lines"], len(lines))
        self.store(state)

    def finish(self) -> None:
        """Send the files of the workdir, and end the record."""
        self.update()
        for name in FILES:
            self.keep(self._workdir / name)
        self.end()

    def store(self, state: dict) -> None:
        """Write the state of the record to the workdir."""
        write_atomically(self._workdir / STATE, json.dumps(state) + "\n")

    def state(self) -> dict:
        """Return the state of the record from the workdir."""
        file = self._workdir / STATE
        return json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {"lines": 0}


class MLflow(Tracker):
    """A run of MLflow, in the store of the environment's `MLFLOW_TRACKING_URI`."""

    def begin(self, run: str | None, fields: dict) -> str:
        """Open the record, with the fields of the recipe as parameters, and return its id."""
        found = self._package.start_run(run_id=run, run_name=None if run else self._recipe.name)
        if run is None:
            self._package.log_params({name: str(value)[:500] for name, value in fields.items()})
        return found.info.run_id

    def log(self, step: int, metrics: dict) -> None:
        """Send the metrics of a step."""
        self._package.log_metrics(metrics, step=step)

    def keep(self, path: Path) -> None:
        """Send a file or a folder."""
        (self._package.log_artifacts if path.is_dir() else self._package.log_artifact)(
            str(path), *([path.name] if path.is_dir() else [])
        )

    def end(self) -> None:
        """End the record."""
        self._package.end_run()


class Wandb(Tracker):
    """A run of Weights & Biases; `WANDB_MODE=offline` writes it to `wandb/` in the workdir without a network."""

    def begin(self, run: str | None, fields: dict) -> str:
        """Open the record, with the fields of the recipe as config, and return its id."""
        self._run = self._package.init(
            project="keras_vit", name=self._recipe.name, dir=str(self._workdir), id=run, config=fields,
            resume="allow",
        )  # fmt: skip
        return self._run.id

    def log(self, step: int, metrics: dict) -> None:
        """Send the metrics of a step."""
        self._run.log(metrics, step=step)

    def keep(self, path: Path) -> None:
        """Send a file or a folder."""
        artifact = self._package.Artifact(f"{self._run.id}-{path.stem}", type="report" if path.is_dir() else "file")
        (artifact.add_dir if path.is_dir() else artifact.add_file)(str(path))
        self._run.log_artifact(artifact)

    def end(self) -> None:
        """End the record."""
        self._run.finish()
