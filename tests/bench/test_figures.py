"""The arithmetic behind `keras-vit bench`'s tables, the tables, and the performance page's."""

import json

import numpy as np
import pytest
from bench.asked import FAKE, question

from benchmarks import export, performance_page
from benchmarks.harness import machine, page, plan, results, tables
from keras_vit.export import parity


def rows(asked, ours, theirs, multiplied, group=0):
    """Rows of a group with these seconds of turns of one call."""
    members = (*asked.contestants, plan.multipliers("float32", "cpu", ())[0])
    found = [results.Row(one, group, 3.0, 2.0, peak=10**9 * (group + 1)) for one in members]
    for row, seconds in zip(found, (ours, theirs, multiplied), strict=True):
        row.turns = [[second] for second in seconds]
    return [row for row in found if row.turns]


def test_the_figures_of_a_question():
    asked = question(batches=(8,))
    beside = rows(asked, (2.0, 1.0, 4.0), (4.0, 3.0, 5.0), (0.5, 0.5, 0.5))
    found = results.result_of(asked, 100 * 10**9, beside, 10**12)
    ours, peer = found["rows"]
    assert ours["images_per_second"] == {"median": 4.0, "min": 2.0, "max": 8.0}
    assert ours["first_over_it"] == 1.0 and peer["first_over_it"] == 2.0
    assert found["matmul_flops_per_second"] == 2e12  # 1e12 operations in half a second
    assert ours["share_of_matmul"] == pytest.approx(8 * 100e9 / 2.0 / 2e12)
    assert results.ratio(ours, peer) == (2.0, (1.25, 3.0), True) and results.best_of([ours, peer], False) is peer
    assert (found["flops_per_image"], found["blocks"], found["left_out"]) == (100 * 10**9, 12, {})


def test_a_ratio_is_the_median_of_the_rounds_and_has_their_range():
    asked = question(batches=(8,))
    beside = rows(asked, (1.0, 2.0, 4.0), (4.0, 2.2, 4.0), (1.0, 2.0, 4.0))
    beside[1].turns[0] = [9.0, 4.0, 1.0]  # of a turn the median call counts
    found = results.result_of(asked, 10**11, beside, 10**12)
    ours, peer = found["rows"]
    assert (peer["first_over_it"], peer["first_over_it_range"]) == (1.1, [1.0, 4.0])  # and not 4 / 2
    assert (ours["first_over_it"], ours["first_over_it_range"]) == (1.0, [1.0, 1.0])
    assert peer["turns"] == [[9.0, 4.0, 1.0], [2.2], [4.0]] and peer["groups"] == [0, 0, 0]
    assert found["matmul_turns"] == [[[1.0], [2.0], [4.0]]]
    assert ours["share_of_matmul"] == 0.8  # in each round, though the machine slowed down to a quarter
    assert peer["share_of_matmul"] == pytest.approx(0.8 / 1.1)  # of 0.2, 0.73 and 0.8
    assert "| 1.10 (1.00 – 4.00) | 73% |" in page.question_table(found)
    assert "| 1.10 (1.00 – 4.00) | 80% |" in page.overview({"questions": [found]})


def test_where_the_first_row_is_not_our_fastest_the_rounds_are_of_the_two_shown():
    asked = question(backends=("tensorflow", "jax"))
    first, second, theirs = (results.Row(one, 0, 3.0, 2.0, peak=10**9) for one in asked.contestants)
    first.turns, second.turns, theirs.turns = [[9.0], [2.0], [4.0]], [[1.0], [1.0], [2.0]], [[2.0], [3.0], [8.0]]
    found = results.result_of(asked, 10**9, [first, second, theirs], 10**12)
    assert [row["first_over_it"] for row in found["rows"]] == [1.0, 0.5, 1.5]
    assert "| 3.00 (2.00 – 4.00) |" in page.overview({"questions": [found]})
    found = results.result_of(asked, 10**9, [second, theirs], 10**12)  # the first could not be measured
    assert "| 3.00 (2.00 – 4.00) |" in page.overview({"questions": [found]})
    theirs.group = 1  # in another group, whose first row's turns are alike
    again = results.Row(asked.contestants[0], 1, 3.0, 2.0, turns=first.turns, peak=10**9)
    found = results.result_of(asked, 10**9, [first, second, again, theirs], 10**12)
    assert found["rows"][0]["groups"] == [0, 0, 0, 1, 1, 1] and found["rows"][2]["together_with_first"]
    assert "| 3.00 (0.44 – 18.00) |" in page.overview({"questions": [found]})  # 1.5 / 0.5, of 0.22 – 2 and 1/9 – 0.5


