"""Suites of evaluations, each task kept as soon as it is done: VTAB-1k, the paper's data sets, few-shot, ImageNets."""

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
    """Run a suite; the same call again goes on with the tasks that are not done.

    Args:
        settings: what and how.
        say: takes a line for people after each task; printed to the standard error where None.

    Returns:
        What `results.json` holds: `suite`, `model` (its fingerprint), `paper_name`, `how`, and `tasks`, name -> its
        scores with accuracies as shares in [0, 1]; `missing`, name -> what to put where.

    Raises:
        ValueError: a name is unknown, or the folder holds the results of something else.
    """
    say = say or (lambda line: print(line, file=sys.stderr))
    tasks = tasks_of(settings.suite)
    unknown = [name for name in settings.tasks if name not in tasks]
    if unknown:
        raise ValueError(f"tasks expected some of {', '.join(tasks)}, received {', '.join(unknown)}.")
    runner = Runner(settings)
    file = settings.output / "results.json"
    results = _begun(file, runner.origin())
    for name in settings.tasks or tasks:
        if name in results["tasks"]:
            continue
        begun = time.perf_counter()
        try:
            found = runner.measure(tasks[name])
        except FileNotFoundError as error:
            results["missing"][name] = str(error)
            say(f"{name}: {error}")
        else:
            results["missing"].pop(name, None)
            results["tasks"][name] = {**found, "seconds": round(time.perf_counter() - begun, 1)}
            say(f"{name}: {_line(found)}")
        settings.output.mkdir(parents=True, exist_ok=True)
        write_atomically(file, json.dumps(results, indent=1) + "\n")
    return results


def tasks_of(suite: str) -> dict:
    """Name -> task of a suite, in its order."""
    if suite not in SUITES:
        raise ValueError(f"suite expected one of {', '.join(SUITES)}, received {suite!r}.")
    if suite in ("vtab1k", "paper"):
        return {task.name: task for task in (VTAB1K if suite == "vtab1k" else PAPER)}
    return {task[0]: task for task in (FEW_SHOT if suite == "fewshot" else IMAGENETS)}


def _begun(file: Path, origin: dict) -> dict:
    """The results so far; raises where they are of something else."""
    if not file.is_file():
        return {**origin, "tasks": {}, "missing": {}}
    results = json.loads(file.read_text())
    other = [name for name, value in json.loads(json.dumps(origin)).items() if results.get(name) != value]
    if other:
        raise ValueError(f"output expected a new folder or one of the same run, received {str(file.parent)!r}, whose "
                         f"results.json differs in {', '.join(other)}.")  # fmt: skip
    return results


def _line(found: dict) -> str:
    if "shots" in found:
        return ", ".join(f"{n} shots {x['accuracy']:.1%} ± {x['deviation']:.1%}" for n, x in found["shots"].items())
    return f"{found['accuracy']:.2%} of {found['examples']:,} images"
