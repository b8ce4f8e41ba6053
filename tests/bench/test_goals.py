"""The table and the picture of benchmarks/goals.py, of made-up runs; and that the repository's are of its own."""

import json

import pytest
from PIL import Image
from support import ROOT

from benchmarks import goals

SAVED, FROZEN = "keras_vit-saved_model", "keras_vit-frozen"
WAYS = ("the SavedModel", "`compiled(frozen=True)`")
BY_SAVED, BY_FROZEN = (f"ViT_B16, forward by {way}, bfloat16, batch 8" for way in WAYS)
FORWARD = "ViT_B16, forward, float32, batch 8"


def row(library, *seconds, peak=4e9, share=0.5, backend=None, together=True):
    """Of a round for each of the seconds."""
    about = {"library": library, "backend": backend, "peak_bytes": peak, "share_of_matmul": share / seconds[0]}
    about |= {"together_with_first": together, "first_over_it": None, "images_per_second": {"median": 8 / seconds[0]}}
    return about | {"turns": [[second] for second in seconds], "groups": [0 if together else 1] * len(seconds)}


def run(rows, cpu="AMD EPYC", **changes):
    about = {"model": "ViT_B16", "task": "forward", "precision": "bfloat16", "batch": 8, "depth": None}
    question = about | {"device": "cpu", "image_size": 224, "left_out": {}, "rows": rows, "complete": True} | changes
    machine = {"cpu": cpu, "cores": 2, "instructions": "AVX2", "gpus": [{"name": "H200"}]}
    return {"machine": machine, "questions": [question]}


def cells(found, words):
    line = next(line for line in goals.page(found).splitlines() if line.startswith(f"| {words} |"))
    return [cell.strip() for cell in line.strip("|").split("|")[2:]]


def test_the_newest_run_that_asked_both_sides_counts():
    older = [row(FROZEN, 2.0), row(SAVED, 2.0), row("timm-compiled", 2.0)]
    newer = [row(FROZEN, 2.0), row(SAVED, 1.0, 2.0, 1.0), row("timm-compiled", 1.5, 2.5, 2.0), row("timm", 1.1)]
    runs = {"b-1": run(older), "b-2": run(newer), "b-3": run([row(SAVED, 1.0), row("timm", 1.5)])}
    runs["b-4"] = run([row(SAVED, 1.0), row("timm-compiled", 9.0)], "Xeon")
    found = goals.standing(runs)
    assert [*found] == ["B, family not noted: AMD EPYC, 2 cores, AVX2", "Xeon, 2 cores, AVX2"]
    assert cells(found, BY_SAVED) == ["[**1.50**](results/b-2.md) (1.25 – 2.00)", "[**9.00**](results/b-4.md)"]
    assert cells(found, BY_FROZEN) == ["[0.75](results/b-2.md)", "–"]
    assert cells(found, BY_SAVED.replace("Model,", "Model, weights frozen,")) == ["–", "–"]


def test_a_gpus_goals_have_a_table_of_their_own():
    of_gpu = {"device": "gpu", "batch": 256, "task": "train"}
    rows = [row("keras_vit", 2.0, 1.0, 2.0, backend="jax"), row("timm-compiled", 3.0)]
    runs = {"a": run([row(SAVED, 1.0), row("timm-compiled", 2.0)]), "b": run(rows, **of_gpu)}
    runs["c"] = run([*rows, row("transformers", 4.0)], image_size=384, **of_gpu)
    found = goals.standing(runs)
    assert [*found] == ["B, family not noted: AMD EPYC, 2 cores, AVX2", "H200"]
    first, second = goals.page(found).split("\n| | goal | ")[1:]
    assert first.startswith("B, family not noted: AMD EPYC, 2 cores, AVX2 |\n") and second.startswith("H200 |\n")
    words = "ViT_B16, training, bfloat16, batch 256"
    assert cells(found, f"{words}, 224 px, GPU") == ["[1.50](results/b.md) keras_vit on JAX, timm-compiled"]
    assert cells(found, f"{words}, 384 px, GPU") == ["[**1.50**](results/c.md) keras_vit on JAX, timm-compiled"]
    assert cells(found, "ViT_L16, training, bfloat16, batch 256, 384 px, GPU") == ["–"]
    assert "H200" not in goals.page(goals.standing({"a": runs["a"]}))