def test_a_ratio_of_turns_apart_is_corrected_by_the_machines_speed_beside_each():
    asked = question()
    beside = rows(asked, (2.0,), (), (0.5,)) + rows(asked, (), (2.0, 3.0), (1.0, 1.0), group=1)
    found = results.result_of(asked, 10**9, beside, 10**12)
    _, peer = found["rows"]
    assert not peer["together_with_first"] and peer["groups"] == [1, 1]
    assert (peer["first_over_it"], peer["first_over_it_range"]) == (0.625, [0.5, 0.75])  # half as fast a machine
    assert "| 0.62 (0.50 – 0.75; apart) |" in page.overview({"questions": [found]})
    unknown = [row for row in beside if row.contestant.library != plan.MATMUL or row.group == 1]
    _, peer = results.result_of(asked, 10**9, unknown, 10**12)["rows"]
    assert (peer["first_over_it"], peer["first_over_it_range"]) == (1.25, [1.0, 1.5])


def test_a_ratio_of_turns_apart_is_left_as_it_is_where_the_machines_speed_came_out_too_low():
    asked = question(batches=(8,))
    beside = rows(asked, (2.0,), (), (0.5,)) + rows(asked, (), (2.0, 3.0), (4.0, 4.0), group=1)
    ours, peer = results.result_of(asked, 10**11, beside, 10**12)["rows"]
    assert (ours["share_of_matmul"], peer["share_of_matmul"]) == (0.2, pytest.approx(4 / 3))
    assert (peer["first_over_it"], peer["first_over_it_range"]) == (1.25, [1.0, 1.5])  # and not an eighth of that
    beside = rows(asked, (0.25,), (), (0.5,)) + rows(asked, (), (2.0, 3.0), (1.0, 1.0), group=1)
    ours, peer = results.result_of(asked, 10**11, beside, 10**12)["rows"]
    assert (ours["share_of_matmul"], peer["share_of_matmul"]) == (1.6, pytest.approx(1 / 3))
    assert (peer["first_over_it"], peer["first_over_it_range"]) == (10.0, [8.0, 12.0])  # and not half of that


def test_a_peer_of_another_group_is_compared_with_what_ran_beside_it():
    asked = question()
    beside = rows(asked, (2.0,), (), (0.5,)) + rows(asked, (4.0,), (8.0,), (1.0,), group=1)
    ours, peer = results.result_of(asked, 10**9, beside, 10**12)["rows"]
    assert peer["first_over_it"] == 2.0 and peer["together_with_first"]  # and not 8 / median(2, 4)
    assert ours["images_per_second"]["median"] == pytest.approx(8 / 3.0) and ours["peak_bytes"] == 2 * 10**9
    assert ours["share_of_matmul"] == pytest.approx(peer["share_of_matmul"] * 2)
    alone = rows(asked, (2.0,), (), ()) + rows(asked, (), (8.0,), (), group=1)
    found = results.result_of(asked, 10**9, alone, 10**12)
    _, peer = found["rows"]
    assert peer["first_over_it"] == 4.0 and not peer["together_with_first"] and peer["share_of_matmul"] is None
    assert "| 4.00 (apart) |" in page.overview({"questions": [found]})


