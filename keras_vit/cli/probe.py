"""Import packages in a process of their own, for `keras-vit doctor`: a package can end the process that imports it."""

import importlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

# Named like the command, so that `import keras_vit` does not import Keras before the packages below.
_CODE = "import sys; sys.argv[0] = 'keras-vit'; from keras_vit.cli.probe import main; main(sys.argv[1:])"
_SECONDS = 300.0
_ANSWER = "keras-vit-probe "  # the libraries print lines of their own


def try_imports(modules: list[str], facts: bool = False) -> tuple[dict[str, str | None], dict]:
    """Import modules one after the other in a new process.

    Args:
        modules: names of the modules.
        facts: whether to also return facts about Keras, if all imports succeed.

    Returns:
        Why the import failed by module, with None for success. And the facts: `backend`, `devices` and `onednn`, each
        with its value, or None if unknown.
    """
    path = os.pathsep.join([str(Path(__file__).parents[2]), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, "-c", _CODE, *(["--facts"] if facts else []), *modules]
    environment = {"TF_CPP_MIN_LOG_LEVEL": "3", **os.environ, "PYTHONPATH": path}
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", env=environment,
                              timeout=_SECONDS)  # fmt: skip
        output, ended = done.stdout, _end(done)
    except subprocess.TimeoutExpired as error:
        output = error.stdout or b""
        output = output.decode(errors="replace") if isinstance(output, bytes) else output
        ended = f"no answer after {_SECONDS:.0f} seconds"
    answers = [json.loads(line[len(_ANSWER) :]) for line in output.splitlines() if line.startswith(_ANSWER)]
    results = {answer["module"]: answer["error"] for answer in answers if "module" in answer}
    for module in modules:
        if module not in results:  # the process ended while it imported this module
            results[module] = ended
            break
    found = next((answer["facts"] for answer in answers if "facts" in answer), {})
    return results, found


def _end(done) -> str:
    if done.returncode < 0:
        return f"the process ended by {signal.Signals(-done.returncode).name}"
    lines = done.stderr.strip().splitlines()
    return lines[-1] if lines else f"the process ended with status {done.returncode}"


def main(arguments: list[str]) -> None:
    """Import the modules and print one line of JSON for each. It runs in the new process."""
    modules = [name for name in arguments if name != "--facts"]
    failed = False
    for name in modules:
        error = None
        try:
            importlib.import_module(name)
        except BaseException as raised:  # also SystemExit
            error, failed = _sentence(raised), True
        print(_ANSWER + json.dumps({"module": name, "error": error}), flush=True)
    if "--facts" in arguments and not failed:
        print(_ANSWER + json.dumps({"facts": _facts()}), flush=True)


def _sentence(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:200]}" if text else type(error).__name__


def _facts() -> dict:
    import keras

    from keras_vit.private import onednn_enabled

    facts = {"backend": keras.backend.backend(), "devices": None, "onednn": None}
    for name, compute in (("devices", keras.distribution.list_devices), ("onednn", onednn_enabled)):
        try:
            facts[name] = compute()
        except Exception:  # an unknown fact, which is no reason to fail
            continue
    return facts
