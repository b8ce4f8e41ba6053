"""On a GPU the processes of several questions start at once, as many as fit into its memory."""

import json
import sys
from pathlib import Path

import pytest

from benchmarks.harness import conduct, machine, matmul, plan, processes, verb, worker
from benchmarks.harness.ahead import Ahead, Group
from keras_vit import cli

FAKE = Path(__file__).with_name("fake_peer.py")


def group(file, letters, size):
    def command(letter):
        return [sys.executable, "-P", worker.__file__, f"{FAKE}:recording", json.dumps(contestant(letter))]

    def contestant(letter):
        return {"letter": letter, "file": str(file)}

    return Group({letter: command(letter) for letter in letters}, {}, size)


def test_as_many_groups_start_as_fit_and_all_are_ready_before_one_takes_turns(tmp_path):
    file = tmp_path / "calls"
    groups = {"first": group(file, "AB", 6), "second": group(file, "C", 2), "third": group(file, "D", 9)}
    with Ahead(groups, room=8) as ahead:
        assert ahead.workers("of a processor") == {} and not file.exists()
        first = ahead.workers("first")
        assert ahead.alive == 3 and sorted(file.read_text()) == sorted("AAABBBCCC")
        events = list(processes.turns(groups["first"].commands, 2, calls=1, started=first))
        assert [event.kind for event in events] == ["starting", "ready"] * 2 + ["turn"] * 4
        assert file.read_text()[9:] == "ABBA"  # and not three calls more of each, as of one that has just started
        second = ahead.workers("second")["C"]
        assert second.turn(1)["peak"] > 0
        third = ahead.workers("third")["D"]  # more than there is room for: it starts alone
        assert ahead.alive == 1 and file.read_text()[13:] == "CDDD"
        assert second._process.poll() is not None and third._process.poll() is None
    assert third._process.poll() is not None


def test_what_fails_before_its_turn_is_left_out_in_its_turn():
    commands = {name: [sys.executable, "-P", worker.__file__, f"{FAKE}:{name}", "{}"] for name in ("good", "absent")}
    with Ahead({0: Group(commands, {}, 1)}, room=2) as ahead:
        events = list(processes.turns(commands, 1, started=ahead.workers(0)))
    assert [(event.name, event.kind) for event in events if event.kind != "starting"] == [
        ("good", "ready"),
        ("absent", "left out"),
        ("good", "turn"),
    ]


@pytest.mark.parametrize(("bytes_of_the_gpu", "alive"), [(80e9, 4), (4e9, 2)])
def test_a_run_on_a_gpu_starts_its_questions_at_once(bytes_of_the_gpu, alive, tmp_path, monkeypatch, capsys):
    gpus = lambda: [{"name": "Fake H200", "memory_bytes": int(bytes_of_the_gpu)}]  # noqa: E731
    monkeypatch.setattr(machine, "gpus", gpus)
    monkeypatch.setattr(verb, "gpus", gpus)
    monkeypatch.setattr(conduct, "BASE", 0.0)
    monkeypatch.setitem(plan.ON_KERAS, "keras_vit", f"{FAKE}:good")
    monkeypatch.setattr(matmul, "LIBRARIES", ("numpy",))  # which has no GPU
    asked = ["--models", "ViT_Ti16", "--depths", "1", "--image-size", "32", "--batches", "2,4", "--rounds", "1"]
    asked += ["--tasks", "forward", "--dtypes", "float32,bfloat16", "--backends", "jax", "--device", "gpu"]
    asked += ["--peers", "none"]
    assert cli.main(["bench", *asked, "--output", str(tmp_path)]) == 0
    (file,) = tmp_path.glob("*.json")
    result = json.loads(file.read_text())
    assert result["complete"] and result["most_processes"] == alive
    assert [(part["precision"], part["batch"]) for part in result["questions"]] == [
        ("float32", 2),
        ("float32", 4),
        ("bfloat16", 2),
        ("bfloat16", 4),
    ]
    page = file.with_suffix(".md").read_text()
    assert "On the GPU processes start many at once" in page and "Fake H200" in page
