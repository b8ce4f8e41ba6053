"""The output and the exit status of `keras-vit predict`."""

import csv
import io
import itertools
import json
import os
import re
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image
from serving import tiny
from support import ROOT, needs_tensorflow

import keras_vit
from keras_vit import cli
from keras_vit.cli.predict import _next_command
from keras_vit.predict import predict
from keras_vit.predict.images import image_files
from keras_vit.preprocessing.inputs import imagenet_classes

pytestmark = [needs_tensorflow, pytest.mark.filterwarnings("ignore:left out of .*1 not images .notes.txt")]


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """Return a folder with two images, one in a subfolder, and other files."""
    folder = tmp_path_factory.mktemp("photos")
    (folder / "a" / ".hidden").mkdir(parents=True)
    rng = np.random.default_rng(0)
    for name in ("b.PNG", "a/c.jpg", "c.webp", "a/.hidden/d.png", ".e.png"):
        Image.fromarray(rng.integers(0, 256, (8, 8, 3), "uint8")).save(folder / name)
    (folder / "notes.txt").write_text("no image")
    return folder


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "tiny.keras"
    tiny().save(path)
    return path


@pytest.fixture
def expected(photos):
    """Return the predictions of the folder's images."""
    return predict(tiny(), [photos / name for name in ("b.PNG", "c.webp", "a/c.jpg")], top=7)


def fed(monkeypatch, lines):
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=lines))


def agrees(scores, row):
    best = [entry["score"] for entry in row["predictions"]]
    return np.allclose(scores, best[: len(scores)], atol=1e-6)


def test_folders_and_names_on_the_standard_input_become_files_in_order(photos):
    below = [str(photos / name) for name in ("b.PNG", "c.webp", "a/c.jpg")]
    assert image_files([str(photos)]) == below
    assert image_files([str(photos / "notes.txt"), str(photos)]) == [str(photos / "notes.txt"), *below]
    lines = [os.fsencode(below[2]) + b"\r\n", b"\n", os.fsencode(photos), b"-"]
    assert list(image_files(["x.png", "-", "y.png"], lines)) == ["x.png", below[2], *below, "-", "y.png"]
    assert next(image_files(["-"], itertools.repeat(b"one.png\n"))) == "one.png"


def test_a_folder_is_printed_line_by_line(model, photos, expected, capsys):
    assert cli.main(["predict", str(model), str(photos), "--top", "2"]) == 0
    for line, row in zip(capsys.readouterr().out.splitlines(), expected, strict=True):
        best = ", ".join(f"{entry['label']} {entry['score']:.1%}" for entry in row["predictions"][:2])
        assert line == f"{row['image']}: {best}"


