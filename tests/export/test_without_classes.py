"""The comparison of outputs without classes: features, tokens and rollouts in half precision and in integers."""

import functools
import json
import shutil
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from contract.cases import MODELS
from support import needs_tensorflow, quick_first, randomise

from keras_vit.export import export, serving_module
from keras_vit.export.formats import FORMATS
from keras_vit.preprocessing.inputs import preprocess_input

pytestmark = needs_tensorflow
CASES = {case.name: case for case in MODELS}
REDUCED = ("tflite-fp16", "tflite-int8-dynamic", "openvino-int8", "tflite-int8", "tflite-int16x8")
PLACES = [*((name, "serving_default", "features") for name in REDUCED)]
PLACES += [("saved_model", "features", "pooled"), ("saved_model", "features", "tokens")]
PLACES += [("saved_model", "attention", "rollout")]
WRONG = {  # what a broken file may answer in place of `right`; `other` is another model's answer
    "negated": lambda right, other: -right,
    "zeros": lambda right, other: 0 * right,
    "twice": lambda right, other: 2 * right,
    "another model's": lambda right, other: other,
    "the neighbour's": lambda right, other: np.roll(right, 1, axis=0),
    "one for all": lambda right, other: right[:1].repeat(len(right), axis=0),
    "not finite": lambda right, other: np.full_like(right, np.nan),
}


def images_for(model):
    return np.random.default_rng(0).integers(0, 256, (24, *model.input_shape[1:]))


def chosen(pixels, *formats):
    return {"images": pixels[:16], "calibration": pixels[16:], "formats": formats, "dtype": "bfloat16"}


@pytest.mark.broad
@pytest.mark.parametrize("name", quick_first(["headless", "token_sequence", "bit_map"], ["headless"]))
def test_what_is_right_passes_in_every_reduced_format(name, tmp_path):
    for package in ("ai_edge_litert", "nncf"):
        pytest.importorskip(package, reason="extra `formats` is not installed")
    model = randomise(CASES[name].make())
    report = export(model, tmp_path / "tiny", **chosen(images_for(model), "saved_model", *REDUCED))
    most = {"saved_model": 0.05, "tflite-fp16": 0.01, "tflite-int8-dynamic": 0.1}
    assert all(0 <= row.error < most.get(row.format, 0.3) for row in report.rows)
    rows = json.loads((report.path / "manifest.json").read_text())["parity"]["rows"]
    assert [row["error"] for row in rows] == [row.error for row in report.rows]
    card = (report.path / "model_card.md").read_text()
    assert "| error |" in card and "`error`: the root mean square" in card and "agreement" not in card


@pytest.fixture(scope="module")
def headless():
    """Return a model, images, and the outputs of another model for the first 16, by signature and output."""
    model, other = (randomise(CASES["headless"].make(), seed) for seed in (0, 1))
    pixels = images_for(model)
    return model, pixels, serving_module.inference_function(other)(preprocess_input(pixels[:16].astype("float32")))


@pytest.fixture(scope="module")
def written(headless, tmp_path_factory):
    """Return a cached function: format -> folder with a correct file."""
    model, pixels, _ = headless
    return functools.cache(lambda name: export(model, tmp_path_factory.mktemp(name), **chosen(pixels, name)).path)


def every_place_and_every_way():
    """Every way of the first place is quick, one way of each other place is `broad`, and the rest is `large`."""
    for i, place in enumerate(PLACES):
        for j, way in enumerate(WRONG):
            marks = () if i == 0 else pytest.mark.broad if i % len(WRONG) == j else pytest.mark.large
            yield pytest.param(*place, way, marks=marks)


@pytest.mark.parametrize(("name", "signature", "output", "way"), list(every_place_and_every_way()))
def test_a_reduced_file_that_answers_something_else_is_refused(
    name, signature, output, way, headless, written, tmp_path, monkeypatch
):
    for package in ("ai_edge_litert", "nncf"):
        pytest.importorskip(package, reason="extra `formats` is not installed")
    model, pixels, others = headless
    right, row = written(name), FORMATS[name]
    inputs = preprocess_input(pixels[:16].astype("float32"))
    places = {image.tobytes(): i for i, image in enumerate(inputs)}

    def load(file):
        functions = row.module.load(file)

        def answer(*, images):
            found = {key: np.asarray(value) for key, value in functions[signature](images=images).items()}
            indices = [places[image.tobytes()] for image in np.asarray(images)]
            return {**found, output: WRONG[way](found[output], np.asarray(others[signature][output])[indices])}

        return {**functions, signature: answer}

    copy = lambda _, file, __: shutil.copytree(right, file.parent, dirs_exist_ok=True)  # noqa: E731
    monkeypatch.setitem(FORMATS, name, replace(row, module=SimpleNamespace(write=copy, load=load)))
    with pytest.raises(ValueError, match=rf"{name} \({signature}\) expected {output} w"):
        export(model, tmp_path / "new" / "tiny", **chosen(pixels, name))
    assert not (tmp_path / "new").exists()


@pytest.mark.broad
def test_one_image_and_images_that_are_alike_are_no_reason_to_refuse(headless, tmp_path):
    pytest.importorskip("ai_edge_litert", reason="extra `formats` is not installed")
    model, pixels, _ = headless
    for images in (pixels[:1], pixels[:1].repeat(3, axis=0)):
        report = export(model, tmp_path, **{**chosen(pixels, "saved_model", "tflite-int8"), "images": images})
        assert all(row.error < 0.4 for row in report.rows)
