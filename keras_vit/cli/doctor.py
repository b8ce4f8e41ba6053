"""The command `keras-vit doctor`. environment.py and probe.py find the facts."""

import platform
import shlex
import shutil
import sys
from pathlib import Path

from keras_vit.cli.output import Result
from keras_vit.cli.table import table_lines, terminal_width
from keras_vit.terminal import paint

BROKEN_CORE = 1  # exit status


def add(verb) -> None:
    """Add the verb and its options to the command line."""
    sub = verb("doctor", run, "Check the installation: versions, devices, extras, memory and disk.", "doctor")
    sub.description += " Exit status: 0, the core works; 1, a package of the core is missing or broken. "
    sub.description += "Missing extras are only listed."
    sub.add_argument("--import-extras", action="store_true", help="also import each package of the extras (slow)")


def run(options) -> Result:
    """Find the facts and print them."""
    facts = find_facts(options.import_extras)
    next_command = ("new", "recipe.py") if facts["core_works"] else ()
    return Result(facts, "\n".join(_lines(facts)), next_command, 0 if facts["core_works"] else BROKEN_CORE)


def find_facts(import_extras: bool = False) -> dict:
    """Return all facts as JSON values.

    Args:
        import_extras: whether to import each installed package of the extras, each in a new process.
    """
    from keras_vit import __version__
    from keras_vit.cli import environment
    from keras_vit.cli.probe import try_imports
    from keras_vit.weights.download import home

    packages = environment.packages()
    core = [package for package in packages or [] if not package.extra]
    modules = [package.module for package in core if package.version] or ["numpy", "tensorflow", "keras"]
    errors, keras_facts = try_imports([*modules, "keras_vit.public"], facts=True)
    if import_extras:
        for package in packages or []:
            if package.extra and package.version:
                errors |= try_imports([package.module])[0]
    reasons = {name: reason for name, reason in errors.items() if reason}
    checked = [environment.broken(p, reasons[p.module]) if p.module in reasons else p for p in packages or []]
    needed = {*modules, "keras_vit.public"}
    return {
        "keras_vit": __version__,
        "python": platform.python_version(),
        "keras": {"backend": None, "devices": None, "onednn": None} | keras_facts,
        "machine": environment.machine(),
        "packages": None if packages is None else [vars(package) for package in checked],
        "backends": {name: environment.installed_version(name) for name in environment.BACKENDS},
        "disk": {"weights": environment.disk(home()), "here": shutil.disk_usage(Path.cwd()).free},
        "errors": reasons,
        "core_works": all(package.version for package in core) and not needed & reasons.keys(),
    }


def _lines(facts):
    keras, machine = facts["keras"], facts["machine"]
    yield f"keras_vit {facts['keras_vit']}, Python {facts['python']}, {machine['system']}"
    devices = ", ".join(keras["devices"]) if keras["devices"] else "unknown devices"
    yield f"backend: {keras['backend'] or 'unknown'} on {devices}" + _with_backends(facts["backends"])
    instructions = machine["instructions"]
    found = "unknown" if instructions is None else ", ".join(k for k, there in instructions.items() if there) or "none"
    onednn = {True: "on", False: "off", None: "unknown"}[keras["onednn"]]
    yield f"processor: {machine['processor'] or 'unknown'}, {machine['cores']} cores, vector instructions {found}"
    yield f"oneDNN: {onednn}"
    memory, weights = machine["memory"], facts["disk"]["weights"]
    yield f"memory: {_gigabytes(memory['available'])} available of {_gigabytes(memory['total'])}"
    yield f"disk: {_gigabytes(facts['disk']['here'])} free here"
    yield (f"weights: {weights['folder']} has {weights['files']} files, {_gigabytes(weights['bytes'])}; "
           f"{_gigabytes(weights['free'])} free")  # fmt: skip
    yield ""
    yield from _package_lines(facts["packages"])
    for name, reason in facts["errors"].items():
        yield f"{paint('broken:', 'red', sys.stdout)} import {name} failed ({reason})"
    if facts["core_works"]:
        yield paint("the core works", "green", sys.stdout)
    else:
        yield f"{paint('the core does not work:', 'red', sys.stdout)} {_repair(facts)}"


def _with_backends(backends: dict) -> str:
    there = [f"{name} {version}" for name, version in backends.items() if version]
    return f"; also installed: {', '.join(there)}" if there else ""


def _package_lines(packages):
    if packages is None:
        yield "keras-vit-zoo is on Python's path, but not installed: its versions are not compared with the tested ones"
        return
    rows = [("package", "version", "expected", "extra", "state")]
    rows += [(p["name"], p["version"] or "", p["expected"], p["extra"] or "core", _state(p)) for p in packages]
    yield from table_lines(rows, width=terminal_width(), names=rows[0])
    yield ""
    for extra in dict.fromkeys(p["extra"] for p in packages if p["extra"]):
        members = [p for p in packages if p["extra"] == extra]
        if any(p["state"] in ("missing", "broken") for p in members):
            yield f"extra {extra} is incomplete: pip install 'keras-vit-zoo[{extra}]'"
    outside = [f"{p['name']} {p['version']} ({p['expected']})" for p in packages if p["state"].startswith("outside")]
    if outside:
        warning = paint("warning:", "yellow", sys.stdout)
        yield f"{warning} these versions are outside the tested ones: {', '.join(outside)}"


def _state(package: dict) -> str:
    state = package["state"]
    if state == "ok":
        return state
    reason = f" ({package['reason']})" if package["reason"] else ""
    needed = f"; needed by {package['needed_by']}" if package["needed_by"] else ""
    return f"{state}{reason}{needed}"


def _repair(facts) -> str:
    core = [p for p in facts["packages"] or [] if not p["extra"] and p["state"] in ("missing", "broken")]
    names = [shlex.quote(p["name"] + p["expected"]) for p in core] or ["keras-vit-zoo"]
    return f"pip install --force-reinstall {' '.join(names)}"


def _gigabytes(count: int | None) -> str:
    return "unknown" if count is None else f"{count / 1e9:,.1f} GB"
