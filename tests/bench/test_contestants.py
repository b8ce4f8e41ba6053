"""What the contestants of `keras-vit bench` compute: ours, and the peers on torch."""

import json
import os
import re
import warnings
from dataclasses import replace
from types import SimpleNamespace

import keras
import numpy as np
import parity
import pytest
from support import first_quick, needs_tensorflow, quick_first, randomise, run_python

from benchmarks.harness import keras_hub_peer, keras_steps, ours, plan, torch_peers
from keras_vit.cost.weightless import build_weightless
from keras_vit.export import openvino
from keras_vit.kernels.compiled import compiled
from keras_vit.models import builders
from keras_vit.models.variants import find_variant


def contestant(**changes):
    one = plan.Contestant("keras_vit", "ViT_Ti16", "forward", "float32", 2, 32, 1, "cpu", "tensorflow")
    one = replace(one, **changes)
    return json.loads(one.command()[-1])


@needs_tensorflow
@pytest.mark.parametrize("task", ["forward", "train"])
def test_ours_computes_what_is_asked(task):
    call, peak = ours.prepare(contestant(task=task))
    found = call()
    if task == "forward":
        assert found.shape == (2, 1000)
    else:
        loss, updates, wrong = call()
        assert (updates, wrong) == (2, 0) and 0 < loss < found[
            0
        ] + 7  # the sum of two losses, of which the second is less
    assert peak() > 10**7


@pytest.mark.broad
@needs_tensorflow
def test_the_cores_step_is_that_of_the_strategy(monkeypatch):
    import tensorflow as tf

    from keras_vit.train import step, strategy

    said, cut = [], strategy.cut
    two = strategy.Devices(tf.distribute.get_strategy(), cores=2)
    monkeypatch.setattr(strategy, "choose", lambda *asked: said.append(asked) or two)
    monkeypatch.setattr(step, "cut", lambda batch, parts: said.append(parts) or cut(batch, parts))
    call, _ = ours.cores(contestant(task="train"))
    assert call()[1] == 1 and said == [("cores", 2), 2]


@pytest.mark.broad
@needs_tensorflow
def test_the_compiled_forward_pass_is_that_of_the_package(monkeypatch):
    asked, model = [], randomise(builders.build(find_variant("ViT_Ti16")[0], input_shape=(32, 32, 3)))
    monkeypatch.setattr(ours, "build", lambda *a, **options: model)
    monkeypatch.setattr(
        ours, "compiled_forward", lambda *a, **options: asked.append(options) or compiled(*a, **options)
    )
    monkeypatch.setattr("keras_vit.train.strategy.usable_cores", lambda: 2)
    prepared = (ours.prepare, ours.compiled, ours.xla, ours.frozen, ours.cores)
    expected, *found = (prepare(contestant())[0]() for prepare in prepared)
    assert asked == [{}, {"whole": True}, {"frozen": True}, {"parts": 2}] and expected.std() > 1e-5
    for answer in found:
        np.testing.assert_allclose(answer, expected, rtol=1e-3)


@needs_tensorflow
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_no_weight_of_a_forward_pass_is_zeros(dtype, monkeypatch):
    built = []
    monkeypatch.setattr(ours, "build", lambda *a, **options: built.append(builders.build(*a, **options)) or built[0])
    ours.prepare(contestant(dtype=dtype))
    assert built[0].weights and all(weight.numpy().any() for weight in built[0].weights)


