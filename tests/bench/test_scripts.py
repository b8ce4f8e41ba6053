"""What the scripts of benchmarks/ give their contestants, and what they refuse. Nothing here is timed."""

import contextlib
import importlib
import sys
import types

import pytest
from support import ROOT

from keras_vit.bench import torch_peers


@pytest.fixture
def script(monkeypatch):
    """name -> the script, which finds those beside it as it does where it is run."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    return lambda name: importlib.import_module(f"benchmarks.{name}")


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
