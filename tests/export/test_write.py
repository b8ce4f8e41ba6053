"""A file that differs from its model is not written, and a version is complete."""

import hashlib
import json
import shutil
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf
from support import (
    TOLERANCE,
    first_quick,
    golden,
    golden_model,
    need_rounded_bfloat16,
    needs_tensorflow,
    randomise,
    run_python,
)

import keras_vit
from keras_vit import export, exported
from keras_vit.export import image_bytes, saved_model, serving_module, tflite, write
from keras_vit.export.formats import FORMATS
from keras_vit.export.versions import versions, write_version
from keras_vit.models.model_interface import model_interface
from keras_vit.preprocessing.image_spec import ImageSpec

pytestmark = needs_tensorflow
TINY = keras_vit.Variant("tiny", width=16, depth=2, mlp_dim=24, num_heads=2, patch_size=4, image_size=8)


@pytest.fixture
def model():
    return randomise(keras_vit.build(TINY, classes=3, labels=("a", "b", "c")))


@pytest.fixture(scope="module")
def images():
    return np.random.default_rng(0).integers(0, 256, (40, 8, 8, 3))


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_an_export_holds_all_it_says(model, images, tmp_path):
    labels = model.predict(images / 127.5 - 1, verbose=0).argmax(axis=1)
    labels[:4] = (labels[:4] + 1) % 3
    report = export.export(model, tmp_path / "saved_models" / "tiny", images, labels)
    folder = tmp_path / "saved_models" / "tiny" / "1"
    assert report.path == folder and report.accuracy == 0.9
    rows = {(row.format, row.signature, row.output): row for row in report.rows}
    assert rows.keys() == {
        ("saved_model", "serving_default", "logits"),
        ("saved_model", "classify_bytes", "probabilities"),
        ("saved_model", "features", "pooled"),
        ("saved_model", "features", "tokens"),
        ("saved_model", "attention", "rollout"),
        ("tflite", "serving_default", "logits"),
        ("tflite-fp16", "serving_default", "logits"),
        ("tflite-int8-dynamic", "serving_default", "logits"),
    }
    exact = [row for row in report.rows if row.format in ("saved_model", "tflite")]
    assert all(row.max_difference <= 1e-4 for row in exact)
    scored = [row for row in exact if row.output in ("logits", "probabilities")]
    assert all(row.agreement == 1 and row.accuracy == 0.9 for row in scored)
    assert rows["tflite", "serving_default", "logits"].size == (folder / "model.tflite").stat().st_size
    lines = str(report).splitlines()
    assert "40 images" in lines[0] and len(lines) == 3 + len(rows)
    assert sum("90.00%" in line for line in lines) >= 4

    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["model"] == "tiny" and manifest["labels"] == ["a", "b", "c"]
    assert ImageSpec(**manifest["input"].pop("preprocessing")) == ImageSpec((8, 8))
    assert manifest["input"] == {"shape": [8, 8, 3], "image_size": [8, 8], "range": [-1, 1], "exif": True}
    assert manifest["versions"]["tensorflow"] == tf.__version__
    assert manifest["parity"]["images"] == 40 and len(manifest["parity"]["rows"]) == len(rows)
    files = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()} - {"manifest.json"}
    assert manifest["files"].keys() == files
    for name, entry in manifest["files"].items():
        data = (folder / name).read_bytes()
        assert entry == {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}


@pytest.mark.broad
def test_images_that_are_no_8_bit_pixels_and_a_free_size_pass(tmp_path):
    free = randomise(keras_vit.build(TINY, classes=3, input_shape=(None, None, 3)))
    fractions = np.random.default_rng(0).uniform(0, 255, (3, 12, 16, 3))
    report = export.export(free, tmp_path / "free", fractions, formats=("saved_model",))
    assert {row.signature for row in report.rows} == {"serving_default", "classify_bytes", "features", "attention"}
    assert max(row.max_difference for row in report.rows) < 1e-5


@pytest.mark.broad
def test_versions_are_numbered_and_never_overwritten(model, tmp_path):
    output = tmp_path / "tiny"
    (output / "7").mkdir(parents=True)
    (output / "7" / "mine.txt").write_text("kept")
    (output / "notes").mkdir()
    for expected in ("8", "9"):
        assert export.export(model, output, formats=("saved_model",)).path == output / expected
    assert names(output) == ["7", "8", "9", "notes"] and names(output / "7") == ["mine.txt"]