def test_the_fastest_peer_is_the_one_that_ours_stands_worst_beside():
    peers = (f"{FAKE}:good", f"{FAKE}:slow")
    asked = question(batches=(8,), peers=peers)
    (ours, first, second), multiplier = asked.contestants, plan.multipliers("float32", "cpu", ())[0]
    some = ((ours, 2.0, 2.0, 4.0), (first, 2.2, 2.2, 4.4), (second, 2.0, 3.0, 4.0), (multiplier, 1.0, 1.0, 0.4))
    found = [results.Row(one, 0, 3.0, 2.0, [[s] for s in seconds], 10**9) for one, *seconds in some]
    found = results.result_of(asked, 10**10, found, 10**12)
    mine, one, other = found["rows"]
    assert results.best_of(found["rows"], False) is one  # by the share of the rate of products, 45 % beside 33
    assert results.fastest_pair(found["rows"]) == (mine, other) and results.ratio(mine, one)[0] == pytest.approx(1.1)
    assert results.fastest_pair([mine, one]) == (mine, one) and results.fastest_pair([mine]) == (mine, None)
    assert results.fastest_pair([one]) == (None, one)
    assert "| 1.00 (1.00 – 1.50) |" in page.overview({"questions": [found]})


def test_of_ours_that_took_the_same_rounds_these_tell_the_fastest():
    asked = question(backends=("tensorflow", "jax"), batches=(8,))
    members = (*asked.contestants, plan.multipliers("float32", "cpu", ())[0])
    seconds = (2.0, 2.0, 4.0), (1.9, 2.2, 3.8), (3.0, 3.0, 3.0), (1.0, 1.0, 0.4)
    beside = [
        results.Row(one, 0, 3.0, 2.0, [[s] for s in own], 10**9) for one, own in zip(members, seconds, strict=True)
    ]
    first, second, theirs = rows = results.result_of(asked, 10**10, beside, 10**12)["rows"]
    assert results.best_of(rows, True) is first and results.ratio(second, first)[0] > 1  # by shares of 4.0 beside 3.6 %
    assert results.fastest_pair(rows) == (second, theirs)
    second["turns"], second["groups"] = second["turns"][:2], [0, 0]  # a round less
    assert results.fastest_pair(rows) == (first, theirs)


def test_a_file_of_ones_own_is_a_peer_whatever_its_name():
    rows = [{"library": name, "first_over_it": n + 1.0} for n, name in enumerate(plan.ALL_OURS)]
    rows.append({"library": "keras_vit_fork.py:prepare", "first_over_it": 0.5})
    assert results.best_of(rows, True) is rows[0] and results.best_of(rows, False) is rows[-1]


def test_the_fastest_row_is_the_one_with_the_largest_share_of_the_matmul_rate():
    asked = question(backends=("tensorflow", "jax"), batches=(8,))
    (first, second, theirs), multiplier = asked.contestants, plan.multipliers("float32", "cpu", ())[0]
    some = ((first, 0, 10.0), (second, 0, 8.0), (multiplier, 0, 2.5))  # the first was held up in this group
    some += ((first, 1, 5.0, 5.0), (theirs, 1, 6.0, 6.0), (multiplier, 1, 2.5, 2.5))
    beside = [results.Row(one, group, 3.0, 2.0, [[s] for s in seconds], 10**9) for one, group, *seconds in some]
    rows = results.result_of(asked, 10**11, beside, 10**12)["rows"]
    assert [row["share_of_matmul"] for row in rows] == pytest.approx([0.4, 0.25, 1 / 3])
    assert rows[1]["first_over_it"] == 0.8 and results.best_of(rows, True) is rows[0]
    for unusable in (None, 1.2):
        rows[0]["share_of_matmul"] = unusable
        assert results.best_of(rows, True) is rows[1]


