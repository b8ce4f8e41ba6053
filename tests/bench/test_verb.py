"""`keras-vit bench`: whole runs, interruption, files, mistakes, presets. Nothing here is timed."""

import json
import os
import statistics
import threading
from pathlib import Path

import pytest
from support import needs_tensorflow

from benchmarks.harness import conduct, machine, matmul, page, plan, settings, verb
from keras_vit import cli

FAKE = Path(__file__).with_name("fake_peer.py")
TINY = ["--models", "ViT_Ti16", "--depths", "1", "--image-size", "32", "--batches", "2", "--rounds", "2"]
TINY += ["--tasks", "forward", "--dtypes", "float32", "--backends", "tensorflow"]


def run(tmp_path, *arguments):
    """The exit status, and the JSON and the page where they were written."""
    status = cli.main(["bench", *TINY, *arguments, "--output", str(tmp_path)])
    files = sorted(tmp_path.glob("bench-*")) if tmp_path.exists() else []
    if not files:
        return status, None, None
    written, text = files
    assert written.suffix == ".json" and text.suffix == ".md" and written.stem == text.stem
    return status, json.loads(written.read_text()), text.read_text()


@pytest.fixture
def fast(monkeypatch):
    """A contestant that stands in for ours, and one library that multiplies."""
    monkeypatch.setitem(plan.ON_KERAS, "keras_vit", f"{FAKE}:good")
    monkeypatch.setattr(matmul, "LIBRARIES", ("numpy",))


