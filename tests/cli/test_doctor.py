"""`keras-vit doctor`: what it finds, and that nothing that is broken stops it."""

import json
import platform
import re
import runpy

import keras
import pytest
from support import ROOT, needs_tensorflow

from keras_vit import cli
from keras_vit.cli import environment, probe


@pytest.fixture
def declared(monkeypatch):
    """Let the installed package declare what setup.py does; return the requirements by extra."""
    found = {}
    monkeypatch.setattr("setuptools.setup", lambda **settings: found.update(settings))
    runpy.run_path(str(ROOT / "setup.py"))
    extras = found["extras_require"]
    texts = list(found["install_requires"])
    for extra, requirements in extras.items():
        for requirement in requirements:
            text, _, marker = requirement.partition(";")
            texts.append(f'{text}; {marker + " and " if marker else ""}extra == "{extra}"')
    monkeypatch.setattr("importlib.metadata.requires", lambda name: texts)
    monkeypatch.setattr(
        environment, "_extras", lambda: [name for name in extras if name not in environment.DEVELOPMENT]
    )
    return {"": found["install_requires"], **extras}


@pytest.fixture
def imported(monkeypatch):
    """Let all imports succeed without a process; return the dict of the errors."""
    errors = {}

    def try_imports(modules, facts=False):
        found = {"backend": "jax", "devices": ["cpu:0"], "onednn": None} if facts else {}
        return {module: errors.get(module) for module in modules}, found

    monkeypatch.setattr(probe, "try_imports", try_imports)
    return errors


def versions(monkeypatch, **changed):
    """Change the versions of some installed packages; None removes one."""
    found = environment.installed_version
    changed = {name.replace("_", "-"): version for name, version in changed.items()}
    monkeypatch.setattr(environment, "installed_version", lambda name: changed.get(name, found(name))
                        if changed.get(name, "") is not None else None)  # fmt: skip


def doctor(capsys, *arguments):
    status = cli.main(["doctor", "--json", *arguments])
    said = capsys.readouterr()
    assert not said.err
    return status, json.loads(said.out)


@needs_tensorflow
def test_a_working_installation_is_described_and_the_status_is_0(capsys):
    import tensorflow as tf

    status, facts = doctor(capsys)
    assert status == 0 and facts["core_works"] and not facts["errors"]
    assert facts["python"] == platform.python_version()
    assert facts["keras"]["backend"] == keras.backend.backend() and facts["keras"]["devices"]
    assert facts["keras"]["onednn"] in (True, False)
    found = {package["name"]: package["version"] for package in facts["packages"] or []}
    assert not found or (found["tensorflow"], found["keras"]) == (tf.__version__, keras.__version__)
    assert facts["disk"]["here"] > 0 and facts["machine"]["cores"] > 0


def test_each_package_of_an_extra_names_what_needs_it(declared):
    extras = {extra: texts for extra, texts in declared.items() if extra not in ("", *environment.DEVELOPMENT)}
    names = {re.match(r"[\w-]+", text)[0].replace("_", "-") for texts in extras.values() for text in texts}
    assert names == set(environment.NEEDED_BY)
    listed = environment.packages()
    assert {package.extra for package in listed} == {"", *extras}
    assert len([package for package in listed if not package.extra]) == len(declared[""])


def test_a_missing_package_of_an_extra_is_no_error_and_names_its_verb_and_command(
    declared, imported, monkeypatch, capsys
):
    versions(monkeypatch, tf2onnx=None)
    assert cli.main(["doctor"]) == 0
    said = capsys.readouterr()
    assert re.search(r"^tf2onnx +>=1.17 +formats +missing; needed by export: onnx$", said.out, re.MULTILINE)
    assert "extra formats is incomplete: pip install 'keras-vit-zoo[formats]'\n" in said.out
    assert "the core works\n" in said.out and said.err == "next: keras-vit new recipe.py\n"


def test_a_version_outside_the_bounds_of_setup_py_is_a_warning(declared, imported, monkeypatch, capsys):
    versions(monkeypatch, keras="3.99.0", openvino="2020.1")
    assert cli.main(["doctor"]) == 0
    sentence = "warning: these versions are outside the tested ones: keras 3.99.0 (<3.16,>=3.15), "
    assert sentence + "openvino 2020.1 (>=2025.4)\n" in capsys.readouterr().out


def test_a_missing_or_broken_package_of_the_core_is_status_1(declared, imported, monkeypatch, capsys):
    versions(monkeypatch, safetensors=None)
    imported["keras"] = "ImportError: no AVX"
    assert cli.main(["doctor"]) == 1
    out = capsys.readouterr().out
    assert "broken: import keras failed (ImportError: no AVX)\n" in out
    command = "pip install --force-reinstall 'keras<3.16,>=3.15' 'safetensors>=0.5'"
    assert out.endswith(f"the core does not work: {command}\n")


def test_a_broken_extra_is_found_by_its_import_and_is_no_error_of_the_core(declared, imported, capsys):
    imported["onnx"] = "the process ended by SIGSEGV"
    assert doctor(capsys)[1]["errors"] == {}
    status, facts = doctor(capsys, "--import-extras")
    assert status == 0 and facts["errors"] == {"onnx": "the process ended by SIGSEGV"}
    assert [p["name"] for p in facts["packages"] if p["state"] == environment.BROKEN] == ["onnx"]


def test_without_metadata_the_versions_are_not_compared(imported, monkeypatch, capsys):
    monkeypatch.setattr(environment, "DISTRIBUTION", "absent-distribution")
    assert cli.main(["doctor"]) == 0
    assert "not installed: its versions are not compared with the tested ones" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("raise RuntimeError('no\\ndriver')", "RuntimeError: no driver"),
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGILL)", "the process ended by SIGILL"),
        ("import os, sys; print('no card', file=sys.stderr, flush=True); os._exit(1)", "no card"),
        ("print('keras')", None),
    ],
)
def test_a_module_that_ends_its_process_does_not_end_doctor(code, reason, tmp_path, monkeypatch):
    (tmp_path / "odd_module.py").write_text(code)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    results, _ = probe.try_imports(["json", "odd_module"])
    assert results == {"json": None, "odd_module": reason}


def test_memory_is_that_of_the_control_group_if_it_has_a_limit(monkeypatch):
    files = {"/proc/meminfo": "MemTotal: 2000 kB\nMemAvailable: 1500 kB\n", "/sys/fs/cgroup/memory.max": "1024000\n",
             "/sys/fs/cgroup/memory.current": "24000\n"}  # fmt: skip
    monkeypatch.setattr(environment, "_read", lambda path: files.get(path, ""))
    assert environment.machine()["memory"] == {"total": 1024000, "available": 1000000}
    files["/sys/fs/cgroup/memory.max"] = "max\n"
    assert environment.machine()["memory"] == {"total": 2048000, "available": 1536000}
    files.clear()
    assert environment.machine()["memory"] == {"total": None, "available": None}
    assert environment.machine()["instructions"] is None


def test_the_folder_of_weights_is_measured(tmp_path):
    (tmp_path / "weights").mkdir()
    (tmp_path / "weights/a.npz").write_bytes(b"12345")
    found = environment.disk(tmp_path / "weights")
    assert (found["files"], found["bytes"]) == (1, 5) and found["free"] > 0
    assert environment.disk(tmp_path / "absent/deeper")["bytes"] == 0
