"""`keras-vit completion`: its scripts complete verbs, options, choices and files."""

import json
import shutil
import subprocess
import sys

import pytest

from keras_vit import cli
from keras_vit.cli.completion import SHELLS

# Complete the words after the script's path as bash does for the Tab key; print one candidate per line.
BASH = """
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_LINE="$*"; COMP_POINT=${#COMP_LINE}; COMP_TYPE=9
_shtab_keras_vit keras-vit "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture
def script(tmp_path, capsys):
    """Return a function that writes the script of a shell and returns its path."""
    pytest.importorskip("shtab", reason="extra `completion` is not installed")

    def write(shell):
        assert cli.main(["completion", shell]) == 0
        said = capsys.readouterr()
        assert not said.err
        (tmp_path / f"script.{shell}").write_text(said.out)
        return tmp_path / f"script.{shell}"

    return write


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["tra"], {"train"}),
        (["train", "--work"], {"--workdir"}),
        (["evaluate", "runs", "--suite", ""], {"vtab1k", "paper", "fewshot", "real"}),
        (["weights", ""], {"find", "show", "download", "convert"}),
        (["completion", ""], set(SHELLS)),
        (["train", "my_rec"], {"my_recipe.py"}),
        (["predict", "model.keras", "--output", "my_rec"], {"my_recipe.py"}),
    ],
)
def test_bash_completes(words, expected, script, tmp_path):
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("bash is not installed")
    (tmp_path / "my_recipe.py").touch()
    command = [bash, "--norc", "-c", BASH, "bash", str(script("bash")), "keras-vit", *words]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert {line.strip() for line in done.stdout.splitlines()} >= expected, done.stderr
    assert expected != {"train"} or done.stdout.split() == ["train"]


@pytest.mark.parametrize("shell", SHELLS)
def test_a_script_has_all_verbs_and_its_shell_parses_it(shell, script):
    path = script(shell)
    assert all(verb in path.read_text() for verb in cli.VERBS)
    assert "calibration" in path.read_text()
    if shutil.which(shell):
        subprocess.run([shell, "-n", str(path)], check=True)


def test_json_has_the_script(script, capsys):
    text = script("fish").read_text()
    assert cli.main(["completion", "fish", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["script"].strip() == text.strip()


def test_without_shtab_the_sentence_names_the_extra(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert cli.main(["completion", "bash"]) == 2
    error = capsys.readouterr().err
    assert (
        error
        == "keras-vit completion: completion expected shtab, found none: pip install 'keras-vit-zoo[completion]'.\n"
    )
