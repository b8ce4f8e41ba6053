"""The table and the picture of benchmarks/goals.py, of made-up runs; and that the repository's are of its own."""

import json

import pytest
from support import ROOT

from benchmarks import goals

OPENVINO, SAVED = "keras_vit-openvino", "keras_vit-saved_model"


def row(library, seconds, peak=4e9, share=0.5):
    return {
        "library": library,
        "turns": [[seconds]],
        "groups": [0],
        "peak_bytes": peak,
        "share_of_matmul": share / seconds,
    }


def run(rows, machine="AMD EPYC", **changes):
    about = {"model": "ViT_B16", "task": "forward", "precision": "bfloat16", "batch": 8, "depth": None}
    question = about | {"device": "cpu", "image_size": 224, "rows": rows} | changes
    hardware = {"cpu": machine, "cores": 2, "instructions": "AVX2", "memory_bytes": 2**34, "gpus": []}
    hardware |= {"system": "Linux", "python": "3.11", "versions": {}}
    return {"machine": hardware, "questions": [question]}


def cells(found, words):
    line = next(line for line in goals.page(found).splitlines() if line.startswith(f"| {words} |"))
    return [cell.strip() for cell in line.strip("|").split("|")[2:]]


def test_the_newest_run_that_asked_both_sides_counts():
    both = [row("keras_vit", 2.0), row(OPENVINO, 2.0), row("timm-compiled", 2.0)]
    faster = [row("keras_vit", 2.0), row(OPENVINO, 1.0), row("timm-compiled", 1.5), row("timm", 1.1)]
    runs = {"bench-1": run(both), "bench-2": run(faster), "bench-3": run([row(OPENVINO, 1.0), row("timm", 1.5)])}
    runs["bench-4"] = run([row(OPENVINO, 1.0), row("timm-compiled", 9.0)], "Xeon")
    found = goals.standing(runs)
    assert [*found] == ["AMD EPYC, 2 cores, AVX2", "Xeon, 2 cores, AVX2"]
    reached = ["[**1.50**](results/bench-2.md)", "[**9.00**](results/bench-4.md)"]
    assert cells(found, "ViT_B16, forward by OpenVINO, bfloat16, batch 8") == reached
    assert cells(found, "ViT_B16, forward by `predict`, bfloat16, batch 8") == ["–", "–"]


@pytest.mark.parametrize(
    "changes", [{"depth": 6}, {"image_size": 384}, {"device": "gpu"}, {"batch": 1}, {"precision": "float32"}]
)
def test_another_question_is_no_answer(changes):
    rows = [row(SAVED, 1.0), row("timm-compiled", 0.5)]
    words = "ViT_B16, forward by the SavedModel, bfloat16, batch 8"
    assert cells(goals.standing({"bench-1": run(rows)}), words) == ["[0.50](results/bench-1.md)"]
    found = goals.standing({"bench-1": run(rows), "bench-2": run(rows, **changes)})
    assert cells(found, words) == ["[0.50](results/bench-1.md)"]


def test_the_faster_of_ours_is_compared_with_the_fastest_peer_and_a_rate_above_all_limits_with_nobody():
    rows = [row("keras_vit", 2.0), row("keras_vit-compiled", 1.0), row("timm", 1.2), row("keras-hub", 1.1)]
    about = {"precision": "float32"}
    words = "ViT_B16, forward, float32, batch 8"
    assert cells(goals.standing({"a": run(rows, **about)}), words) == ["[**1.10**](results/a.md)"]
    assert goals.standing({"a": run([*rows, row("transformers", 0.9, share=0.95)], **about)}) == {}


def test_memory_is_compared_with_the_least_of_timm_and_never_of_what_computes_again():
    about = {"task": "train", "batch": 32}
    rows = [row("keras_vit", 1.0), row("keras_vit-recompute", 1.0, 3e9), row("timm", 1.0, 5e9)]
    words = "ViT_B16, peak memory of training, bfloat16, batch 32"
    found = goals.standing({"a": run([*rows, row("timm-compiled", 1.0, 4.4e9)], **about)})
    assert cells(found, words) == ["[**1.10**](results/a.md)"]
    assert (
        cells(goals.standing({"a": run([*rows, row("timm-compiled", 1.0, 3.9e9)], **about)}), words)[0][1:5] == "0.97"
    )


def test_the_picture_has_a_bar_a_goal_and_a_point_an_answer(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(goals, "HERE", tmp_path)
    assert "expected runs of `keras-vit bench`" in goals.main()
    (tmp_path / "results").mkdir()
    some = run([row(SAVED, 1.0), row("keras_vit-predict", 1.25), row("timm-compiled", 1.0)])
    (tmp_path / "results/bench-1.json").write_text(json.dumps(some))
    assert goals.main() is None and "goals.md and goals.png" in capsys.readouterr().out
    assert (tmp_path / "goals.png").read_bytes().startswith(b"\x89PNG")
    assert "[0.80](results/bench-1.md)" in (tmp_path / "goals.md").read_text()
    (axes,) = goals.draw(goals.standing({"bench-1": some}), tmp_path / "again.png").axes
    bars = [line for line in axes.lines if len(set(line.get_xdata())) == 1 and line.get_linewidth() == 2]
    (points,) = [line for line in axes.lines if line.get_label() == "AMD EPYC, 2 cores, AVX2"]
    assert len(bars) == len(goals.GOALS) and sorted(points.get_xdata()) == [0.8, 1.0]
    assert [label.get_text() for label in axes.get_yticklabels()] == [
        goal.words.replace("`", "") for goal in goals.GOALS
    ]


def test_every_goal_has_a_line_of_its_own_in_words():
    assert len({goal.words for goal in goals.GOALS}) == len(goals.GOALS)


def test_the_page_of_the_repository_is_that_of_its_runs():
    found = goals.standing(goals.read(ROOT / "benchmarks/results"))
    assert (ROOT / "benchmarks/goals.md").read_text() == goals.page(found), "run `python benchmarks/goals.py`"