@pytest.mark.parametrize(
    "changes",
    [{"depth": 6}, {"image_size": 384}, {"device": "gpu"}, {"batch": 1}, {"precision": "float32"}, {"task": "train"},
     {"model": "ViT_L16"}, {"complete": False}],
)  # fmt: skip
def test_another_question_or_an_interrupted_one_is_no_answer(changes):
    rows = [row(SAVED, 1.0), row("timm-compiled", 0.5)]
    found = goals.standing({"b-1": run(rows), "b-2": run(rows, **changes)})
    assert cells(found, BY_SAVED) == ["[0.50](results/b-1.md)"]


def test_the_fastest_of_ours_stands_beside_the_fastest_peer_and_both_are_named():
    rows = [row("keras_vit", 2.0, backend="tensorflow"), row("keras_vit", 1.0, backend="jax")]
    rows += [row("timm", 1.2, share=0.6), row("keras-hub", 1.1, backend="tensorflow")]  # timm by its share, of no round
    found = goals.standing({"a": run(rows, precision="float32")})
    assert cells(found, FORWARD) == ["[**1.10**](results/a.md) keras_vit on JAX, keras-hub"]
    apart = row(
        "transformers", 0.9, share=0.95, together=False
    )  # above the matmul's rate: the machine had another speed
    assert cells(goals.standing({"a": run([*rows, apart], precision="float32")}), FORWARD) == cells(found, FORWARD)
    beside = [*rows, row("transformers", 0.9, share=0.95)]
    expected = ["[0.90](results/a.md) keras_vit on JAX, transformers"]
    assert cells(goals.standing({"a": run(beside, precision="float32")}), FORWARD) == expected


def test_where_the_fastest_peer_is_meant_one_peer_is_not_enough():
    rows = [row("keras_vit-compiled", 1.0), row("timm", 1.2), row("timm-compiled", 1.05)]
    alone = run([rows[0], row("timm-compiled", 1.5)], precision="float32")
    assert cells(goals.standing({"a": alone}), FORWARD) == ["[1.50](results/a.md) compiled, timm-compiled"]
    found = goals.standing({"a": alone, "b": run(rows, precision="float32"), "c": alone})
    assert cells(found, FORWARD) == ["[1.05](results/b.md) compiled, timm-compiled"]


def test_a_peer_that_found_too_little_memory_was_asked():
    rows = [row("keras_vit", 1.0), row("timm-compiled", 1.2)]
    failed = "timm float32"
    for name, reason, shown in (
        (failed, "CUDA out of memory. Tried to allocate 1.13 GiB", "[**1.20**]"),
        (failed, "its process was ended by signal 9, as happens where the memory is full", "[**1.20**]"),
        (failed, "timm is not installed", "[1.20]"),
        ("timm-compiled float32", "CUDA out of memory", "[1.20]"),
        ("keras_vit-xla float32, tensorflow", "CUDA out of memory", "[1.20]"),
    ):
        found = goals.standing({"a": run(rows, precision="float32", left_out={name: reason})})
        assert cells(found, FORWARD) == [f"{shown}(results/a.md) keras_vit, timm-compiled"]


def test_what_is_shown_as_the_goal_may_lie_below_it():
    rows = [row("keras_vit", 1.0), row("timm", 1.079), row("timm-compiled", 1.2)]
    assert cells(goals.standing({"a": run(rows, precision="float32")}), FORWARD) == [
        "[1.08](results/a.md) keras_vit, timm"
    ]


