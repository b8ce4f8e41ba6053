"""Every format passes the comparison for every kind of tiny model, and a version records its origin."""

import importlib.util
import json
import os
import re
import signal
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
from contract.cases import MODELS, PRINCIPAL, principal_first
from support import ROOT, golden_model, need_rounded_bfloat16, needs_tensorflow, randomise

from keras_vit import cli
from keras_vit.export import Origin, export, origin_of, parity, tflite
from keras_vit.export import flatbuffer as flatbuffer_module
from keras_vit.export.card import model_card
from keras_vit.export.formats import default_formats
from keras_vit.export.versions import versions, write_version
from keras_vit.models.model_interface import model_interface, named_outputs
from keras_vit.preprocessing.inputs import preprocess_input

pytestmark = needs_tensorflow
CASES = {case.name: case for case in MODELS}
FURTHER = tuple(CASES[name] for name in ("hybrid", "rope_free_size", "parallel", "conv_stem", "bit_evo_norm"))
KINDS = principal_first(MODELS, names=("token",), broad=FURTHER)
BEYOND = ("onnx", "openvino")  # each named as its package
# Of int16x8 no more than differ in what is computed: its kernels are the slow reference ones.
IN_INT16 = ("map", "pixels", "local", "hybrid", "bit")


def pixels_for(model, count=16):
    """Return the images with the largest margins between classes. For small margins rounding decides."""
    shape = tuple(side or 64 for side in model.input_shape[1:])
    pixels = np.random.default_rng(0).integers(0, 256, (4 * count, *shape))
    interface = model_interface(model)
    if interface.classes is None:
        return pixels[:count]
    inputs = pixels.astype("float32") if interface.takes_pixels else preprocess_input(pixels)
    ranked = np.sort(named_outputs(model).predict(inputs, verbose=0)["logits"], axis=1)
    return pixels[np.argsort(ranked[:, -2] - ranked[:, -1])[:count]]


@pytest.mark.broad
@pytest.mark.parametrize(
    ("case", "dtype"),
    [*(pytest.param(*kind.values, None, id=kind.id, marks=kind.marks) for kind in KINDS),
     pytest.param(MODELS[0], "mixed_bfloat16", id="token-mixed_bfloat16", marks=pytest.mark.large)],
)  # fmt: skip
def test_every_format_of_every_kind_passes(case, dtype, tmp_path):
    pytest.importorskip("ai_edge_litert", reason="extra `formats` is not installed")
    model = randomise(case.make(dtype))
    formats = [*default_formats(not case.static_size), *(name for name in BEYOND if importlib.util.find_spec(name))]
    report = export(model, tmp_path / "tiny", pixels_for(model), formats=formats)
    assert {row.format for row in report.rows} == set(formats)
    exact = [row for row in report.rows if row.format in ("saved_model", "tflite", *BEYOND) and dtype is None]
    assert all(row.max_difference < 1e-4 for row in exact)
    for row in report.rows:
        assert row.agreement is None or row.agreement == 1
        assert (row.latency is not None and row.latency > 0) == (row.signature == "serving_default")


def on_integers(flatbuffer):
    """Return the operators with int8 inputs, except quantisation, dequantisation and slicing."""
    schema = flatbuffer_module.schema_of_tflite()
    model = schema.ModelT.InitFromPackedBuf(flatbuffer, 0)
    names = {code: name for name, code in vars(schema.BuiltinOperator).items() if isinstance(code, int)}
    found = set()
    for graph in model.subgraphs:
        for operator in graph.operators:
            code = model.operatorCodes[operator.opcodeIndex]
            if any(graph.tensors[i].type == schema.TensorType.INT8 for i in operator.inputs if i >= 0):
                found.add(names[max(code.builtinCode, code.deprecatedBuiltinCode)])
    return found - {"QUANTIZE", "DEQUANTIZE", "STRIDED_SLICE"}