def test_two_exports_at_once_take_two_numbers(tmp_path):
    def fill(folder):
        (folder / "file").write_text("first")
        if not versions(tmp_path):
            write_version(tmp_path, fill=lambda inner: (inner / "file").write_text("second"))

    assert write_version(tmp_path, fill) == tmp_path / "2"
    assert [(tmp_path / name / "file").read_text() for name in ("1", "2")] == ["second", "first"]


@pytest.mark.parametrize("name", first_quick(["saved_model", "tflite"]))
def test_a_disk_that_cannot_be_written_to_gets_one_sentence_and_keeps_nothing(name, tmp_path):
    """The system's limit on file sizes has the effect of a full disk in TensorFlow and Python."""
    resource = pytest.importorskip("resource", reason="no limits on this system")
    model = keras_vit.build(replace(TINY, width=128, mlp_dim=256), classes=3)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
    try:
        with pytest.raises(OSError, match=r"^output expected a disk .*/new', where writing failed \(File too large\)"):
            export.export(model, tmp_path / "new", formats=(name,))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert not names(tmp_path)


@pytest.mark.broad
def test_what_openvino_cannot_write_gets_one_sentence_too(model, tmp_path, monkeypatch):
    library = pytest.importorskip("openvino", reason="extra `formats` is not installed")

    def full(*_, **__):
        raise RuntimeError("basic_ios::clear: iostream error")  # on a full disk it says no more

    monkeypatch.setattr(library, "save_model", full)
    with pytest.raises(OSError, match=r"where writing failed \(OpenVINO could not write it: basic_ios::clear"):
        export.export(model, tmp_path / "new", formats=("openvino",))
    assert not names(tmp_path)


@pytest.mark.broad
@pytest.mark.parametrize("wrong", ["tflite", "saved_model"])
def test_a_file_that_disagrees_is_refused(wrong, model, images, tmp_path, monkeypatch):
    other = randomise(keras_vit.build(TINY, classes=3), seed=1)
    convert, write_saved = tflite.convert, saved_model.write_saved_model
    if wrong == "tflite":
        monkeypatch.setattr(tflite, "convert", lambda _, precision, **__: convert(other, precision))
    else:
        monkeypatch.setattr(
            saved_model, "write_saved_model", lambda _, folder, *rest: write_saved(other, folder, *rest)
        )
    message = rf"{wrong} \(serving_default\) expected logits within 0.0001 of the Keras model's, received a difference"
    with pytest.raises(ValueError, match=message):
        export.export(model, tmp_path / "new" / "tiny", images)
    assert not (tmp_path / "new").exists()


@pytest.mark.broad
def test_a_wrong_byte_signature_is_refused(model, images, tmp_path, monkeypatch):
    monkeypatch.setattr(image_bytes, "_resized", lambda image, interface: tf.zeros((*interface.image_size, 3)))
    with pytest.raises(ValueError, match=r"saved_model \(classify_bytes\) expected probabilities within"):
        export.export(model, tmp_path / "tiny", images, formats=("saved_model",))
    assert not names(tmp_path)


WRONG_ROLLOUTS = {
    "a map upside down": (lambda maps: tf.reverse(maps, [1]), "expected rollout w"),
    "of one head more": (lambda maps: maps * 1.3, "expected rollout w"),
    "cut into more rows": (
        lambda maps: tf.reshape(maps, (-1, 1, 2)),
        r"expected rollout of shape \(1, 2, 2\), received",
    ),
    "the same for all": (lambda maps: maps[:1], r"expected rollout of shape \(32, 2, 2\), received \(1, 2, 2\)"),
}