def test_names_come_from_the_standard_input(model, photos, expected, capsys, monkeypatch):
    fed(monkeypatch, io.BytesIO(f"{photos / 'a'}\n{photos / 'b.PNG'}\n".encode()))
    assert cli.main(["predict", str(model), "-", "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["image"] for row in rows] == [expected[2]["image"], expected[0]["image"]]
    assert agrees([entry["score"] for entry in rows[0]["predictions"]], expected[2])


def read_csv(path):
    with path.open(newline="", encoding="utf-8") as file:
        return [{name: value or None for name, value in row.items()} for row in csv.DictReader(file)]


def read_parquet(path):
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow (extra `parquet`) is not installed")
    return parquet.read_table(path).to_pylist()


@pytest.mark.parametrize(("name", "read"), [("all.csv", read_csv), ("all.parquet", read_parquet)])
def test_a_table_has_a_row_for_each_file(name, read, model, photos, expected, tmp_path, capsys):
    (tmp_path / name).write_text("an older one")
    arguments = [str(photos), str(photos / "notes.txt"), "--top", "99", "--output", str(tmp_path / name)]
    assert cli.main(["predict", str(model), *arguments]) == 1
    assert capsys.readouterr().out == f"wrote {tmp_path / name}: 4 images, 1 with an error\n"
    *rows, bad = read(tmp_path / name)
    assert list(bad) == ["image", *(f"{of}_{i}" for i in range(1, 8) for of in ("label", "score")), "error"]
    for row, other in zip(rows, expected, strict=True):
        assert row["image"] == other["image"] and row["error"] is None
        assert [row[f"label_{i}"] for i in range(1, 8)] == [entry["label"] for entry in other["predictions"]]
        assert agrees([float(row[f"score_{i}"]) for i in range(1, 8)], other)
    assert bad["label_1"] is bad["score_1"] is None and "expected an image file" in bad["error"]
    assert os.listdir(tmp_path) == [name]


@pytest.mark.parametrize("name", ["all.json", "all.jsonl"])
def test_json_is_one_array_or_one_object_a_line(name, model, photos, expected, tmp_path):
    arguments = [str(photos), str(photos / "absent.png"), "--output", str(tmp_path / name)]
    assert cli.main(["predict", str(model), *arguments]) == 1
    text = (tmp_path / name).read_text(encoding="utf-8")
    *rows, bad = json.loads(text) if name.endswith(".json") else [json.loads(line) for line in text.splitlines()]
    for row, other in zip(rows, expected, strict=True):
        assert row["image"] == other["image"] and row["error"] is None
        assert agrees([entry["score"] for entry in row["predictions"]], other)
    assert (bad["predictions"], bad["error"].startswith("image expected a file, found none at ")) == ([], True)


@pytest.mark.parametrize(
    ("name", "read"), [("all.csv", read_csv), ("all.json", lambda path: json.loads(path.read_text()))]
)
def test_an_interrupt_leaves_a_partial_file_and_the_older_file(
    name, read, model, photos, tmp_path, capsys, monkeypatch
):
    def names():
        for _ in range(40):
            yield os.fsencode(photos / "b.PNG")
        raise KeyboardInterrupt

    fed(monkeypatch, names())
    (tmp_path / name).write_text("an older one")
    assert cli.main(["predict", str(model), "-", "--output", str(tmp_path / name)]) == 130
    partial = tmp_path / f"{name}.partial"
    said = f"keras-vit predict: interrupted after 32 images; their results are in {partial}\n"
    assert capsys.readouterr().err.endswith(said)
    assert (tmp_path / name).read_text() == "an older one"
    assert len(read(partial)) == 32


@pytest.mark.filterwarnings("always:left out of:UserWarning")
def test_every_image_of_a_folder_has_a_row_and_other_files_are_counted(model, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "pillow_heif", None)  # as if it were not installed
    rng, readable = np.random.default_rng(0), {"a.jfif": "JPEG", "IMG_1": "JPEG", "b.tif": "TIFF", "c.avif": "AVIF"}
    for name, kind in readable.items():
        Image.fromarray(rng.integers(0, 256, (8, 8, 3), "uint8")).save(tmp_path / name, kind)
    heic = b"\0\0\0\x18ftypheic\0\0\0\0mif1heic"
    broken = {
        "d.heic": heic,
        "e.jpg": b"",
        "f.PNG": b"no image",
        "g.NEF": b"MM\0*",
        "IMG_2": b"\xff\xd8\xff\xe0",
        "h.png": heic,
    }
    for name, data in broken.items():
        (tmp_path / name).write_bytes(data)
    (tmp_path / "gone.jpg").symlink_to(tmp_path / "nowhere")
    for name in ("notes.txt", "more.txt"):
        (tmp_path / name).write_text("no image")
    assert cli.main(["predict", str(model), str(tmp_path), "--json"]) == 1
    said = capsys.readouterr()
    assert re.search(r"^keras-vit: left out of .*: 2 not images \(more.txt, ...\)\.$", said.err, re.MULTILINE)
    rows = {os.path.basename(row["image"]): row for row in map(json.loads, said.out.splitlines())}
    assert rows.keys() == {*readable, *broken, "gone.jpg"}
    assert {name for name, row in rows.items() if row["error"] is None} == set(readable)
    for name in ("d.heic", "h.png"):
        assert "received HEIC: pip install 'keras-vit-zoo[heic]'" in rows[name]["error"]
    assert "received a camera's raw file" in rows["g.NEF"]["error"]


def test_a_name_that_is_not_utf8_is_printed_with_escapes(model, tmp_path, capsys):
    Image.new("RGB", (8, 8)).save(tmp_path / "x.png")
    try:
        os.rename(tmp_path / "x.png", os.fsencode(tmp_path) + b"/\xff.png")
    except OSError:
        pytest.skip("the file system takes only names that are text")
    assert cli.main(["predict", str(model), str(tmp_path)]) == 0
    assert f"{tmp_path}/\\xff.png: " in capsys.readouterr().out
    with open(os.fsencode(tmp_path) + b"/\xff.png", "w") as file:
        file.write("no image")
    assert cli.main(["predict", str(model), str(tmp_path), "--output", str(tmp_path / "rows.jsonl")]) == 1
    assert "\\xff.png expected an image file" in json.loads((tmp_path / "rows.jsonl").read_text())["error"]


def test_the_error_names_a_folder_without_read_permission(model, photos, monkeypatch, capsys):
    scan = os.scandir

    def refusing(path):
        if str(path).endswith("a"):
            raise PermissionError(13, "Permission denied", str(path))
        return scan(path)

    monkeypatch.setattr(os, "scandir", refusing)
    assert cli.main(["predict", str(model), str(photos)]) == 2
    sentence = f"images expected folders that can be read, received {str(photos / 'a')!r}: Permission denied."
    assert capsys.readouterr().err == f"keras-vit predict: {sentence}\n"


@pytest.mark.broad
def test_the_reader_of_a_pipe_can_close_it_early(model, photos):
    command = [sys.executable, "-m", "keras_vit.cli", "predict", str(model), *[str(photos / "b.PNG")] * 3]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        process.stdout.close()  # as `| head` does, only earlier
        error = process.stderr.read()
    assert "Traceback" not in error and "Broken pipe" not in error and "BrokenPipe" not in error
    assert process.returncode == 1


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--output", "{tmp}/all.txt"], "output expected a file ending in .csv, .json, .jsonl, .parquet, received"),
        (["--output", "{tmp}/absent/all.csv"], "output expected a file in a folder that exists, received"),
    ],
)
def test_a_wrong_output_is_an_error_before_the_model_is_loaded(arguments, sentence, photos, tmp_path, capsys):
    arguments = [argument.format(tmp=tmp_path) for argument in arguments]
    assert cli.main(["predict", str(tmp_path / "absent.keras"), str(photos), *arguments]) == 2
    assert capsys.readouterr().err.startswith(f"keras-vit predict: {sentence}")
    assert not os.listdir(tmp_path)