@pytest.mark.broad
@pytest.mark.parametrize(
    "case", principal_first([case for case in MODELS if case.static_size], names=("token",), broad=FURTHER)
)
def test_calibrated_integers_of_every_kind_pass(case, tmp_path):
    """Only matmuls with weights are in int8. Sums, norms and softmax would lose accuracy."""
    pytest.importorskip("ai_edge_litert", reason="extra `formats` is not installed")
    model = randomise(case.make())
    pixels = pixels_for(model, 24)
    formats = ("tflite-int8", *["tflite-int16x8"] * (case.name in IN_INT16))
    report = export(model, tmp_path / "tiny", pixels[:16], formats=formats, calibration=pixels[16:])
    agreement = 1 if model_interface(model).classes else None
    assert {row.format: row.agreement for row in report.rows} == dict.fromkeys(formats, agreement)
    assert all(row.max_difference > 1e-5 for row in report.rows)
    integers = (report.path / "model-int8.tflite").read_bytes()
    assert on_integers(integers) == tflite.operators(integers).keys() & {
        "FULLY_CONNECTED",
        "CONV_2D",
        "DEPTHWISE_CONV_2D",
    }
    assert f"| {formats[-1]} |" in (card := (report.path / "model_card.md").read_text())
    assert "measured on 8 other images" in card


@pytest.mark.broad
@pytest.mark.parametrize("case", KINDS)
def test_openvinos_integers_of_every_kind_pass(case, tmp_path):
    """Matmuls and convolutions are in int8; sums, norms, the embedding and the classifier are not.

    An operation that only reads the shape of rounded values computes nothing on them.
    """
    pytest.importorskip("nncf", reason="extra `formats` is not installed")
    library = importlib.import_module("openvino")
    model = randomise(case.make())
    pixels = pixels_for(model, 24)
    chosen = {"formats": ("openvino-int8",), "calibration": pixels[16:]}
    report = export(model, tmp_path / "tiny", pixels[:16], **chosen)
    (row,) = report.rows
    assert row.agreement == (1 if model_interface(model).classes else None) and row.max_difference > 1e-5
    network = library.Core().read_model(str(report.path / "model-int8.xml"))
    assert network.input().partial_shape[0].is_dynamic
    rounded = [node for node in network.get_ops() if node.get_type_name() == "FakeQuantize"]
    on_integers = {taker for node in rounded for taker in takers(node)}
    assert on_integers and {kind for kind, _ in on_integers} <= {"MatMul", "Convolution", "GroupConvolution", "ShapeOf"}
    products = [node for node in network.get_ordered_ops() if node.get_type_name() in ("MatMul", "Convolution")]
    first, *others = (node.get_friendly_name() for node in products)
    ends = [name for name in others if re.search("/(position_embedding|pre_logits|head)", name)]
    assert not {first, *ends} & {name for _, name in on_integers}
    assert any("/head" in name for name in ends) == (model_interface(model).classes is not None)
    assert "int8" in network.get_rt_info(["keras_vit.json"]).astype(str)


def takers(node) -> set[tuple[str, str]]:
    """Return types and names of the nodes that read a node, also through reshapes, transposes and slices."""
    moving = (
        "MaxPool",
        "Transpose",
        "Reshape",
        "Pad",
        "StridedSlice",
        "Gather",
        "Unsqueeze",
        "Squeeze",
        "Concat",
        "Split",
    )
    found = set()
    for output in node.outputs():
        for taker in (target.get_node() for target in output.get_target_inputs()):
            kind = taker.get_type_name()
            found |= takers(taker) if kind in moving else {(kind, taker.get_friendly_name())}
    return found


@pytest.mark.broad
def test_nncf_is_imported_without_its_reports(tmp_path):
    """NNCF sends reports unless its variable is set during the import. The variable is restored afterwards."""
    pytest.importorskip("nncf", reason="extra `formats` is not installed")
    code = (
        "import os; from keras_vit.export import integers; nncf = integers.nncf()\n"
        "from nncf.telemetry import telemetry; assert 'Mock' in type(telemetry).__name__, telemetry\n"
        "assert 'NNCF_CI' not in os.environ\n"
        "os.environ['NNCF_CI'] = ''; integers.nncf(); assert os.environ['NNCF_CI'] == ''"
    )
    environment = {name: value for name, value in os.environ.items() if name != "NNCF_CI"}
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT, env=environment)


