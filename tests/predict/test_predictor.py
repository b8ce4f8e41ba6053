"""Predictions of image files by a Keras model and by its export."""

import io
import itertools
import json
import re

import keras
import numpy as np
import pytest
from PIL import Image
from support import needs_tensorflow, randomise

import keras_vit
from keras_vit import cli
from keras_vit.predict import load_predictor, predict, predict_each
from keras_vit.predict.predictor import BATCH_SIZE
from keras_vit.preprocessing.kinds import KINDS

TINY = keras_vit.Variant("tiny", width=16, depth=1, mlp_dim=24, num_heads=2, patch_size=4, image_size=8)
LABELS = ("a", "b", "c")


def tiny(**options):
    return randomise(keras_vit.build(TINY, classes=3, labels=LABELS, **options))


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("images")
    rng = np.random.default_rng(0)
    paths = [folder / f"{i}.png" for i in range(4)]
    for path in paths:
        Image.fromarray(rng.integers(0, 256, (8, 8, 3), "uint8")).save(path)
    return paths


@pytest.mark.parametrize("options", [{}, {"classifier_activation": None}, {"include_preprocessing": True}])
def test_results_are_the_probabilities_of_the_model_best_first(options, files):
    model = tiny(**options)
    pixels = np.stack([np.asarray(Image.open(path), "float32") for path in files])
    scores = model(pixels if "include_preprocessing" in options else pixels / 127.5 - 1)
    if "classifier_activation" in options:
        scores = keras.ops.softmax(scores)
    rows = predict(model, files, top=2)
    assert [row["image"] for row in rows] == [str(path) for path in files]
    for row, expected in zip(rows, keras.ops.convert_to_numpy(scores), strict=True):
        best = np.argsort(-expected)[:2]
        assert [entry["label"] for entry in row["predictions"]] == [LABELS[i] for i in best]
        assert np.allclose([entry["score"] for entry in row["predictions"]], expected[best], atol=1e-6)


def test_results_of_many_files_are_in_order(files, capsys):
    model = tiny()
    many = (files * BATCH_SIZE)[: BATCH_SIZE + 3]
    rows = predict(model, many)
    assert [row["image"] for row in rows] == [str(path) for path in many]
    assert len(rows[0]["predictions"]) == 3 and rows[0]["predictions"] == rows[4]["predictions"]
    predict(model, files)
    assert capsys.readouterr().err == ""  # no terminal, no bar


def test_a_model_with_a_free_size_takes_photographs_of_any_size(files, tmp_path):
    Image.new("L", (31, 17), 90).save(tmp_path / "grey.jpg")
    rows = predict(tiny(input_shape=(None, None, 3)), [tmp_path / "grey.jpg", files[0]])
    assert sum(entry["score"] for entry in rows[0]["predictions"]) == pytest.approx(1)
    assert predict(tiny(), []) == []


@needs_tensorflow
@pytest.mark.parametrize("layout", ["npz", "hf"])
def test_the_command_takes_published_weights(layout, files, tmp_path, capsys):
    model = tiny(activation="gelu_tanh" if layout == "npz" else "gelu")
    source = tmp_path / ("weights.npz" if layout == "npz" else "hub")
    keras_vit.save_weights(model, source, layout=layout)
    expected = predict(model, files)
    capsys.readouterr()
    assert cli.main(["predict", str(source), *map(str, files), "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    for row, other in zip(rows, expected, strict=True):
        found, scores = ([p["score"] for p in r["predictions"]] for r in (row, other))
        assert np.allclose(found, scores, atol=1e-5)
        if layout == "hf":  # whose config.json holds the labels
            assert [p["label"] for p in row["predictions"]] == [p["label"] for p in other["predictions"]]
    assert cli.main(["predict", str(tmp_path / "absent.npz"), str(files[0])]) == 2
    assert "model expected a .npz file, found nothing at" in capsys.readouterr().err


def test_an_export_predicts_what_its_model_predicts(files, tmp_path):
    from keras_vit.export import export
    from keras_vit.exported import ExportedModel

    model = tiny(include_preprocessing=True)
    model.save(tmp_path / "model.keras")
    export(model, tmp_path / "exports" / "tiny", formats=("saved_model",))
    expected = predict(load_predictor(tmp_path), files)
    for source in (tmp_path / "exports" / "tiny", tmp_path / "exports" / "tiny" / "1"):
        exported = load_predictor(source)
        assert isinstance(exported, ExportedModel)
        for row, other in zip(predict(exported, files), expected, strict=True):
            assert [entry["label"] for entry in row["predictions"]] == [e["label"] for e in other["predictions"]]
            scores = [[entry["score"] for entry in r["predictions"]] for r in (row, other)]
            assert np.allclose(*scores, atol=1e-6)


def test_a_file_that_cannot_be_read_is_a_result_with_an_error(files, tmp_path):
    (tmp_path / "notes.txt").write_text("no image")
    whole = io.BytesIO()
    Image.effect_noise((64, 64), 90).save(whole, "JPEG")
    (tmp_path / "cut.jpg").write_bytes(whole.getvalue()[:-400])
    model = tiny()
    rows = predict(model, [files[0], tmp_path / "notes.txt", tmp_path / "cut.jpg", tmp_path / "absent.png", files[1]])
    errors = [row["error"] for row in rows]
    assert errors[0] is errors[4] is None
    assert errors[1].endswith(f"notes.txt expected an image file ({', '.join(KINDS)}), received 8 other bytes.")
    assert "cut.jpg expected a whole image, received a damaged JPEG file of" in errors[2]
    assert errors[3].startswith("image expected a file, found none at ") and "absent.png" in errors[3]
    assert [row["predictions"] for row in rows[1:4]] == [[], [], []]
    for row, alone in zip((rows[0], rows[4]), predict(model, files[:2]), strict=True):
        assert [entry["label"] for entry in row["predictions"]] == [entry["label"] for entry in alone["predictions"]]
        scores = [[entry["score"] for entry in r["predictions"]] for r in (row, alone)]
        assert np.allclose(*scores, atol=1e-6)
    assert all(row["error"] for row in predict(model, [tmp_path / "notes.txt"] * 2))


def test_results_are_yielded_before_all_names_are_read(files):
    def endless():
        for path in itertools.cycle(files):
            read.append(path)
            yield path

    read = []
    rows = predict_each(tiny(), endless())
    assert next(rows)["image"] == str(files[0])
    assert len(read) == BATCH_SIZE
    rows.close()


def test_progress_without_a_terminal_is_printed_in_lines(files, capsys, monkeypatch):
    monkeypatch.setattr("keras_vit.predict.progress.LINE_SECONDS", 0)
    predict(tiny(), files * (BATCH_SIZE // 4 + 1))
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == BATCH_SIZE + 4
    assert re.fullmatch(r"33 of 36 images, [\d,.]+ images/s, \d\d:\d\d left", lines[32]), lines[32]
    assert "left" not in lines[0]  # the first ones wait for TensorFlow, and tell nothing of the others


def test_wrong_arguments_raise_an_error(files, tmp_path):
    with pytest.raises(ValueError, match="top expected a positive int, received 0"):
        predict(tiny(), files, top=0)
    with pytest.raises(ValueError, match="model expected a classifier, received tiny without one"):
        predict(keras_vit.build(TINY, include_top=False), files)
    with pytest.raises(ValueError, match="model expected a folder with model.keras, or an export"):
        load_predictor(tmp_path)