def test_labels_with_quotes_and_commas_are_escaped_in_csv(tmp_path):
    from keras_vit.predict.results import ResultsFile

    row = {"image": 'a, "b"\n.png', "predictions": [{"label": 'größe, "x"', "score": 0.5}], "error": None}
    with ResultsFile(tmp_path / "all.csv", 1) as results:
        results.write(row)
    (found,) = read_csv(tmp_path / "all.csv")
    assert (found["image"], found["label_1"]) == ('a, "b"\n.png', 'größe, "x"')


@pytest.mark.parametrize("formats", [("saved_model.pb", "model.tflite"), ("model.tflite",)])
def test_the_next_command_serves_an_export_that_the_server_takes(formats, tmp_path):
    folder = tmp_path / "digits" / "1"
    folder.mkdir(parents=True)
    for name in ("manifest.json", *formats):
        (folder / name).write_bytes(b"")
    expected = ("serve", str(tmp_path / "digits")) if len(formats) == 2 else ()
    for source in (folder.parent, folder, folder / "model.tflite"):
        assert _next_command(str(source)) == expected
    assert _next_command(str(tmp_path / "run"))[:2] == ("export", str(tmp_path / "run"))


@pytest.mark.broad
def test_labels_name_the_classes_of_a_file_without_names(photos, tmp_path, capsys):
    keras_vit.ViT_Ti16(input_shape=(16, 16, 3), classes=1000).save(tmp_path / "plain.keras")
    arguments = ["predict", str(tmp_path / "plain.keras"), str(photos / "b.PNG"), "--top", "1"]
    assert cli.main(arguments) == 0
    said = capsys.readouterr()
    assert "no class names" in said.err and "--labels imagenet" in said.err and re.search(r": \d+ ", said.out)
    assert cli.main([*arguments, "--labels", "imagenet", "--json"]) == 0
    said = capsys.readouterr()
    (best,) = json.loads(said.out)["predictions"]
    assert best["label"] in [name for _, name in imagenet_classes()] and "no class names" not in said.err
    (tmp_path / "names.txt").write_text("one\ntwo\n")
    for labels, sentence in (
        (str(tmp_path / "names.txt"), "labels expected the 1,000 names of the model's classes, received 2."),
        ("absent.txt", "--labels expected imagenet, or a file with a name per line, received 'absent.txt'."),
    ):
        assert cli.main([*arguments, "--labels", labels]) == 2
        assert capsys.readouterr().err == f"keras-vit predict: {sentence}\n"