@pytest.mark.broad
def test_both_sides_are_compared_without_tensor_float_32(tmp_path, monkeypatch):
    """TensorFloat-32 is off during the comparison. Its effect is visible on GPUs only."""
    shortened, seen, answer = tf.config.experimental.tensor_float_32_execution_enabled, [], parity.keras_outputs
    monkeypatch.setattr(parity, "keras_outputs", lambda *a: seen.append(shortened()) or answer(*a))
    export(CASES["token"].make(), tmp_path / "tiny", formats=("tflite",))
    assert seen == [False] and shortened()


def test_integers_without_their_images_are_refused(tmp_path):
    with pytest.raises(ValueError, match="calibration expected real images for tflite-int8, received None"):
        export(CASES["token"].make(), tmp_path / "tiny", formats=("tflite", "tflite-int8"))
    with pytest.raises(ValueError, match="calibration expected real images for the precision int8, received None"):
        tflite.convert(CASES["token"].make(), "int8")
    with pytest.raises(ValueError, match=r"calibration expected shape \(N, 8, 8, 3\), received \(4, 9, 8, 3\)"):
        export(CASES["token"].make(), tmp_path / "tiny", calibration=np.zeros((4, 9, 8, 3)))


@pytest.mark.broad
@pytest.mark.parametrize(
    "case",
    principal_first(
        [case for case in MODELS if case.static_size or case.name == "free_size"],
        names=("token", "free_size"),
        broad=[case for case in MODELS if case.name in PRINCIPAL],
    ),
)
def test_a_bfloat16_saved_model_passes(case, tmp_path):
    need_rounded_bfloat16()
    model = randomise(case.make())
    report = export(model, tmp_path / "tiny", pixels_for(model), formats=("saved_model",), dtype="bfloat16")
    (row,) = [row for row in report.rows if row.signature == "serving_default"]
    assert row.agreement == (1 if model_interface(model).classes else None) and 1e-5 < row.max_difference < 0.2


def test_int8_weights_are_a_quarter_and_stay_close():
    model = golden_model("g1")
    small = tflite.convert(model, "int8-dynamic")
    stored = tflite.stored_types(small)
    assert {"INT8"} < stored.keys() and stored["INT8"] > 0.8 * model.count_params()
    assert stored.get("FLOAT32", 0) < 4 * 0.2 * model.count_params()


@pytest.mark.broad
def test_the_manifest_and_the_card_say_where_the_weights_came_from(tmp_path):
    model = randomise(CASES["labelled"].make())
    run = tmp_path / "runs" / "shapes"
    run.mkdir(parents=True)
    model.save(run / "model.keras")
    (run / "recipe.json").write_text(json.dumps({"data": {"source": "digits"}}))
    (run / "summary.json").write_text(
        json.dumps({"recipe": "shapes", "accuracy": 0.75, "test_examples": 1234, "train_examples": 5678})
    )
    origin = origin_of(run)
    assert origin == Origin(
        "shapes/model.keras", origin.sha256, "5,678 images of `digits`, by the recipe `shapes`", 0.75, 1234
    )
    report = export(model, tmp_path / "shapes", formats=("saved_model",), origin=origin)
    manifest = json.loads((report.path / "manifest.json").read_text())
    assert manifest["source"]["sha256"] == origin.sha256 and len(origin.sha256) == 64
    layers = {layer["config"]["name"]: layer["config"] for layer in manifest["config"]["config"]["layers"]}
    assert layers["head"]["units"] == 5 and layers["encoder_block_01"]["num_heads"] == 2
    assert "model_card.md" in manifest["files"]
    card = (report.path / "model_card.md").read_text()
    assert "| accuracy on the test split, after training | 75.00% | 1,234 |" in card
    assert "| accuracy of the Keras model, at export | unmeasured | |" in card
    assert (
        "shorter side" not in card
        and "8 images of random pixels" in card
        and "| saved_model | attention | rollout |" in card
    )
    (run / "recipe.json").write_text(json.dumps({"data": {"source": "digits", "resize": 36}}))
    assert "whose shorter side was resized to 36 pixels" in model_card(model, report, origin_of(run))
    assert origin_of("ViT_B16") == Origin(weights="ViT_B16") and origin_of(run / "model.keras").accuracy is None


