"""One style of output for all verbs: results, notes, colours, tables and the next command."""

import io
import json
import os
import subprocess
import sys
import warnings

import pytest
from support import ROOT

from keras_vit import cli, terminal
from keras_vit.cli import table
from keras_vit.cli.output import Result
from keras_vit.terminal import paint


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def verb(monkeypatch, capsys):
    """Return a function that runs `keras-vit list` with another result; it returns the status and the output."""

    def run_verb(result, *options, notes=True):
        def run(_):
            if notes:
                print("a library's line")
                print("a note", file=sys.stderr)
                with warnings.catch_warnings():
                    warnings.simplefilter("always")
                    warnings.warn("two files are left out.", stacklevel=1)
            if isinstance(result, BaseException):
                raise result
            return result

        monkeypatch.setattr("keras_vit.cli.list.run", run)
        status = cli.main(["list", *options])
        said = capsys.readouterr()
        return status, said.out, said.err

    return run_verb


RESULT = Result({"name": "größe"}, "1 line", ("predict", "a b", "IMAGE"), 1)
NOTES = "a note\nkeras-vit: two files are left out.\n"


def test_the_text_the_notes_and_the_next_command(verb):
    assert verb(RESULT) == (1, "a library's line\n1 line\n", NOTES + "next: keras-vit predict 'a b' IMAGE\n")


def test_json_is_all_of_the_standard_output(verb):
    status, out, err = verb(RESULT, "--json")
    assert (status, out) == (1, '{"name": "größe"}\n') and err == "a library's line\n" + NOTES
    assert verb(Result([]), "--json")[1] == "[]\n"
    assert verb(Result(None, "text"), "--json")[1] == ""


def test_quiet_leaves_errors_and_the_json_result(verb):
    assert verb(RESULT, "--quiet") == (1, "", "")
    assert verb(RESULT, "--quiet", "--json") == (1, '{"name": "größe"}\n', "")
    assert verb(ValueError("no such file."), "--quiet") == (2, "", "keras-vit list: no such file.\n")
    assert verb(KeyboardInterrupt(), "--quiet") == (130, "", "keras-vit list: interrupted\n")


def test_the_streams_are_restored_after_a_bug(verb):
    before = sys.stdout, sys.stderr
    with pytest.raises(RuntimeError):
        verb(RuntimeError("a bug"), "--quiet", "--json")
    assert (sys.stdout, sys.stderr) == before


def test_quiet_hides_the_notes_where_the_output_of_c_is_hidden(capfd):
    with cli.Output(quiet=True), terminal.hide_stderr():
        print("a note", file=sys.stderr)
        os.write(2, b"a line of C++\n")
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("environment", "stream", "coloured"),
    [
        ({}, Terminal(), True),
        ({}, io.StringIO(), False),
        ({"NO_COLOR": "1"}, Terminal(), False),
        ({"NO_COLOR": ""}, Terminal(), True),
        ({"TERM": "dumb"}, Terminal(), False),
    ],
)
def test_colours_are_for_terminals_without_no_color(environment, stream, coloured, monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert paint("broken", "red", stream) == ("\x1b[31mbroken\x1b[0m" if coloured else "broken")
    monkeypatch.setattr(sys, "stderr", stream)
    stream.seek(0)
    stream.truncate()
    assert cli.main(["train", "absent.py"]) == 2
    assert stream.getvalue().startswith("\x1b[31mkeras-vit train:\x1b[0m recipe" if coloured else "keras-vit train: r")


ROWS = [("name", "output", "text"), ("ViT_B16", "1,024", "one two three four five six"), ("x", "8", "")]


def test_a_table_without_a_width_has_a_line_per_row():
    assert table.table_lines(ROWS, {1}) == [
        "name     output  text",
        "ViT_B16   1,024  one two three four five six",
        "x             8",
    ]
    assert table.table_lines([]) == []


def test_a_table_fits_the_width_by_wrapping_a_column():
    lines = table.table_lines(ROWS, {1}, width=40)
    assert lines[1:3] == ["ViT_B16   1,024  one two three four five", " " * 17 + "six"]
    assert max(map(len, lines)) <= 40
    wide = [("a long name of a layer, and more", "1,024"), ("b", "9")]
    assert table.table_lines(wide, {1}, 30, wrapped=0) == [
        "a long name of a layer,  1,024",
        "and more",
        "b" + "9".rjust(29),
    ]


def test_a_table_that_cannot_be_wrapped_is_printed_cell_by_cell():
    assert table.table_lines(ROWS, {1}, width=20, names=ROWS[0]) == [
        *("name: ViT_B16", "output: 1,024", "text: one two three four five six", ""),
        *("name: x", "output: 8", ""),
    ]


def test_tables_of_verbs_fit_a_terminal_and_are_whole_in_a_pipe(monkeypatch, capsys):
    assert cli.main(["list"]) == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) > 90
    monkeypatch.setattr(table, "on_terminal", lambda stream: True)
    monkeypatch.setenv("COLUMNS", "80")
    for command in (["list"], ["weights", "find", "--limit", "3", "--model", "B_16"]):
        assert cli.main(command) == 0
        assert max(map(len, capsys.readouterr().out.splitlines())) <= 80


@pytest.mark.parametrize(
    ("command", "read"),
    [
        (["list", "ViT_L*"], lambda found: {"ViT_L16", "ViT_L32"} < {row["name"] for row in found}),
        (["weights", "find", "--limit", "2"], lambda found: len(found["weights"]) == 2 < found["found"]),
        (["weights", "show", str(ROOT / "tests/goldens/g1.weights.npz")], lambda found: found["layout"] == "npz"),
        (["summary", "ViT_Ti16"], lambda found: found["macs"] > 10**9),
    ],
    ids=["list", "find", "show", "summary"],
)
def test_the_smaller_verbs_print_one_object_and_state_the_next_command(command, read, capsys):
    assert cli.main([*command, "--json"]) == 0
    said = capsys.readouterr()
    assert read(json.loads(said.out)) and said.out.count("\n") == 1 and "next:" not in said.err
    assert cli.main(command) == 0
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("next: keras-vit ")
    assert cli.command_parser().parse_args(last.split()[2:])


def test_a_reader_that_closes_the_pipe_is_no_error():
    command = [sys.executable, "-m", "keras_vit.cli", "list"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        process.stdout.close()
        error = process.stderr.read()
    assert process.returncode == 1 and error == ""
