"""Run suites of evaluations: VTAB-1k, the paper's data sets, few-shot and the ImageNets."""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

from keras_vit.evaluate.suite_runner import SUITES, Runner
from keras_vit.evaluate.suite_runner import Settings as Settings
from keras_vit.evaluate.transfer import FEW_SHOT, IMAGENETS, PAPER, VTAB1K
from keras_vit.train.workdir import write_atomically


def run_suite(settings: Settings, say: Callable[[str], None] | None = None) -> dict:
    """Run a suite. A second call continues with the remaining tasks.

    Args:
        settings: the settings.
        say: receives a message after each task; None prints it to the standard error.

    Returns:
        The content of `results.json`: `suite`, `model` (its fingerprint), `paper_name`, `how`, `tasks` (name -> scores,
        accuracies in [0, 1]) and `missing` (name -> how to provide the data).

    Raises:
        ValueError: a name is unknown, or the folder holds the results of another run.
    """
    say = say or (lambda line: print(line, file=sys.stderr))
    tasks = tasks_of(settings.suite)
    unknown = [name for name in settings.tasks if name not in tasks]
    if unknown:
        raise ValueError(f"tasks expected some of {', '.join(tasks)}, received {', '.join(unknown)}.")
    runner = Runner(settings)
    file = settings.output / "results.json"
    results = _load_results(file, runner.origin())
    for name in settings.tasks or tasks:
        if name in results["tasks"]:
            continue
        start = time.perf_counter()
        try:
            scores = runner.measure(tasks[name])
        except FileNotFoundError as error:
            results["missing"][name] = str(error)
            say(f"{name}: {error}")
        else:
            results["missing"].pop(name, None)
            results["tasks"][name] = {**scores, "seconds": round(time.perf_counter() - start, 1)}
            say(f"{name}: {_summary(scores)}")
        settings.output.mkdir(parents=True, exist_ok=True)
        write_atomically(file, json.dumps(results, indent=1) + "\n")
    return results


def tasks_of(suite: str) -> dict:
    """Return the tasks of a suite by name, in its order."""
    if suite not in SUITES:
        raise ValueError(f"suite expected one of {', '.join(SUITES)}, received {suite!r}.")
    if suite in ("vtab1k", "paper"):
        return {task.name: task for task in (VTAB1K if suite == "vtab1k" else PAPER)}
    return {task[0]: task for task in (FEW_SHOT if suite == "fewshot" else IMAGENETS)}


def _load_results(file: Path, origin: dict) -> dict:
    """Return the results so far. Raise a ValueError if they belong to another run."""
    if not file.is_file():
        return {**origin, "tasks": {}, "missing": {}}
    results = json.loads(file.read_text())
    different = [name for name, value in json.loads(json.dumps(origin)).items() if results.get(name) != value]
    if different:
        raise ValueError(f"output expected a new folder or one of the same run, received {str(file.parent)!r}, whose "
                         f"results.json differs in {', '.join(different)}.")  # fmt: skip
    return results


def _summary(scores: dict) -> str:
    if "shots" in scores:
        return ", ".join(f"{n} shots {x['accuracy']:.1%} ± {x['deviation']:.1%}" for n, x in scores["shots"].items())
    return f"{scores['accuracy']:.2%} of {scores['examples']:,} images"