def test_memory_is_compared_with_the_least_of_timm_and_never_of_what_computes_again():
    about = {"task": "train", "batch": 32}
    rows = [row("keras_vit", 1.0), row("keras_vit-recompute", 1.0, peak=3e9), row("timm", 1.0, peak=5e9)]
    words = "ViT_B16, peak memory of training, bfloat16, batch 32"
    for peak, shown in ((4.4e9, "**1.10**"), (3.9e9, "0.97")):
        found = goals.standing({"a": run([*rows, row("timm-compiled", 1.0, peak=peak)], **about)})
        assert cells(found, words) == [f"[{shown}](results/a.md) timm-compiled"]
    assert cells(goals.standing({"a": run(rows[:2], **about), "b": run(rows, **about)}), words) == [
        "[**1.25**](results/b.md) timm"
    ]


def test_the_picture_has_a_bar_a_goal_and_a_point_an_answer(tmp_path, capsys):
    assert "expected runs of `keras-vit bench`" in goals.main(tmp_path)
    (tmp_path / "results").mkdir()
    some = run([row(SAVED, 1.0), row(FROZEN, 1.25), row("timm-compiled", 1.0)])
    (tmp_path / "results/bench-1.json").write_text(json.dumps(some))
    assert goals.main(tmp_path) is None and "goals.md and goals.png" in capsys.readouterr().out
    assert (tmp_path / "goals.png").read_bytes().startswith(b"\x89PNG")
    (tmp_path / "results/bench-2.json").write_text(json.dumps(run([row("timm", 1.0)])))
    assert [*goals.read(tmp_path / "results")] == ["bench-1", "bench-2"]
    assert "[0.80](results/bench-1.md)" in (tmp_path / "goals.md").read_text()
    (axes,) = goals.draw(goals.standing({"bench-1": some}), tmp_path / "again.png").axes
    bars = [line for line in axes.lines if len(set(line.get_xdata())) == 1 and line.get_linewidth() == 2]
    (points,) = [line for line in axes.lines if line.get_label() == "B, family not noted: AMD EPYC, 2 cores, AVX2"]
    assert len(bars) == len(goals.GOALS) and sorted(points.get_xdata()) == [0.8, 1.0]
    assert [label.get_text() for label in axes.get_yticklabels()] == [
        goal.words.replace("`", "") for goal in goals.GOALS
    ]


def test_every_goal_has_a_line_of_its_own_in_words():
    assert len({goal.words for goal in goals.GOALS}) == len(goals.GOALS)


def test_no_two_machines_of_the_picture_are_marked_alike(tmp_path):
    runs = {name: run([row(SAVED, 1.0), row("timm-compiled", 1.0)], name) for name in "abcdefghijkl"}
    figure = goals.draw(goals.standing(runs), tmp_path / "goals.png")
    lines = [line for line in figure.axes[0].lines if line.get_label().startswith(tuple(runs))]
    assert len({(line.get_color(), line.get_marker()) for line in lines}) == len(lines) == len(runs)


def test_the_page_of_the_repository_is_that_of_its_runs():
    found = goals.standing(goals.read(ROOT / "benchmarks/results"))
    text = (ROOT / "benchmarks/goals.md").read_text()
    assert text == goals.page(found), "run `python -m benchmarks.goals`"
    with Image.open(ROOT / "benchmarks/goals.png") as picture:
        assert picture.text["Description"] == goals.digest(text), "run `python -m benchmarks.goals`"


def test_a_machine_is_named_as_the_notes_name_it():
    shown = [f"**{letter}**" in (ROOT / "benchmarks/notes/README.md").read_text() for letter in "ABCDEF"]
    assert all(shown) and {letter[0] for letter in goals.LETTERS.values()} == {*"ABCDEF"}
    known = {**run([row(SAVED, 1.0), row("timm-compiled", 1.0)])}
    known["machine"] |= {"cpu_model": "family 25, model 17", "instructions": "AVX-512 bf16"}
    (machine,) = goals.standing({"a": known})
    assert machine == "A: AMD EPYC (family 25, model 17), 2 cores, AVX-512 bf16"
