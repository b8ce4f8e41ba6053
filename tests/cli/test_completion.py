"""`keras-vit completion`: its scripts complete verbs, options, choices and files."""

import json
import os
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


# Type the words and Tab into an interactive zsh with the script's folder on `fpath`; print the candidates.
ZSH = r"""
zmodload zsh/zpty
zpty shell zsh -f -i
type() { zpty -w shell "$1" }
type "PROMPT= RPROMPT=; fpath=(${(q)1} \$fpath); autoload -Uz compinit; compinit -u -D; bindkey '^I' complete-word"
type 'compadd() { local -a kept; builtin compadd -O kept "$@"; (($#kept)) && print -rl -- $kept >> $OUT
builtin compadd "$@" }'
type "OUT=${(q)2}; print R''EADY"
zpty -r -m shell seen '*READY*'
zpty -w -n shell "$3"$'\t'
zpty -w -n shell $'\x15'"touch ${(q)2}.done"$'\n'
repeat 300; do [[ -e $2.done ]] && break; sleep 0.1; done
zpty -d shell
cat $2
"""
FISH = 'source $argv[1]; complete -C "$argv[2]"'


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


def in_bash(bash, path, words, folder):
    return [bash, "--norc", "-c", BASH, "bash", str(path), "keras-vit", *words]


def in_zsh(zsh, path, words, folder):
    (folder / "functions").mkdir()
    shutil.copy(path, folder / "functions" / "_keras-vit")
    return [
        zsh,
        "-f",
        "-c",
        ZSH,
        "zsh",
        str(folder / "functions"),
        str(folder / "found"),
        " ".join(["keras-vit", *words]),
    ]


def in_fish(fish, path, words, folder):
    return [fish, "--no-config", "-c", FISH, str(path), " ".join(["keras-vit", *words])]


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["tra"], {"train"}),
        (["train", "--work"], {"--workdir"}),
        (["evaluate", "runs", "--suite", ""], {"vtab1k", "paper", "fewshot", "real"}),
        (["weights", ""], {"find", "show", "download", "convert"}),
        (["serve", "--js"], {"--json"}),
        (["completion", ""], set(SHELLS)),
        (["train", "my_rec"], {"my_recipe.py"}),
        (["predict", "model.keras", "--output", "my_rec"], {"my_recipe.py"}),
    ],
)
def test_a_shell_completes(words, expected, shell, script, tmp_path):
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is not installed")
    (tmp_path / "my_recipe.py").touch()
    command = {"bash": in_bash, "zsh": in_zsh, "fish": in_fish}[shell](program, script(shell), words, tmp_path)
    environment = {**os.environ, "HOME": str(tmp_path), "TERM": "dumb"}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60)
    found = {line.partition("\t")[0].strip() for line in done.stdout.splitlines()}  # fish adds a description
    assert found >= expected, (done.stdout, done.stderr)
    assert expected != {"train"} or found == {"train"}


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