@pytest.mark.parametrize("library", ["keras_vit-recompute", "keras_vit-openvino-int8"])
def test_a_row_that_gives_up_speed_or_exactness_stands_beside_the_peers_by_itself_alone(library):
    plain, other = ({"library": name, "first_over_it": n} for name, n in (("keras_vit", 1.0), (library, 0.9)))
    assert results.best_of([plain, other], True) is plain and results.best_of([other], True) is other


def test_the_tables_show_these_figures():
    asked = question(batches=(8,))
    found = results.result_of(asked, 100 * 10**9, rows(asked, (2.0, 1.0, 4.0), (4.0, 3.0, 5.0), (0.5,)), 10**12)
    assert found["rows"][0]["share_of_matmul"] == 0.2  # by the one round that the matmul took part in
    found["left_out"]["timm float32"] = "timm is not installed"
    table = page.question_table(found)
    assert "## ViT_B16, train step, float32, batch 8, 224 px" in table
    assert "| keras_vit float32, tensorflow | 4 | 2 – 8 | 1.00 | 20% | 1.00 | 2.0 | 3.0 |" in table
    assert "| fake_peer:good float32 | 2 | 1.6 – 2.667 | 2.00 (1.25 – 3.00) | 10% | 1.00 | 2.0 | 3.0 |" in table
    assert "- Left out: timm float32: timm is not installed." in table
    line = page.overview({"questions": [found]}).splitlines()[2]
    assert "4 images/s (float32, tensorflow) | 2 images/s (fake_peer:good float32) | 2.00 (1.25 – 3.00) | 20% |" in line
    assert line.endswith("| 1.00 / 1.00 |")
    single = question(batches=(1,))
    found = results.result_of(single, 10**9, rows(single, (0.02, 0.01, 0.04), (0.04,), ()), 10**12)
    assert "| keras_vit float32, tensorflow | 20 | 10 – 40 | 1.00 | – |" in page.question_table(found)  # ms


def test_growth_is_a_table_of_what_differs_along_one_axis():
    found = []
    for size, seconds in ((224, 1.0), (384, 4.0)):
        asked = question(image_sizes=(size,), batches=(8,))
        found.append(results.result_of(asked, size * 10**9, rows(asked, (seconds,), (seconds,), ()), 10**12))
    tables = page.growth(found)
    assert len(tables) == 1 and "| images/s | 224 | 384 |" in tables[0] and "| 224 | 384 |" in tables[0]
    assert "| keras_vit float32, tensorflow | 8 | 2 |" in tables[0]
    assert page.growth(found[:1]) == []


def test_agreement_is_the_share_of_images_with_the_models_class():
    expected = np.eye(4)
    sample = parity.Sample(expected, expected, None, {"logits": expected})
    assert export.agreement(sample, lambda images: {"logits": 2 * images}) == 1
    one_wrong = expected[[0, 1, 2, 0]]
    assert export.agreement(sample, lambda images: {"logits": one_wrong}) == 0.75


def test_of_the_exports_the_fastest_that_agrees_is_compared_with_the_peers():
    seconds = {"openvino bfloat16": [2.0, 2.0], "tflite int8": [1.0, 9.0, 1.0], "timm compile": [4.0]}
    agreement = {"openvino bfloat16": (0.99, 0.99), "tflite int8": (0.96, 0.97), "saved_model bfloat16": (1.0, 0.99)}
    assert export.best(seconds, agreement) == "openvino bfloat16"
    assert export.best(seconds, {**agreement, "tflite int8": (0.97, 0.97)}) == "tflite int8"
    assert export.best(seconds, {"tflite int8": (0.5, 0.97)}) is None
    more = {"best class": {"tflite int8": "96.0%"}}
    lines = tables.table("Speed", seconds, "openvino bfloat16", lambda s: 8 / s, "images/s", more).splitlines()
    assert lines[2:4] == ["| | images/s, median | min – max | ours / it | best class |", "|---|---:|---:|---:|---:|"]
    assert lines[5:] == ["| tflite int8 | 8 | 0.8889 – 8 | 0.50 | 96.0% |", "| timm compile | 2 | 2 – 2 | 2.00 | – |"]


