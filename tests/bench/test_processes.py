"""Contestants of `keras-vit bench` take turns in their processes, and one that fails is a sentence."""

import collections
import contextlib
import itertools
import json
import sys
from pathlib import Path

import pytest
from support import ROOT

from benchmarks.harness import processes, worker

FAKE = Path(__file__).with_name("fake_peer.py")


def command(function, **contestant):
    return [sys.executable, "-P", worker.__file__, f"{FAKE}:{function}", json.dumps(contestant)]


def test_contestants_take_turns_and_have_their_processes_for_themselves(tmp_path):
    file = tmp_path / "calls"
    commands = {letter: command("recording", letter=letter, file=str(file)) for letter in "ABC"}
    with contextlib.closing(processes.turns(commands, rounds=4, calls=2)) as events:
        kinds = [(event.name, event.kind) for event in events]
    # warmed up one after the other; then each round has another order; and nothing heavy was imported
    assert file.read_text() == "AAABBBCCC" + "AACCBB" + "CCAABB" + "CCBBAA" + "BBCCAA"
    assert kinds[:4] == [("A", "starting"), ("A", "ready"), ("B", "starting"), ("B", "ready")]
    assert [name for name, kind in kinds if kind == "turn"] == list("ACBCABCBABCA")


@pytest.mark.parametrize("count", range(2, 8))
def test_each_comes_equally_often_at_every_place_and_right_behind_every_other(count):
    names = list("ABCDEFG"[:count])
    rounds = [processes.in_order(names, number) for number in range(2 * count)]
    assert all(sorted(some) == names for some in rounds) and processes.in_order([], 1) == []
    places = collections.Counter(place for some in rounds for place in enumerate(some))
    behind = collections.Counter(pair for some in rounds for pair in itertools.pairwise(some))
    assert set(places.values()) == set(behind.values()) == {2} and len(behind) == count * (count - 1)


def test_a_contestant_that_fails_is_left_out_in_one_sentence_and_the_others_go_on():
    commands = {name: command(name, model="ViT_B16") for name in ("absent", "noisy", "unfit", "dead", "broken")}
    commands["ended"] = [sys.executable, "-c", "import sys; print('tired', file=sys.stderr); sys.exit(3)"]
    reasons, done = {}, []
    with contextlib.closing(processes.turns(commands, rounds=3)) as events:
        for event in events:
            if event.kind == "left out":
                reasons[event.name] = event.answer["reason"]
            elif event.kind == "turn":
                done.append((event.name, len(event.answer["seconds"])))
                assert 10**6 < event.answer["peak"] < 200 * 10**6  # of its own process, not of this one
    assert reasons == {
        "absent": "no_such_library is not installed",
        "unfit": "this peer has no ViT_B16",
        "dead": "its process was ended by signal 9, as happens where the memory is full",
        "broken": "out of fake memory",
        "ended": "its process ended with status 3: tired",
    }
    assert [name for name, _ in done].count("noisy") == 3 and [name for name, _ in done].count("broken") == 1
    assert all(calls > 10 for name, calls in done if name == "noisy")  # of 2 ms: as many as make a turn


def test_seconds_are_of_a_batch_where_a_call_computes_several():
    with contextlib.closing(processes.turns({"several": command("several")}, rounds=2, calls=3)) as events:
        found = list(events)
    ready = next(event.answer for event in found if event.kind == "ready")
    assert (ready["first"], ready["warm"]) == (8.0, 8.0)  # of the call, which a turn's length follows from
    assert [event.answer["seconds"] for event in found if event.kind == "turn"] == [[2.0] * 3] * 2


def test_a_peer_finds_the_files_beside_it_and_itself(tmp_path):
    (tmp_path / "beside.py").write_text("PEAK = 7")
    peer = "from __future__ import annotations\nimport beside, dataclasses\n"
    peer += "@dataclasses.dataclass\nclass Of:\n    peak: int\n"
    (tmp_path / "peer.py").write_text(peer + "prepare = lambda asked: ((lambda: None), lambda: Of(beside.PEAK).peak)")
    started = [sys.executable, "-P", worker.__file__, f"{tmp_path / 'peer.py'}:prepare", "{}"]
    with contextlib.closing(processes.turns({"peer": started}, rounds=1)) as events:
        assert [*events][-1].answer.get("peak") == 7


def test_the_other_benchmarks_compare_by_the_same_turns(capsys):
    script = ROOT / "tests/bench/fake_script.py"
    found = processes.compare([sys.executable, str(script)], ["quick", "missing"], rounds=2, calls=3)
    assert set(found) == {"quick"} and len(found["quick"]) == 6
    assert "left out missing: no_such_library is not installed" in capsys.readouterr().err