@pytest.mark.broad
@pytest.mark.parametrize("wrong", first_quick(WRONG_ROLLOUTS))
def test_a_wrong_attention_signature_is_refused(wrong, model, images, tmp_path, monkeypatch):
    """The expected rollout comes from other code, and shapes are not broadcast."""
    change, sentence = WRONG_ROLLOUTS[wrong]
    right = serving_module.rollout
    monkeypatch.setattr(serving_module, "rollout", lambda *args: change(right(*args)))
    with pytest.raises(ValueError, match=rf"saved_model \(attention\) {sentence}"):
        export.export(model, tmp_path / "tiny", images, formats=("saved_model",))
    assert not names(tmp_path)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Return the folder of a correct SavedModel of `model`."""
    folder = tmp_path_factory.mktemp("right")
    saved_model.write_saved_model(randomise(keras_vit.build(TINY, classes=3, labels=("a", "b", "c"))), folder)
    return folder


def answering(written, changes, row=FORMATS["saved_model"]):
    """Return a row that copies the SavedModel and changes its signatures by functions; None removes one."""

    def load(file):
        signatures = dict(row.module.load(file))
        for signature, change in changes.items():
            right = signatures.pop(signature)
            if change is not None:
                signatures[signature] = lambda right=right, change=change, **given: change({**right(**given)})
        return signatures

    copy = lambda _, file, __: shutil.copytree(written, file.parent, dirs_exist_ok=True)  # noqa: E731
    return replace(row, module=SimpleNamespace(write=copy, load=load))


@pytest.mark.broad
@pytest.mark.parametrize(
    ("signature", "change", "sentence"),
    first_quick(
        [
            (
                "serving_default",
                lambda out: {**out, "probabilities": 0 * out["logits"]},
                "expected probabilities within",
            ),
            ("serving_default", lambda out: {"logits": out["logits"]}, "expected the outputs .*, received"),
            ("features", lambda out: {**out, "pooled": out["pooled"][:, ::-1]}, "expected pooled within"),
            ("features", lambda out: {**out, "tokens": out["tokens"][:1]}, "expected tokens of shape"),
            ("classify_bytes", lambda out: {**out, "labels": out["labels"][:, ::-1]}, "expected labels that follow"),
            ("classify_bytes", lambda out: {**out, "scores": 1 - out["scores"]}, "expected scores that follow"),
            ("attention", None, "received none named attention"),
        ],
        2,
    ),
)
def test_every_output_of_every_signature_is_compared(
    signature, change, sentence, model, images, written, tmp_path, monkeypatch
):
    monkeypatch.setitem(write.FORMATS, "saved_model", answering(written, {signature: change}))
    with pytest.raises(ValueError, match=f"saved_model.*{sentence}"):
        export.export(model, tmp_path / "tiny", images[:3], formats=("saved_model",))


@pytest.mark.broad
@pytest.mark.parametrize("count", first_quick([40, 1, 2]))
def test_signatures_are_called_with_two_batch_sizes(count, model, images, written, tmp_path, monkeypatch):
    sizes = []
    note = {"features": lambda out: sizes.append(len(out["pooled"])) or out}
    monkeypatch.setitem(write.FORMATS, "saved_model", answering(written, note))
    export.export(model, tmp_path / "tiny", images[:count], formats=("saved_model",))
    assert sizes == ([1, 32, 7] if count == 40 else [1, 2])


@pytest.mark.broad
def test_a_model_that_answers_nan_is_refused(model, images, tmp_path):
    model.get_layer("head").bias.assign([0.0, float("nan"), 0.0])
    with pytest.raises(ValueError, match="received a difference of nan"):
        export.export(model, tmp_path / "tiny", images, formats=("saved_model",))
    assert not names(tmp_path)


@pytest.mark.broad
def test_half_precision_is_held_to_its_agreement(model, images, tmp_path, monkeypatch):
    other, convert = randomise(keras_vit.build(TINY, classes=3), seed=1), tflite.convert
    monkeypatch.setattr(tflite, "convert", lambda _, precision, **__: convert(other, precision))
    with pytest.raises(ValueError, match="have the Keras model's best class for 99% of the images, received"):
        export.export(model, tmp_path / "tiny", images, formats=("tflite-fp16",))


@pytest.mark.broad
def test_ties_may_fall_either_way(images, tmp_path):
    """The head of a new model is zero, so all classes have the same score."""
    report = export.export(keras_vit.build(TINY, classes=3), tmp_path / "fresh", images, formats=("saved_model",))
    agreements = [row.agreement for row in report.rows if row.signature in ("serving_default", "classify_bytes")]
    assert agreements == [1, 1]


@pytest.mark.broad
@pytest.mark.parametrize("moment", first_quick(["while the model is written", "while the manifest is written"]))
def test_an_interruption_leaves_no_half_version(moment, model, tmp_path, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    if moment == "while the model is written":
        monkeypatch.setattr(tflite, "convert", interrupted)  # the SavedModel lies there by then
    else:
        monkeypatch.setattr(write, "manifest", interrupted)
    (tmp_path / "tiny" / "1").mkdir(parents=True)
    with pytest.raises(KeyboardInterrupt):
        export.export(model, tmp_path / "tiny")
    assert names(tmp_path / "tiny") == ["1"]


@pytest.mark.broad
def test_an_export_is_loaded_again_by_name_and_by_version(model, images, tmp_path):
    for _ in range(2):
        export.export(model, tmp_path / "tiny", formats=("saved_model",))
    for source, version in ((tmp_path / "tiny", "2"), (tmp_path / "tiny" / "1", "1")):
        loaded = exported.load_export(source)
        assert loaded.path.name == version and loaded.name == "tiny"
        assert loaded.interface == model_interface(model)
        inputs = images / 127.5 - 1
        assert np.abs(loaded(inputs)["probabilities"] - model.predict(inputs, verbose=0)).max() < 1e-6
    with pytest.raises(ValueError, match=r"or a version in it, or one of its files\), received"):
        exported.load_export(tmp_path)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"formats": ("coreml",)}, r"formats expected some of .*, received \('coreml',\)"),
        ({"dtype": "float8"}, "dtype expected one of .*, received 'float8'"),
        ({"batch": 0}, "batch expected a positive int or None, received 0"),
        ({"formats": "tflite"}, "formats expected some of .*, received 'tflite'"),
        ({"images": np.zeros((2, 9, 8, 3))}, r"images expected shape \(N, 8, 8, 3\), received \(2, 9, 8, 3\)"),
        ({"images": np.zeros((8, 8, 3))}, r"images expected shape \(N, 8, 8, 3\), received \(8, 8, 3\)"),
        ({"images": np.full((2, 8, 8, 3), 300.0)}, r"images expected pixels in 0..255, received 300..300"),
        ({"images": np.full((2, 8, 8, 3), np.nan)}, r"images expected pixels in 0..255, received nan..nan"),
        ({"images": np.zeros((2, 8, 8, 3)), "labels": [1]}, r"labels expected shape \(2,\), .*received \(1,\)"),
    ],
)
def test_bad_arguments_get_a_sentence(arguments, message, model, tmp_path):
    with pytest.raises(ValueError, match=message):
        export.export(model, tmp_path / "tiny", **arguments)
    assert not names(tmp_path)


@pytest.mark.broad
def test_labels_without_a_classifier_and_an_output_that_is_a_file_are_refused(model, images, tmp_path):
    headless = keras_vit.build(TINY, include_top=False)
    with pytest.raises(ValueError, match="labels expected a model with a classifier"):
        export.export(headless, tmp_path / "tiny", images, labels=np.zeros(40))
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="output expected a folder, received .*file"):
        export.export(model, tmp_path / "file", formats=("saved_model",))


@pytest.mark.broad
@pytest.mark.parametrize("dtype", ["mixed_bfloat16", "bfloat16"])
def test_a_half_precision_model_passes_by_agreement_and_is_float32_in_tflite(dtype, tmp_path):
    need_rounded_bfloat16()
    report = export.export(golden_model("g1", dtype=dtype), tmp_path / "g1", formats=("saved_model", "tflite"))
    assert {row.format for row in report.rows} == {"saved_model", "tflite"}
    assert all(row.max_difference < 0.1 for row in report.rows)
    assert all(row.agreement >= 0.99 for row in report.rows if row.signature in ("serving_default", "classify_bytes"))
    answer = tflite.runner((report.path / "model.tflite").read_bytes())(images=golden("g1")["images"])
    assert np.abs(answer["logits"] - golden("g1")["logits"]).max() < (TOLERANCE if "mixed" in dtype else 0.1)


@pytest.mark.broad
def test_on_another_backend_export_says_what_it_needs(tmp_path):
    code = f"""
import keras_vit
from keras_vit.export import export
tiny = keras_vit.Variant("tiny", width=16, depth=1, mlp_dim=24, num_heads=2, patch_size=4, image_size=8)
try:
    export(keras_vit.build(tiny, classes=3), {str(tmp_path / "tiny")!r})
except ValueError as error:
    print(error)
"""
    said = run_python(code, backend="jax").strip()
    assert said == "export expected Keras on TensorFlow, received KERAS_BACKEND=jax." and not names(tmp_path)
