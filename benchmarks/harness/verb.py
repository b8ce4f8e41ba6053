"""`keras-vit bench`: options, a run, its tables."""

import argparse
import contextlib
import dataclasses
import itertools
import os
import shlex
import signal
import threading
from pathlib import Path

from benchmarks.harness.machine import WITHOUT_BFLOAT16, gpus, machine
from benchmarks.harness.settings import OTHERS, PEERS, PRESETS, Settings, in_float32, small
from keras_vit.cli.output import Output, Result, add_output_options

INTERRUPTED, NOTHING = 130, 1
_OPTIONS = ("preset", "quick", "models", "tasks", "dtypes", "batches", "backends", "peers", "image_size", "depths",
            "rounds", "device", "output")  # fmt: skip
_NO_BFLOAT16 = (
    "**The bfloat16 rows are unmeasured**: this processor has no instructions for it, and a call of torch's in it "
    "takes minutes; what asks for it is asked in float32, unless `--dtypes` says otherwise."
)


def parser() -> argparse.ArgumentParser:
    """Return the parser of the benchmark's options."""
    summary = (
        "Measure speed and memory of models beside keras-hub, timm and transformers, each in a process of its own, in "
        "turns."
    )
    sub = argparse.ArgumentParser("keras-vit bench", description=summary, epilog="example: keras-vit bench --quick")
    sub.description += (
        " Writes a Markdown page and a JSON. A peer that is not installed is left out. Exit status: 0; 1, nothing could"
        " be measured; 2, a mistake in what was asked; 130, interrupted, what was measured by then is written."
    )
    sub.add_argument(
        "--preset",
        choices=PRESETS,
        help="a set of questions, which the other options change: targets (the project's goals on a CPU, hours; the "
        "default where no models, tasks, dtypes, batches, image sizes or depths are named), growth (with image, batch "
        "and depth), gpu (B/16 and L/16, bfloat16, batch 256, on JAX), quick (a minute)",
    )
    sub.add_argument("--quick", action="store_true", help="the same as --preset quick")
    sub.add_argument("--models", metavar="NAME,...", help="of `keras-vit list` (default ViT_B16)")
    sub.add_argument("--tasks", metavar="TASK,...", help="forward,train (default both)")
    sub.add_argument("--dtypes", metavar="TYPE,...", help="float32, bfloat16 (weights, too; forward only), "
                     "mixed_bfloat16 (torch: autocast) (default all; float32 where AVX2 is all there is)")  # fmt: skip
    sub.add_argument("--batches", metavar="N,...", help="images of a call (default 8)")
    sub.add_argument("--backends", metavar="NAME,...", help="tensorflow,jax, of Keras (default both)")
    sub.add_argument("--peers", metavar="NAME,...", help=f"none, or some of {','.join(PEERS)} (the default), "
                     f"{','.join(OTHERS)}, FILE.py:FUNCTION of your own")  # fmt: skip
    sub.add_argument("--image-size", metavar="PIXELS,...", help="sides of the images (default the model's own)")
    sub.add_argument("--depths", metavar="N,...", help="numbers of encoder blocks (default the model's own)")
    sub.add_argument("--rounds", type=int, help="turns of each contestant (default 7)")
    sub.add_argument("--device", help="cpu or gpu (default cpu)")
    sub.add_argument("--resume", metavar="FILE", help="go on with an interrupted run, whose JSON this is, on the same "
                     "machine; takes no other option")  # fmt: skip
    sub.add_argument("--output", metavar="DIR", help="folder of the results (default benchmarks/results in the "
                     "project's folder, else bench-results)")  # fmt: skip
    add_output_options(sub)
    return sub


def main(arguments: list[str]) -> int:
    """Parse the benchmark's options, run it, and return the exit status."""
    options = parser().parse_args(arguments)
    with Output(options.json, options.quiet) as printer:
        return run_bench(options, printer)


def run_bench(options, printer: Output) -> int:
    """Measure, print the tables, write the files; the exit status."""
    earlier = _earlier(options)
    if earlier:
        preset, settings, notes = earlier.result["preset"], earlier.settings, earlier.result["notes"]
        output = earlier.file.parent
    else:
        preset, settings, notes = _settings(options)
        output = _output(options.output)
    with _without_gpus():
        from benchmarks.harness.conduct import Conductor
        from benchmarks.harness.plan import questions

        conductor = Conductor(settings, questions(settings), output, notes, preset, earlier, _command(options))
    output.mkdir(parents=True, exist_ok=True)
    if not os.access(output, os.W_OK):
        raise ValueError(f"output expected a folder that can be written to, received {str(output)!r}.")
    return _conduct(conductor, printer)


def _earlier(options):
    """The run to go on with, None where a new one is asked for."""
    if options.resume is None:
        return None
    others = {name: value for name, value in vars(options).items() if name in _OPTIONS and value not in (None, False)}
    if others:
        raise ValueError(f"--resume expected no other option, received --{next(iter(others)).replace('_', '-')}.")
    from benchmarks.harness.earlier import open_earlier

    return open_earlier(options.resume)


def _command(options) -> str:
    """What was typed, by the options that were given; without folders, which are the machine's own."""
    given = {name: value for name in _OPTIONS if (value := getattr(options, name)) not in (None, False)}
    given.pop("output", None)
    if "peers" in given:
        given["peers"] = ",".join(Path(peer).name for peer in given["peers"].split(","))
    words = [[f"--{name.replace('_', '-')}", *([] if value is True else [str(value)])] for name, value in given.items()]
    return shlex.join(["keras-vit", "bench", *itertools.chain(*words)])