def test_a_ratio_of_a_table_is_that_of_the_medians_shown():
    seconds = {"ours": [1.0, 3.0], "it": [1.0, 1.0]}  # a median call of 2 seconds, in a run's JSON, too
    lines = tables.table("Speed", seconds, "ours", lambda s: 6 / s, "images/s").splitlines()
    assert lines[4:] == ["| ours | 3 | 2 – 6 | 1.00 |", "| it | 6 | 6 – 6 | 0.50 |"]


def test_the_versions_of_all_that_contestants_run_on_are_kept():
    assert {"tensorflow", "jax", "jaxlib", "torch", "openvino", "nncf"} <= machine.machine()["versions"].keys()


def test_the_performance_page_shows_the_newest_complete_run_of_the_targets(tmp_path, capsys):
    asked = question(batches=(8,))
    run = {"date": "2026-11-21 15:31 UTC", "complete": True, "preset": "targets", "machine": machine.machine()}
    run["settings"] = [{"rounds": 7}, {"rounds": 3}]
    run["notes"] = ["**What is unmeasured**: nothing."]
    run["questions"] = [results.result_of(asked, 10**9, rows(asked, (2.0,), (4.0,), ()), 10**12)]
    (tmp_path / "benchmarks/results").mkdir(parents=True)
    for day, changes in ((1, {}), (2, {"preset": "growth"}), (3, {"complete": False})):
        file = tmp_path / f"benchmarks/results/bench-2026-11-2{day}-120000.json"
        file.write_text(json.dumps(run | changes))
    page_of = tmp_path / "docs/performance.md"
    page_of.parent.mkdir()
    page_of.write_text("before\n<!-- benchmark -->\nold\nlines\n<!-- /benchmark -->\nbehind\n")
    assert (
        performance_page.main([], tmp_path) is None and "shows bench-2026-11-21-120000.json" in capsys.readouterr().out
    )
    shown = performance_page.block(run, "bench-2026-11-21-120000")
    assert page_of.read_text() == f"before\n<!-- benchmark -->\n{shown}\n<!-- /benchmark -->\nbehind\n"
    assert "(../benchmarks/results/bench-2026-11-21-120000.md)" in shown and "| 2.00 |" in shown
    assert run["notes"][0] in shown and "3 or 7 rounds" in shown
    assert performance_page.RATIOS in shown and performance_page.APART not in shown and performance_page.NO_GPU in shown
    on_gpu = [*run["questions"], {**run["questions"][0], "device": "gpu"}]
    assert performance_page.NO_GPU not in performance_page.block({**run, "questions": on_gpu}, "bench")
    run["questions"][0]["rows"][1].update(together_with_first=False, groups=[1])
    assert performance_page.APART in performance_page.block(run, "bench")
    file = tmp_path / "benchmarks/results/bench-2026-11-21-120000.json"
    file.unlink()
    assert "expected a finished run" in performance_page.main([], tmp_path)


def test_processors_of_one_name_are_told_apart_by_their_numbers(monkeypatch):
    info = "model name\t: AMD EPYC\ncpu family\t: 26\nmodel\t\t: 2\nflags\t\t: avx2\n"
    infos = {"/proc/cpuinfo": info + "\n" + info.replace("26", "25")}
    monkeypatch.setattr(machine, "_read", lambda path: infos.get(path, ""))
    found = machine.machine()
    assert (found["cpu"], found["cpu_model"]) == ("AMD EPYC", "family 26, model 2")
    assert machine.in_words(found).startswith("AMD EPYC (family 26, model 2), ")
    infos["/proc/cpuinfo"] = "processor\t: 0\nmodel name\t: ARM\n"
    found = machine.machine()
    assert found["cpu_model"] is None and machine.in_words(found).startswith("ARM, ")