@pytest.mark.broad
@needs_tensorflow
@pytest.mark.parametrize("dtype", first_quick(["mixed_bfloat16", "float32", "bfloat16"]))
def test_predict_and_the_saved_model_give_the_answers_of_the_forward_pass(dtype, monkeypatch):
    import tensorflow as tf

    built, loaded = [], []

    def build(*args, **options):
        model = builders.build(*args, **options)
        head = model.get_layer("head").kernel
        head.assign(np.random.default_rng(0).normal(0, 0.1, head.shape))
        built.append(model)
        return model

    def load(folder):
        loaded.append(load_saved_model(folder))
        return loaded[0]

    load_saved_model = tf.saved_model.load
    monkeypatch.setattr(ours, "build", build)
    monkeypatch.setattr(tf.saved_model, "load", load)
    images, _ = keras_steps.batch_of(32, 2 * ours.PREDICTED)
    call, _, batches = ours.predict(contestant(dtype=dtype))
    assert batches == ours.PREDICTED
    expected = built[0].predict_on_batch(images)
    np.testing.assert_allclose(call(), expected, rtol=1e-5 if dtype == "float32" else 0.1)
    call, peak = ours.saved_model(contestant(dtype=dtype))
    found = keras.ops.softmax(call())
    expected = built[1].predict_on_batch(images[:2])
    np.testing.assert_allclose(found, expected, rtol=1e-5 if dtype == "float32" else 0.1)
    stored = {variable.dtype.name for variable in loaded[0].variables_held_once}
    assert stored == ({"bfloat16", "float32"} if dtype == "bfloat16" else {"float32"})  # the classifier stays float32
    assert peak() > 10**7


@pytest.mark.broad
def test_the_frozen_saved_model_is_one_whose_weights_tensorflow_may_keep(monkeypatch):
    monkeypatch.setenv("TF_ONEDNN_ASSUME_FROZEN_WEIGHTS", "0")
    monkeypatch.setattr(ours, "saved_model", lambda asked: (asked, os.environ["TF_ONEDNN_ASSUME_FROZEN_WEIGHTS"]))
    assert ours.saved_model_frozen("asked") == ("asked", "1")


@pytest.mark.parametrize(("export", "what"), [("saved_model", "the SavedModel"), ("openvino", "the file for OpenVINO")])
def test_exports_are_of_tensorflow_alone(export, what, monkeypatch):
    monkeypatch.setattr(keras.backend, "backend", lambda: "jax")
    with pytest.raises(ValueError, match=f"{what} is of Keras on TensorFlow alone, not on jax$"):
        getattr(ours, export)(contestant(backend="jax"))


@pytest.mark.broad
@needs_tensorflow
@pytest.mark.parametrize("dtype", quick_first(["float32", "mixed_bfloat16"], ["float32"]))
def test_openvino_answers_as_the_model(dtype, monkeypatch):
    pytest.importorskip("openvino", reason="openvino is not installed")
    row = replace(find_variant("ViT_Ti16")[0], depth=2)
    model, asked = randomise(builders.build(row, input_shape=(32, 32, 3))), []
    monkeypatch.setattr(ours, "build", lambda *a, **options: model)
    runner = openvino.runner
    monkeypatch.setattr(openvino, "runner", lambda *a: asked.append(a[1]) or runner(*a))
    found = keras.ops.softmax(ours.openvino(contestant(dtype=dtype))[0]())
    expected = model.predict_on_batch(keras_steps.batch_of(32, 2)[0])
    exact = dtype == "float32"
    assert asked == ["float32" if exact else "bfloat16"] and expected.std() > 1e-5
    np.testing.assert_allclose(found, expected, rtol=1e-3 if exact else 0.3)
    pytest.importorskip("nncf", reason="nncf is not installed")
    write, files = openvino.write_openvino, []
    monkeypatch.setattr(openvino, "write_openvino", lambda *a: write(*a) or files.append(a[1].read_text()))
    rounded = keras.ops.softmax(ours.openvino_int8(contestant(dtype=dtype))[0]())
    assert asked[1:] == asked[:1] and "FakeQuantize" in files[0]
    np.testing.assert_allclose(rounded, expected, rtol=0.5)
    assert np.abs(rounded - found).max() > 0


