"""ONNX and OpenVINO files are valid, take any batch size, equal the model, and are loaded by `predict`."""

import collections
import gc
import importlib.util
import json
import re
import weakref

import numpy as np
import pytest
from contract.cases import MODELS
from PIL import Image
from support import needs_tensorflow, quick_first, randomise

from keras_vit import cli
from keras_vit.export import export, onnx, openvino, optional
from keras_vit.export import formats as formats_module
from keras_vit.export.formats import FORMATS, default_formats
from keras_vit.exported import load_export
from keras_vit.models import load
from keras_vit.models.model_interface import named_outputs
from keras_vit.predict import load_predictor, predict

pytestmark = needs_tensorflow
CASES = {case.name: case for case in MODELS}


def images_for(model, count):
    return np.random.default_rng(0).uniform(-1, 1, (count, *model.input_shape[1:])).astype("float32")


@pytest.fixture(scope="module")
def labelled():
    return randomise(CASES["labelled"].make())


@pytest.fixture(scope="module")
def bit():
    return randomise(CASES["bit"].make())


@pytest.fixture(scope="module")
def onnx_file(bit, tmp_path_factory):
    pytest.importorskip("tf2onnx", reason="extra `formats` is not installed")
    file = tmp_path_factory.mktemp("onnx") / "model.onnx"
    onnx.write_onnx(bit, file)
    return file


def test_an_onnx_file_is_valid_and_takes_any_batch(onnx_file):
    library = pytest.importorskip("onnx", reason="extra `formats` is not installed")
    library.checker.check_model(str(onnx_file), full_check=True)
    model = library.load(onnx_file)
    assert [(entry.domain, entry.version) for entry in model.opset_import if entry.domain in ("", "ai.onnx")] == [
        ("", onnx.OPSET)
    ]
    assert {node.domain for node in model.graph.node} <= {"", "ai.onnx"}, "an operator outside the standard"
    (image,), outputs = model.graph.input, {value.name: value for value in model.graph.output}
    assert image.name == "images" and outputs.keys() == {"logits", "probabilities"}
    for value in (image, *outputs.values()):
        assert value.type.tensor_type.shape.dim[0].dim_param == "batch"
    said = json.loads({entry.key: entry.value for entry in model.metadata_props}["keras_vit.json"])
    assert said["input"]["shape"] == [32, 40, 1] and said["labels"] == list("01234")


@pytest.mark.broad
def test_zeros_before_a_pool_stay_zeros_in_onnx(bit, onnx_file):
    """ONNX Runtime fuses the padding into the pool, which pads with minus infinity. ONNX's evaluator does not."""
    reference = pytest.importorskip("onnx.reference", reason="extra `formats` is not installed")
    images = images_for(bit, 2)
    expected = np.asarray(named_outputs(bit)(images)["logits"])
    names = ["logits"]
    assert (
        np.abs(reference.ReferenceEvaluator(str(onnx_file)).run(names, {"images": images})[0] - expected).max() < 1e-5
    )
    assert np.abs(onnx.runner(onnx_file)(images=images)["logits"] - expected).max() < 1e-5


def test_a_model_past_a_protobuf_message_is_refused(bit, tmp_path, monkeypatch):
    monkeypatch.setattr(onnx, "MOST_BYTES", 1000)
    with pytest.raises(ValueError, match="onnx expected weights of at most 1,000 bytes, .*, received 466,836; the"):
        onnx.write_onnx(bit, tmp_path / "model.onnx")


def test_openvino_reads_and_compiles_what_was_written_for_it(labelled, tmp_path):
    library = pytest.importorskip("openvino", reason="extra `formats` is not installed")
    openvino.write_openvino(labelled, tmp_path / "model.xml")
    assert (tmp_path / "model.bin").stat().st_size >= 4 * labelled.count_params(), "weights in half precision"
    network = library.Core().read_model(str(tmp_path / "model.xml"))
    assert network.input().any_name == "images" and network.input().partial_shape[0].is_dynamic
    assert {output.any_name for output in network.outputs} == {"logits", "probabilities"}
    said = json.loads(network.get_rt_info(["keras_vit.json"]).astype(str))
    assert said["labels"] == list("abcde")
    run = openvino.runner(tmp_path / "model.xml")
    first = run(images=images_for(labelled, 1))["logits"]
    kept = first.copy()
    run(images=-images_for(labelled, 1))
    assert np.array_equal(first, kept), "an answer that the next call overwrites"
    for count in (1, 5):
        images = images_for(labelled, count)
        expected = np.asarray(named_outputs(labelled)(images)["logits"])
        assert np.abs(run(images=images)["logits"] - expected).max() < 1e-5