@pytest.mark.broad
def test_a_killed_export_leaves_a_hidden_folder_that_the_next_one_removes(tmp_path):
    output = tmp_path / "tiny"
    code = f"""
import time
from contract.cases import MODELS
from keras_vit.export import export, tflite
def begun(*_, **__):  # the SavedModel lies there by then
    print("begun", flush=True)
    time.sleep(600)
tflite.convert = begun
export(MODELS[0].make(), {str(output)!r})
"""
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}"}
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, cwd=ROOT, env=environment)
    assert process.stdout.readline().strip() == b"begun"
    (running,) = output.iterdir()
    assert write_version(output, lambda folder: (folder / "file").write_text("")) == output / "1"
    assert (running / "saved_model.pb").is_file(), "an export that still runs was taken for a dead one"
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    process.stdout.close()
    assert running.name.startswith(".partial-") and (running / "saved_model.pb").is_file()
    assert versions(output) == [1]
    model = randomise(CASES["token"].make())
    assert export(model, output, formats=("saved_model",)).path == output / "2"
    assert sorted(path.name for path in output.iterdir()) == ["1", "2"]


def test_a_hidden_folder_is_no_version_to_the_server(tmp_path):
    pytest.importorskip("prometheus_client", reason="extra `serve` is not installed")
    from keras_vit.serve.repository import version_numbers

    for name in ("1", ".partial-abc"):
        (tmp_path / name).mkdir()
    assert version_numbers(tmp_path) == versions(tmp_path) == [1]


@pytest.mark.broad
def test_the_command_compares_on_a_folder_of_images(tmp_path, capsys):
    from PIL import Image

    model = randomise(CASES["labelled"].make())
    model.save(tmp_path / "model.keras")
    for i, pixels in enumerate(pixels_for(model, 6).astype("uint8")):
        folder = tmp_path / "images" / "abcde"[i % 2]
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(folder / f"{i}.png")
    arguments = ["export", str(tmp_path / "model.keras"), "--output", str(tmp_path / "out"), "--formats", "saved_model"]
    assert cli.main([*arguments, "--images", str(tmp_path / "images"), "--dtype", "bfloat16"]) == 0
    assert "compared on 6 images" in (said := capsys.readouterr().out) and "accuracy" in said
    assert cli.main([*arguments, "--images", str(tmp_path / "out" / "1" / "variables")]) == 2
    assert "--images expected a folder of images" in capsys.readouterr().err


@pytest.mark.broad
def test_the_command_warns_of_random_pixels(tmp_path, capsys):
    randomise(CASES["bit_free_size"].make()).save(tmp_path / "free.keras")
    assert cli.main(["export", str(tmp_path / "free.keras"), "--output", str(tmp_path / "out")]) == 0
    said = capsys.readouterr()
    assert "compared on 8 images of random pixels" in said.out
    assert "no --images and no test data; compared on random pixels.\n" in said.err


@pytest.mark.broad
def test_the_card_says_how_many_calibration_images_were_compared_on_too(tmp_path):
    pytest.importorskip("ai_edge_litert", reason="extra `formats` is not installed")
    model = randomise(CASES["token"].make())
    pixels = pixels_for(model)
    report = export(model, tmp_path / "tiny", pixels, formats=("tflite-int8",), calibration=pixels[:10])
    assert "measured on 10 images, 10 of them also compared on." in (report.path / "model_card.md").read_text()
    assert json.loads((report.path / "manifest.json").read_text())["parity"]["calibration_images_compared_on"] == 10
