"""What the scripts of benchmarks/ give their contestants, and what they refuse. Nothing here is timed."""

import contextlib
import importlib
import sys
import types

import pytest
from support import ROOT

from benchmarks.harness import torch_peers


@pytest.fixture
def script():
    """Return the function that imports a script by its name."""
    return lambda name: importlib.import_module(f"benchmarks.{name}")


@pytest.mark.broad
def test_transformers_answers_without_keeping_anything_for_a_backward_pass(script, monkeypatch):
    weights, inside, asked = script("weights"), [], []

    @contextlib.contextmanager
    def inference_mode():
        inside.append(True)
        yield
        inside.pop()

    class Model:
        logits = types.SimpleNamespace(numpy=lambda: "answer")

        def __init__(self, config):
            pass

        def __call__(self, images):
            asked.append(bool(inside))
            return self

    Model.from_pretrained = Model
    torch = types.SimpleNamespace(inference_mode=inference_mode, zeros=lambda *shape: shape)
    transformers = types.SimpleNamespace(ViTConfig=lambda **sizes: sizes, ViTForImageClassification=Model)
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setitem(sys.modules, "transformers", transformers)
    monkeypatch.setattr(torch_peers, "declare_vision_operators", lambda: None)
    path, answers = types.SimpleNamespace(parent="hub"), []
    code = weights.TRANSFORMERS.format(answer=weights.TRANSFORMERS_ANSWER)
    exec(code, {"path": path, "measured": lambda call: answers.append(call())})
    assert answers == ["answer"] and asked == [True, True]


def refused(main, capsys, *arguments):
    """The sentence that a script ends with."""
    with pytest.raises(SystemExit) as ended:
        main([*map(str, arguments)])
    assert ended.value.code == 2
    return capsys.readouterr().err.strip().splitlines()[-1]


def test_the_pipelines_benchmark_takes_whole_batches_of_a_folder_that_is_there(script, tmp_path, monkeypatch, capsys):
    data, tables = script("data"), []
    for number in range(49):
        (tmp_path / f"{number}.jpg").touch()
    for folder in (tmp_path, tmp_path / "mistyped"):
        said = refused(data.main, capsys, folder)
        assert said.endswith(f"error: folder expected one of at least 50 JPEG files, received {str(folder)!r}")
    for number in range(49, 70):
        (tmp_path / f"{number}.jpg").touch()
    monkeypatch.setattr(data, "compare", lambda *_, **__: {data.ALONE: [1.0]})
    monkeypatch.setattr(data, "table", lambda title, seconds, ours, figure, unit: tables.append(figure(1.0)))
    monkeypatch.setenv("DATA_BENCHMARK", "")
    assert data.main([str(tmp_path)]) is None and tables == [250, 250]  # 50 of 70 files, five times
    prepared = []
    monkeypatch.setattr(data, "prepare", lambda name, files: prepared.append((name, len(files))))
    monkeypatch.setattr(data, "work", lambda prepare: prepare())
    data.main(["--worker", data.ALONE])
    assert prepared == [(data.ALONE, 50)]


NO_ROUND = "argument --rounds: expected an int of at least 1, received "
NO_JSON = "expected a JSON file with date, machine, settings, notes, questions, received "


@pytest.mark.parametrize(
    ("name", "arguments", "sentence"),
    [
        ("import_time", ["--rounds", "0"], f"{NO_ROUND}'0'"),
        ("weights", ["--rounds", "-1"], f"{NO_ROUND}'-1'"),
        ("probes", ["--rounds", "x"], f"{NO_ROUND}'x'"),
        ("serving", ["--rounds", "0"], f"{NO_ROUND}'0'"),
        ("analysis", ["--rounds", "0"], f"{NO_ROUND}'0'"),
        ("export", ["--rounds", "0"], f"{NO_ROUND}'0'"),
        ("scaling", ["--rounds", "0"], f"{NO_ROUND}'0'"),
        ("scaling", ["--read", "nope.json"], "JSON file with machine, seconds, collectives, received 'nope.json'"),
        ("performance_page", ["nope.json"], f"argument result: {NO_JSON}'nope.json'"),
        ("performance_page", [__file__], f"{NO_JSON}{__file__!r}"),
        ("performance_page", [str(ROOT / "benchmarks/cifar10.json")], "/cifar10.json'"),  # JSON of something else
        ("cifar10", ["--read", "--seeds", "0,x"], "--seeds: expected ints with commas between them, received '0,x'"),
    ],
)
def test_a_mistake_gets_one_sentence_before_anything_is_measured(script, name, arguments, sentence, capsys):
    said = refused(script(name).main, capsys, *arguments)
    assert ": error: " in said and said.endswith(sentence)