@pytest.mark.parametrize("name", ["onnx", "openvino", "tflite"])
def test_predict_answers_from_a_version_without_a_saved_model_and_from_its_file(name, labelled, tmp_path):
    pytest.importorskip(
        {"onnx": "tf2onnx", "tflite": "ai_edge_litert"}.get(name, name), reason="extra `formats` is not installed"
    )
    pictures = [tmp_path / "0.png", tmp_path / "1.png"]
    for i, picture in enumerate(pictures):
        Image.fromarray(np.random.default_rng(i).integers(0, 256, (8, 8, 3), "uint8")).save(picture)
    expected = predict(labelled, pictures)
    folder = export(labelled, tmp_path / "out", formats=(name,)).path
    assert load_export(folder).format == name
    for source in (folder.parent, folder, folder / FORMATS[name].file):
        for row, other in zip(predict(load_predictor(source), pictures), expected, strict=True):
            assert [found["label"] for found in row["predictions"]] == [
                found["label"] for found in other["predictions"]
            ]
            assert abs(row["predictions"][0]["score"] - other["predictions"][0]["score"]) < 1e-5


@pytest.mark.parametrize(
    "name", quick_first(["onnx", "openvino", "tflite", "saved_model"], ["openvino"], broad=["saved_model"])
)
def test_a_damaged_version_is_named(name, labelled, tmp_path):
    pytest.importorskip(
        {"onnx": "tf2onnx", "tflite": "ai_edge_litert"}.get(name, name.replace("saved_model", "tensorflow")),
        reason="extra `formats` is not installed",
    )
    folder = export(labelled, tmp_path / "out", formats=(name,)).path
    sentence = f"model expected a whole export, received {str(folder)!r}, whose {{}} cannot be read: "
    more = {"openvino": "model.bin", "saved_model": "variables/variables.data-00000-of-00001"}
    for part in {FORMATS[name].file, more.get(name, FORMATS[name].file)}:
        file = folder / part
        whole = file.read_bytes()
        for cut in (whole[: len(whole) // 2], b""):
            file.write_bytes(cut)
            with pytest.raises(ValueError, match=f"^{re.escape(sentence.format(name))}."):
                load_export(folder)
        file.write_bytes(whole)
    manifest, said = folder / "manifest.json", (folder / "manifest.json").read_text()
    for other in ("{}", "[]", said[: len(said) // 2], said.replace('"image_size"', '"size"')):
        manifest.write_text(other)
        with pytest.raises(ValueError, match=f"^{re.escape(sentence.format('manifest.json'))}."):
            load_export(folder)


def test_they_are_written_on_request_and_what_is_missing_is_named(labelled, tmp_path, monkeypatch):
    assert default_formats(False) == ("saved_model", "tflite", "tflite-fp16", "tflite-int8-dynamic")
    assert default_formats(True) == ("saved_model",)

    def missing(name):
        raise ModuleNotFoundError(f"No module named {name!r}")

    images = np.zeros((1, *labelled.input_shape[1:]))
    whole = optional.importlib.import_module
    monkeypatch.setattr(optional.importlib, "import_module", missing)
    for name, package in (("onnx", "tf2onnx"), ("openvino", "openvino"), ("openvino-int8", "nncf")):
        if package == "nncf":  # OpenVINO alone is not enough
            monkeypatch.setattr(
                optional.importlib, "import_module", lambda name: missing(name) if name == "nncf" else whole(name)
            )
        with pytest.raises(ValueError, match=rf"format {name} expected the package {package}, found none: pip install"):
            export(labelled, tmp_path / "out", formats=(name,), calibration=images)
    assert not (tmp_path / "out").exists()
    stray = tmp_path / "model.onnx"
    stray.write_bytes(b"")
    with pytest.raises(ValueError, match="a version in it, or one of its files\\), received .*model.onnx"):
        load_predictor(stray)


def test_formats_without_their_package_are_left_out_or_refused_before_the_model_is_loaded(monkeypatch, capsys):
    spec = importlib.util.find_spec
    monkeypatch.setattr(
        formats_module.importlib.util, "find_spec", lambda name: None if "litert" in name else spec(name)
    )
    with pytest.warns(UserWarning, match=r"left out tflite, tflite-fp16, .*: found no ai-edge-litert; pip install"):
        assert default_formats(False) == ("saved_model",)
    monkeypatch.setattr(load, "load_model", None)
    assert cli.main(["export", "ViT_Ti16.augreg_in21k", "--output", "out", "--formats", "tflite"]) == 2
    assert "format tflite expected the package ai-edge-litert, found none" in capsys.readouterr().err


@pytest.mark.broad
def test_copies_that_hold_each_other_go_while_an_onnx_file_is_made():
    """The passes of tf2onnx leave many copies of the graph in reference cycles."""

    def alive_at_the_end():
        class Copy:
            pass

        found, last = [], collections.deque(maxlen=20)  # what lives for a while is not collected with the young
        for _ in range(200):
            copy = Copy()
            copy.itself, copy.nodes = copy, [[] for _ in range(300)]
            last.append(copy)
            found.append(weakref.ref(copy))
        return sum(copy() is not None for copy in found)

    before = gc.get_threshold()
    with onnx._frequent_collection():
        assert alive_at_the_end() < 80
    assert gc.get_threshold() == before and gc.get_freeze_count() == 0