@pytest.fixture
def one_thread():
    """Torch's threads wait for each other in vain where other work has the cores."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.broad
def test_peers_on_torch_are_of_the_same_size_as_ours(one_thread):
    parity.timm(), parity.transformers()
    for name, depth in (("ViT_Ti16", 2), ("BiT_R50x1", None)):
        row = find_variant(name)[0] if depth is None else replace(find_variant(name)[0], depth=depth)
        expected = build_weightless(row, (32, 32)).count_params()
        described = contestant(model=name, depth=depth)
        for build in (torch_peers._timm_model, torch_peers._transformers_model):
            model = parity.quietly(lambda build=build, described=described: build(described))
            assert sum(parameter.numel() for parameter in model.parameters()) == expected, (name, build)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        call = torch_peers.timm(contestant(task="train"))
        losses = [call() for _ in range(3)]
    assert losses[2] < losses[0]
    with pytest.raises(ValueError, match="timm has no R50_ViT_L16"):
        torch_peers._timm_model(contestant(model="R50_ViT_L16", depth=None))
    for name in ("R50_ViT_L16", "AxialResNet_R50x1"):
        with pytest.raises(ValueError, match=f"transformers has no {name}"):
            torch_peers._transformers_model(contestant(model=name, depth=None))


@pytest.mark.broad
@needs_tensorflow
@pytest.mark.parametrize("name", ["CLIP_ViT_B16", "DINOv2_S14_reg", "DINOv2_S14", "DINOv3_B16"])
def test_peers_of_other_families_have_the_blocks_of_ours(name, one_thread):
    parity.timm(), parity.transformers()
    pytest.importorskip("keras_hub", reason="keras-hub is not installed")
    depth, size = 1, 2 * find_variant(name)[0].patch_size
    row = replace(find_variant(name)[0], depth=depth)
    described = contestant(model=name, depth=depth, image_size=size)
    ours_model = build_weightless(row, (size, size))
    block = ours_model.get_layer("encoder_block_00").count_params()
    built = torch_peers._timm_model(described)
    assert sum(parameter.numel() for parameter in built.parameters()) == ours_model.count_params()
    built = parity.quietly(lambda: torch_peers._transformers_model(described))
    found = [parameter.numel() for path, parameter in built.named_parameters() if re.search(r"layers?\.0\.", path)]
    assert sum(found) == block
    built = parity.quietly(lambda: keras_hub_peer._classifier(described))
    assert abs(built.count_params() - ours_model.count_params()) < 0.1 * block


@pytest.mark.broad
def test_a_step_on_jax_is_compiled_once():
    pytest.importorskip("jax", reason="the JAX backend is not installed")
    one = contestant(task="train", dtype="mixed_bfloat16", backend="jax")
    code = (
        "import jax\nfrom benchmarks.harness import ours\n"
        f"call, peak = ours.prepare({one!r})\n"
        "first, compiled = float(call()), []\n"
        "jax.monitoring.register_event_duration_secs_listener(lambda name, *a, **k: compiled.append(name))\n"
        "print(float(call()) < first + 7, [name for name in compiled if 'compile' in name])"
    )
    assert run_python(code, backend="jax").split(maxsplit=1) == ["True", "[]\n"]


@pytest.mark.parametrize("loads", [True, False])
def test_visions_operators_are_declared_where_they_do_not_load_alone(loads, tmp_path, monkeypatch):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    (tmp_path / "_C.so").touch()
    (tmp_path / "_meta_registrations.py").write_text('@register_meta("fake_align")\n"torchvision::fake_nms"\n')
    loaded, declared = [], []

    def load(library):
        loaded.append(library)
        if not loads:
            raise OSError("built for another torch")

    class Library:
        define = staticmethod(declared.append)

    monkeypatch.setattr(torch_peers, "_DECLARED", [])
    monkeypatch.setattr(torch_peers, "find_spec", lambda _: SimpleNamespace(submodule_search_locations=[str(tmp_path)]))
    monkeypatch.setattr(torch.ops, "load_library", load)
    monkeypatch.setattr(torch.ops, "torchvision", SimpleNamespace(nms=None), raising=False)
    monkeypatch.setattr(torch.library, "Library", lambda *_: Library())
    torch_peers.declare_vision_operators()
    assert loaded == [tmp_path / "_C.so"]
    assert declared == ([] if loads else ["fake_align(Tensor x) -> Tensor", "fake_nms(Tensor x) -> Tensor"])