@pytest.mark.broad
@needs_tensorflow
def test_a_run_measures_ours_and_writes_both_files(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(matmul, "LIBRARIES", ("numpy",))
    monkeypatch.setattr(conduct, "free_memory", lambda: 20e9)  # room for all processes at once
    peers = [f"{FAKE}:{name}" for name in ("good", "absent")]
    status, result, text = run(tmp_path, "--peers", ",".join(peers))
    printed = capsys.readouterr()
    assert status == 0 and "left out fake_peer:absent float32: no_such_library is not installed" in printed.err
    assert result["complete"] and result["preset"] is None and result["most_processes"] == 3  # with the matmul's
    assert result["machine"]["versions"]["keras"] and result["machine"]["cpu"] and result["machine"]["cores"] >= 1
    assert result["settings"][0]["image_sizes"] == [32]
    command = "keras-vit bench --models ViT_Ti16 --tasks forward --dtypes float32 --batches 2 --backends tensorflow "
    command += "--peers fake_peer.py:good,fake_peer.py:absent --image-size 32 --depths 1 --rounds 2"  # no folders
    assert result["command"] == command and f"\n- Made by `{command}`.\n" in text
    assert "Made by" not in page.page({name: value for name, value in result.items() if name != "command"})
    assert list(result["matmul"][0]["flops_per_second"]) == ["numpy"]
    (asked,) = result["questions"]
    assert (asked["model"], asked["depth"], asked["batch"], asked["image_size"]) == ("ViT_Ti16", 1, 2, 32)
    ours, peer = asked["rows"]
    assert ours["name"] == "keras_vit float32, tensorflow" and ours["first_call_seconds"] > 0
    assert ours["peak_bytes"] > 2 * peer["peak_bytes"] > 0 and 0 < ours["share_of_matmul"] < 10
    rounds = [statistics.median(it) / statistics.median(first)
              for it, first in zip(peer["turns"], ours["turns"], strict=True)]  # fmt: skip
    assert peer["first_over_it"] == statistics.median(rounds) and peer["first_over_it_range"] == sorted(rounds)
    assert len(peer["turns"][0]) > 10 and [len(turns) for turns in asked["matmul_turns"]] == [2]
    assert "took 2 turns each" in text and page.page(result) == text and page.overview(result) in printed.out
    assert (
        machine.in_words(result["machine"]) in text
        and f"TF_ENABLE_ONEDNN_OPTS={os.environ['TF_ENABLE_ONEDNN_OPTS']}." in text
    )
    assert not list(tmp_path.glob("*.partial"))


@pytest.mark.broad
def test_an_interruption_leaves_what_was_measured(tmp_path, fast, capsys):
    if threading.current_thread() is not threading.main_thread():
        pytest.skip("signals reach the main thread alone")
    status, result, text = run(tmp_path, "--peers", f"{FAKE}:interrupting", "--batches", "2,4")
    assert status == verb.INTERRUPTED and not result["complete"]
    (asked,) = result["questions"]  # of two
    assert len(asked["rows"]) == 2 and all(row["turns"] for row in asked["rows"])
    assert "**Interrupted**" in text and "fake_peer" in text
    said = capsys.readouterr().err
    assert "interrupted; what was measured by then is in" in said and "Traceback" not in said


@pytest.mark.broad
def test_a_run_in_which_nothing_can_be_measured_says_so(tmp_path, fast, monkeypatch, capsys):
    monkeypatch.setitem(plan.ON_KERAS, "keras_vit", f"{FAKE}:absent")
    status, result, text = run(tmp_path, "--peers", "none")
    assert status == verb.NOTHING and result["questions"][0]["rows"] == []
    assert "- Left out: keras_vit float32, tensorflow: no_such_library is not installed." in text
    assert "no contestant could be measured" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            ["--models", "ViT_B61"],
            "name expected a model of list_models(), received 'ViT_B61'; the nearest are ViT_B16",
        ),
        (["--models", ","], "models expected names of list_models(), received nothing"),
        (["--tasks", "forward,backward"], "tasks expected some of forward, train, received 'backward'"),
        (["--dtypes", "float16"], "dtypes expected some of float32, bfloat16, mixed_bfloat16, received 'float16'"),
        (["--tasks", "train", "--dtypes", "bfloat16"], "dtypes expected float32 or mixed_bfloat16 with the task train"),
        (["--batches", "8,x"], "batches expected positive ints with commas between them, received '8,x'"),
        (["--batches", "0"], "batches expected positive ints, received 0"),
        (["--rounds", "0", "--quick"], "rounds expected positive ints, received 0"),
        (["--backends", "torch"], "backends expected some of tensorflow, jax, received 'torch'"),
        (["--peers", "flax"], "peers expected some of keras-hub, timm, timm-compiled, transformers, "),
        (["--peers", "absent.py:prepare"], "or FILE.py:FUNCTION, received 'absent.py:prepare'"),
        (["--image-size", "8", "--models", "ViT_B16"], "received"),
        (["--models", "BiT_R50x1", "--depths", "3"], "depths expected nothing with BiT_R50x1"),
        (["--device", "tpu"], "device expected one of cpu, gpu, received 'tpu'"),
        (["--device", "gpu"], "device expected a GPU that nvidia-smi lists, found none"),
        (["--quick", "--preset", "gpu"], "--quick expected no other preset, received --preset gpu"),
        (["--quick", "--output", __file__], "output expected a folder, received"),
    ],
)
def test_a_mistake_gets_one_sentence_and_exit_code_2(arguments, sentence, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(verb, "gpus", list)
    assert cli.main(["bench", *arguments]) == 2
    error = capsys.readouterr().err
    assert sentence in error and error.startswith("keras-vit bench: ") and error.strip().count("\n") == 0
    assert not list(tmp_path.iterdir())


def asked_for(*arguments):
    return verb._settings(verb.parser().parse_args(arguments))


def test_the_command_of_a_run_is_that_of_the_options_given():
    for command in ("keras-vit bench", "keras-vit bench --quick --models 'ViT_B16, ViT_L16' --rounds 3"):
        assert verb._command(verb.parser().parse_args(verb.shlex.split(command)[2:])) == command


def test_files_that_the_tables_could_not_tell_apart_are_refused(tmp_path):
    for folder in ("old", "new"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "mine.py").touch()
    peers = [f"{tmp_path / folder}/mine.py:prepare" for folder in ("old", "new")]
    with pytest.raises(ValueError, match="peers expected different names .*, which are both mine:prepare"):
        asked_for("--peers", ",".join(peers))
    assert asked_for("--peers", f"timm,timm,{peers[0]}")[1]  # twice the same is once


def test_without_a_gpu_the_preset_runs_small_and_says_that_its_rows_are_unmeasured(monkeypatch):
    monkeypatch.setattr(verb, "gpus", list)
    monkeypatch.setattr(verb, "machine", lambda: {"instructions": "AVX2"})
    _, parts, (_, note) = asked_for("--preset", "gpu")
    assert {part.dtypes for part in parts} == {("float32",)}
    assert note.startswith("**The bfloat16 rows are unmeasured**")
    monkeypatch.setattr(verb, "machine", lambda: {"instructions": "AVX-512 bf16"})
    _, parts, (note,) = asked_for("--preset", "gpu")
    assert [(part.tasks, part.dtypes) for part in parts] == [
        (("forward",), ("bfloat16",)),
        (("train",), ("mixed_bfloat16",)),
    ]
    for small in parts:
        assert (small.device, small.models, small.batches, small.backends) == ("cpu", ("ViT_Ti16",), (2,), ("jax",))
    assert note.startswith("**The GPU rows are unmeasured**") and "ViT_B16, ViT_L16 at 224, 384 px, batch 256" in note
    monkeypatch.setattr(verb, "gpus", lambda: [{"name": "a GPU", "memory_bytes": 80 * 2**30}])
    preset, full, notes = asked_for("--preset", "gpu")
    assert (preset, full, notes) == ("gpu", settings.PRESETS["gpu"], [])
    asked = plan.questions(full)
    assert len(asked) == 8 and {(q.model, q.image_size) for q in asked} == {
        ("ViT_B16", 224), ("ViT_B16", 384), ("ViT_L16", 224), ("ViT_L16", 384)
    }  # fmt: skip
    environment = asked[0].contestants[0].environment()
    assert environment["KERAS_BACKEND"] == "jax" and environment["XLA_PYTHON_CLIENT_PREALLOCATE"] == "false"
    assert float(environment["XLA_PYTHON_CLIENT_MEM_FRACTION"]) > 0.9  # JAX ends at 0.75 by itself
    assert "JAX_PLATFORMS" not in {name for name in environment if name not in plan.os.environ}


def test_a_processor_without_bfloat16_is_asked_in_float32_alone_and_the_page_says_so(monkeypatch):
    monkeypatch.setattr(verb, "machine", lambda: {"instructions": "AVX2"})
    preset, parts, (note,) = asked_for()
    assert preset == "targets" and note.startswith("**The bfloat16 rows are unmeasured**")
    asked = {question.title: [c.name for c in question.contestants] for question in plan.questions(parts)}
    assert "ViT_L16, train step, float32, batch 8, 224 px" in asked
    assert len(asked) == len(plan.questions(parts)) == 11  # each once, B/16 in batches of 8 and 32
    both = ["keras_vit float32, tensorflow", "keras_vit float32, jax", "keras-hub float32, tensorflow"]
    for batch in (8, 32):
        names = asked[f"ViT_B16, forward, float32, batch {batch}, 224 px"]
        trained = asked[f"ViT_B16, train step, float32, batch {batch}, 224 px"]
        ways = ("predict", "saved_model", "saved_model-frozen", "openvino", "openvino-int8")
        served = [f"keras_vit-{way} float32, tensorflow" for way in ways]
        assert names[-5:] == served and ("keras_vit-xla float32, tensorflow" in names) == (batch == 8)
        assert trained[-1] == "keras_vit-recompute float32, tensorflow" and len(names) == len(set(names))
        assert all(("keras_vit-cores float32, tensorflow" in some) == (batch == 8) for some in (names, trained))
        assert names[:3] == trained[:3] == both if batch == 8 else not any("jax" in name for name in names)
    assert {dtype for part in parts for dtype in part.dtypes} == {"float32"}
    grown = plan.questions(asked_for("--preset", "growth")[1])  # of bfloat16 alone elsewhere
    assert len(grown) == 14 and {question.precision for question in grown} == {"float32"}
    assert asked_for("--quick")[2] == [] and asked_for("--dtypes", "bfloat16")[2] == []
    monkeypatch.setattr(verb, "machine", lambda: {"instructions": "AVX-512 bf16"})
    assert asked_for()[1:] == (settings.PRESETS["targets"], [])


def test_presets_and_options_make_the_questions(monkeypatch):
    monkeypatch.setattr(verb, "machine", lambda: {"instructions": "AVX-512 bf16"})
    assert asked_for()[0] == "targets" and asked_for("--rounds", "3")[1][0].rounds == 3
    preset, parts, _ = asked_for("--models", "ViT-S/16", "--peers", "none", "--batches", "1, 4")
    assert preset is None and len(parts) == 1
    asked = plan.questions(parts)
    assert [q.title.split(", ")[1:4] for q in asked[:2]] == [["forward", "float32", f"batch {n}"] for n in (1, 4)]
    assert [c.name for c in asked[2].contestants] == [
        f"keras_vit {dtype}, {backend}" for backend in ("tensorflow", "jax") for dtype in ("bfloat16", "mixed_bfloat16")
    ]
    assert {c.dtype for q in asked if q.task == "train" for c in q.contestants} == {"float32", "mixed_bfloat16"}
    targets = {q.title: [c.name for c in q.contestants] for q in plan.questions(settings.PRESETS["targets"])}
    for batch in (8, 32):
        names = targets[f"ViT_B16, forward, bfloat16, batch {batch}, 224 px"]
        ways = {name.split(",")[0] for name in names if name.startswith(("keras_vit-", "timm-compiled"))}
        stored = {f"keras_vit-{way} bfloat16" for way in ("openvino", "openvino-int8")}
        assert ways == stored | {
            f"{library} {dtype}"
            for library in (
                *(f"keras_vit-{way}" for way in ("compiled", "frozen", "predict", "saved_model", "saved_model-frozen")),
                "timm-compiled",
            )
            for dtype in ("bfloat16", "mixed_bfloat16")
        }
        trained = targets[f"ViT_B16, train step, bfloat16, batch {batch}, 224 px"]
        assert "keras_vit-recompute mixed_bfloat16, tensorflow" in trained
        assert not any(name.startswith(("keras_vit-predict", "keras_vit-saved_model")) for name in trained)
    for model in ("ViT_L16", "R50_ViT_B16", "BiT_R50x1"):
        names = targets[f"{model}, forward, bfloat16, batch 8, 224 px"]
        asked = {
            f"keras_vit-{way} {dtype}, tensorflow"
            for way in ("compiled", "cores", "saved_model")
            for dtype in settings.HALF
        }
        assert asked | {"keras_vit-openvino bfloat16, tensorflow"} <= set(names)
        assert "keras_vit-openvino float32, tensorflow" in targets[f"{model}, forward, float32, batch 8, 224 px"]
    by_xla = [title for title, names in targets.items() if "keras_vit-xla float32, tensorflow" in names]
    assert by_xla == [
        f"ViT_{name}, 224 px" for name in ("B16, forward, float32, batch 8", "Ti16, forward, float32, batch 1")
    ]
    assert not any("keras_vit-xla" in name and "jax" in name for names in targets.values() for name in names)
    growth = plan.questions(settings.PRESETS["growth"])
    assert len(growth) == len(set(growth)) == 14  # the middle of the three axes is asked once


@pytest.mark.broad
@needs_tensorflow
def test_json_prints_the_rows_and_quiet_nothing_else(tmp_path, fast, capsys):
    status, result, _ = run(tmp_path, "--peers", f"{FAKE}:good", "--json", "--quiet")
    printed = capsys.readouterr()
    assert status == 0 and printed.err == ""
    found = json.loads(printed.out)
    assert [Path(file).suffix for file in found["files"]] == [".json", ".md"]
    rows = result["questions"][0]["rows"]
    assert [row["name"] for row in found["rows"]] == [row["name"] for row in rows] and len(rows) == 2
    ours = found["rows"][0]
    assert (ours["model"], ours["batch"], ours["precision"]) == ("ViT_Ti16", 2, "float32") and "turns" not in ours
    assert ours["images_per_second"] == rows[0]["images_per_second"]


@pytest.mark.broad
@needs_tensorflow
def test_quiet_hides_the_tables_and_not_an_error(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(plan.ON_KERAS, "keras_vit", f"{FAKE}:absent")
    assert run(tmp_path, "--peers", "none", "--quiet")[0] == verb.NOTHING
    printed = capsys.readouterr()
    assert printed.out == "" and printed.err.startswith("keras-vit bench: no contestant could be measured; ")
