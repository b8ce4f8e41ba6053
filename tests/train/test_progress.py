"""What a run shows while it runs."""

import re
import sys
from types import SimpleNamespace

import pytest

from keras_vit.train.log import progress

FIELDS = (1_234.4, 0.01)  # images a second, and the learning rate


@pytest.fixture
def clock(monkeypatch):
    """A clock that is set by hand; nothing else reads it."""
    found = SimpleNamespace(now=100.0)
    monkeypatch.setattr(progress, "time", SimpleNamespace(perf_counter=lambda: found.now, time=lambda: found.now))
    return found


def test_lines_where_there_is_no_terminal(clock, monkeypatch, capsys):
    """None of the call that compiles, then one every ten seconds, and one of the last step."""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: False)
    with progress.Progress(8, 2) as shown:
        for step, now in ((1, 100.0), (3, 120.0), (5, 125.0), (8, 127.0)):
            clock.now = now
            shown.show(step, 1 + step // 5, 0.5, *FIELDS)
        shown.say("a line")
    assert capsys.readouterr().err.splitlines() == [
        "epoch 1/2, step 3/8, 1,234 images/s, loss 0.5000, rate 0.01, 00:50 left",
        "epoch 2/2, step 8/8, 1,234 images/s, loss 0.5000, rate 0.01, 00:00 left",
        "a line",
    ]


def test_a_bar_on_a_terminal(clock, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with progress.Progress(8, 2, start=2) as shown:
        for step in (3, 5):
            shown.show(step, 1, 0.5, *FIELDS)
    first, *_, last = capsys.readouterr().err.strip().split("\r")
    assert re.fullmatch(r"compiling \|.*\| 2/8 steps, \S+ left", first)
    assert re.fullmatch(r"epoch 1/2 \|.*\| 5/8 steps, 1,234 images/s, loss 0\.5000, rate 0\.01, \S+ left", last.strip())


@pytest.mark.parametrize("terminal", [False, True])
def test_nothing_where_it_is_quiet(terminal, clock, monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    with progress.Progress(8, 2, quiet=True) as shown:
        for step in (1, 8):
            shown.show(step, 1, 0.5, *FIELDS)
        shown.say("a line")
    assert capsys.readouterr().err == ""