def _settings(options) -> tuple[str | None, tuple[Settings, ...], list[str]]:
    """The preset's name where it is as it stands, the products that were asked for, what is to be said of them."""
    words = {"models": options.models, "tasks": options.tasks, "dtypes": options.dtypes}
    numbers = {"batches": options.batches, "image_sizes": options.image_size, "depths": options.depths}
    shaped = {name: _words(text) for name, text in words.items() if text is not None}
    shaped |= {name: _numbers(name, text) for name, text in numbers.items() if text is not None}
    given = {name: _words(text) for name in ("backends", "peers") if (text := getattr(options, name)) is not None}
    given |= {name: value for name in ("rounds", "device") if (value := getattr(options, name)) is not None}
    if given.get("peers") == ("none",):
        given["peers"] = ()
    if options.quick and options.preset not in (None, "quick"):
        raise ValueError(f"--quick expected no other preset, received --preset {options.preset}.")
    preset = "quick" if options.quick else options.preset or (None if shaped else "targets")
    parts = PRESETS[preset] if preset else (Settings(),)
    parts = tuple(dataclasses.replace(part, **shaped, **given) for part in parts)
    preset = None if shaped or set(given) - {"rounds"} else preset  # of the whole set alone
    if all(part.device == "cpu" for part in parts):
        return preset, *_multiplied_here(parts, options.dtypes)
    if gpus():
        return preset, parts, []
    if given.get("device") == "gpu":
        raise ValueError("device expected a GPU that nvidia-smi lists, found none.")
    asked = "; ".join(
        f"{', '.join(part.models)} at {', '.join(map(str, part.image_sizes))} px, batch "
        f"{', '.join(map(str, part.batches))}, in {', '.join(part.dtypes)}" for part in parts
    )  # fmt: skip
    note = f"**The GPU rows are unmeasured**: no GPU is at hand for {asked}. What follows are the same contestants, "
    note += "small and on this machine's CPU; that shows that they run, and says nothing of a GPU."
    parts, notes = _multiplied_here(tuple(dict.fromkeys(small(part) for part in parts)), options.dtypes)
    return preset, parts, [note, *notes]


def _multiplied_here(parts, dtypes: str | None) -> tuple[tuple[Settings, ...], list[str]]:
    """The parts in types that this processor has instructions for, unless some are asked for; and what to say of it."""
    if dtypes or in_float32(parts) == parts or machine()["instructions"] not in WITHOUT_BFLOAT16:
        return parts, []
    return in_float32(parts), [_NO_BFLOAT16]


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())


def _numbers(name: str, text: str) -> tuple[int, ...]:
    try:
        return tuple(int(word) for word in _words(text))
    except ValueError:
        raise ValueError(f"{name} expected positive ints with commas between them, received {text!r}.") from None


def _output(folder: str | None) -> Path:
    if folder is None:
        in_project = Path("benchmarks/harness").is_dir()
        return Path("benchmarks/results" if in_project else "bench-results")
    place = Path(folder)
    if any(part.exists() and not part.is_dir() for part in (place, *place.parents)):
        raise ValueError(f"output expected a folder, received {folder!r}, where a file lies.")
    return place


@contextlib.contextmanager
def _without_gpus():
    """While entered, this process sees no GPU: they belong to the contestants, and here shapes alone are counted."""
    without = {"CUDA_VISIBLE_DEVICES": "-1", "JAX_PLATFORMS": "cpu"}
    before = {name: os.environ.get(name) for name in without}
    os.environ.update(without)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name)
            os.environ.update({} if value is None else {name: value})


def _conduct(conductor, printer: Output) -> int:
    from benchmarks.harness.page import overview
    from keras_vit.predict.progress import Progress

    status, place = 0, " and ".join(map(str, conductor.files))
    with Progress(conductor.turns, printer.quiet, "turns") as progress, _sigterm_as_ctrl_c():
        try:
            conductor.run(progress)
        except KeyboardInterrupt:
            status = INTERRUPTED
    measured = any(question["rows"] for question in conductor.result["questions"])
    text = [overview(conductor.result)] if measured else []
    if status == INTERRUPTED:
        again = f"; go on with: keras-vit bench --resume {conductor.files[0]}"
        there = conductor.files[0].exists()
        kept = f"what was measured by then is in {place}{again}" if there else "nothing was measured"
        printer.error("bench", f"interrupted; {kept}")
    elif not measured:
        printer.error("bench", f"no contestant could be measured; why stands in {conductor.files[1]}")
        status = NOTHING
    else:
        text.append(f"wrote {place}")
    data = {"files": [str(file) for file in conductor.files], "rows": list(_rows(conductor.result))}
    return printer.finish(Result(data, "\n".join(text), status=status))


def _rows(result: dict):
    """Yield each contestant's row with its question's fields, as `--json` prints them."""
    for question in result["questions"]:
        asked = {
            name: question[name] for name in ("model", "task", "precision", "batch", "image_size", "depth", "device")
        }
        for row in question["rows"]:
            yield asked | {name: value for name, value in row.items() if name not in ("turns", "groups")}


@contextlib.contextmanager
def _sigterm_as_ctrl_c():
    """While entered, SIGTERM interrupts as Ctrl-C does."""

    def interrupt(*_):
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
