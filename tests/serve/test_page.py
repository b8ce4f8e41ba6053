"""The page at `/` has no external files, and shows the result for a dropped file, in Chromium and in Node."""

import base64
import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from chromium import browser
from PIL import Image, ImageOps
from serving import encoded, picture, started
from support import ROOT, needs_tensorflow

from keras_vit.preprocessing.exif import orientation_of

PAGE = ROOT / "keras_vit" / "serve" / "page.html"
pytestmark = needs_tensorflow


class Rollout(tf.Module):
    """Write a model of 16 x 16 RGB images whose rollout is a map of 2 x 4 that rises from 0 to 1."""

    @tf.function(input_signature=[tf.TensorSpec((None,), tf.string, name="image_bytes")])
    def classify_bytes(self, image_bytes):
        rows = tf.ones_like(image_bytes, tf.float32)[:, None]
        return {"labels": tf.fill((tf.size(image_bytes), 2), "cat"), "scores": rows * [[0.75, 0.25]]}

    @tf.function(input_signature=[tf.TensorSpec((None, 16, 16, 3), tf.float32, name="images")])
    def attention(self, images):
        return {"rollout": tf.reshape(tf.range(8.0), (1, 2, 4)) + 0 * images[:, :2, :4, 0]}


@pytest.fixture(scope="module")
def server(exports, tmp_path_factory):
    folder = tmp_path_factory.mktemp("page") / "rollout"
    module = Rollout()
    signatures = {"classify_bytes": module.classify_bytes, "attention": module.attention}
    tf.saved_model.save(module, str(folder / "1"), signatures=signatures)
    manifest = {"input": {"shape": [16, 16, 3], "range": [-1, 1]}}
    (folder / "1" / "manifest.json").write_text(json.dumps(manifest))
    with started([exports / "photos"]) as photos, started([folder]) as rollout:
        yield {"photos": photos, "rollout": rollout}


def shown(server, data: bytes, folder: Path) -> dict:
    """Return what the page shows after a file is dropped on it."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("Node, which runs the page's script, is not installed")
    (folder / "image").write_bytes(data)
    script = Path(__file__).with_name("page.mjs")
    command = [node, str(script), f"http://127.0.0.1:{server.port}/", str(folder / "image")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.broad
def test_it_is_whole_by_itself(server):
    status, page = server["photos"].ask("GET", "/")
    assert status == 200
    page = page.decode()
    attributes = []

    class Links(HTMLParser):
        def handle_starttag(self, tag, found):
            attributes.extend(value for name, value in found if name in ("src", "href", "action", "data"))

    Links().feed(page)
    assert attributes == ["data:,"]
    assert not re.search(r"https?://|@import|url\(|\bimport\b", page)


def test_a_dropped_image_gets_its_five_best_classes(exports, server, tmp_path):
    data = encoded(picture(), "JPEG")
    own = tf.saved_model.load(str(exports / "photos" / "2")).signatures["classify_bytes"]
    answer = own(image_bytes=tf.constant([data]))
    found = shown(server["photos"], data, tmp_path)
    assert found["models"] == ["photos"]
    assert found["message"] == ""
    labels, scores = zip(*found["rows"], strict=True)
    assert list(labels) == [label.decode() for label in answer["labels"].numpy()[0]]
    assert len(labels) == 5
    assert np.allclose([float(score.removesuffix(" %")) for score in scores], 100 * answer["scores"][0], atol=0.051)
    assert found["pictures"][0] == "dropped"


def test_attention_is_laid_over_the_image_dark_where_there_is_none(server, tmp_path):
    found = shown(server["rollout"], encoded(picture(), "PNG"), tmp_path)
    assert found["message"] == ""
    assert found["rows"] == [["cat", "75.0 %"], ["cat", "25.0 %"]]
    assert found["pictures"] == ["dropped", "where the model looked (attention rollout)"]
    (overlay,) = found["overlays"]
    assert (overlay["width"], overlay["height"]) == (4, 2)
    assert np.allclose(overlay["alpha"], 160 * (1 - np.arange(8) / 7), atol=0.51)


def test_a_file_that_is_no_image_gets_its_sentence(server, tmp_path):
    found = shown(server["photos"], b"no image", tmp_path)
    assert "expected an image" in found["message"]
    assert found["rows"] == []


def test_the_page_reads_the_orientation_that_python_reads(tmp_path):
    """Files of three kinds, whole, with changed bytes and truncated."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("Node, which runs the page's script, is not installed")
    rng, files = np.random.default_rng(0), []
    for kind in ("JPEG", "PNG", "WEBP"):
        for value in range(1, 9):
            exif = Image.Exif()
            exif.endian = "<>"[value % 2]
            exif[0x010F], exif[0x0112] = "a maker", value
            files.append(encoded(picture(), kind, exif=exif))
    for i in range(300):
        data = bytearray(files[rng.integers(24)][:200])
        for place in rng.integers(2, len(data), rng.integers(1, 6)):
            data[place] = rng.integers(256)
        files.append(bytes(data[: rng.integers(1, len(data))] if i % 3 == 0 else data))
    script = re.search(r"function exifOf.*?\n}\n", PAGE.read_text(), re.DOTALL)[0]
    script += "const files = JSON.parse(require('fs').readFileSync(0)).map(text => Buffer.from(text, 'base64'));"
    script += "console.log(JSON.stringify(files.map(file => exifOf(new Uint8Array(file)).value)));"
    given = json.dumps([base64.b64encode(data).decode() for data in files])
    done = subprocess.run([node, "-e", script], input=given, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [orientation_of(data) for data in files]


# In a browser


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    with browser(tmp_path_factory.mktemp("profile")) as page:
        yield page


def corners(page, figure: int) -> np.ndarray:
    """Return the RGB values of the four corner pixels of a picture on the page."""
    code = f"""(() => {{
        const canvas = document.querySelectorAll("#pictures canvas")[{figure}];
        const {{width: w, height: h}} = canvas, context = canvas.getContext("2d");
        return [[0, 0], [w - 1, 0], [0, h - 1], [w - 1, h - 1]].map(at => [...context.getImageData(...at, 1, 1).data]);
    }})()"""
    return np.array(page.evaluate(code))[:, :3]


@pytest.mark.parametrize("width", [1000, 390])
def test_in_chromium_a_dropped_image_gets_five_classes_and_its_attention(exports, server, page, tmp_path, width):
    """At a desktop's and a telephone's width. The page requests nothing from other hosts, and no script fails."""
    data = encoded(picture(size=(16, 16)), "PNG")  # as large as the model's input, so that no resize comes between
    (tmp_path / "cat.png").write_bytes(data)
    own = tf.saved_model.load(str(exports / "photos" / "2")).signatures
    address = f"http://127.0.0.1:{server['photos'].port}/"
    page.open(address, width, 800)
    page.until("document.querySelector('#model').value === 'photos'")
    page.drop(tmp_path / "cat.png", "#drop")
    page.until("document.querySelectorAll('#pictures canvas').length === 2 && document.querySelector('#answers tr')")
    answer = own["classify_bytes"](image_bytes=tf.constant([data]))
    rows = page.evaluate("[...document.querySelectorAll('#answers tr')].map(row => row.innerText.trim().split('\\t'))")
    assert [row[0] for row in rows] == [label.decode() for label in answer["labels"].numpy()[0]]
    assert [row[1] for row in rows] == [f"{100 * score:.1f} %" for score in answer["scores"].numpy()[0]]
    pixels = tf.io.decode_png(data)[None]
    rollout = own["attention"](images=tf.cast(pixels, tf.float32) / 127.5 - 1)["rollout"].numpy()[0]  # (2, 2)
    seen = (rollout - rollout.min()) / (rollout.max() - rollout.min())
    plain, overlaid = corners(page, 0), corners(page, 1)
    assert np.allclose(plain, np.array([pixels[0, y, x] for y in (0, -1) for x in (0, -1)]), atol=1)
    assert np.allclose(overlaid, plain * (1 - 160 / 255 * (1 - seen.reshape(4, 1))), atol=3)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.evaluate("document.querySelector('#message').innerText") == ""
    asked = {event["request"]["url"] for event in page.of("Network.requestWillBeSent")}
    assert {url for url in asked if not url.startswith(("data:", "blob:", address))} == set()
    assert not page.of("Runtime.exceptionThrown")


@pytest.fixture(scope="module")
def corner_server(tmp_path_factory):
    """Write an export that applies EXIF orientations, and an older one that does not.

    Their four probabilities are how bright the corners of the picture are that the graph sees.
    """
    from keras_vit.export.image_bytes import read_images
    from keras_vit.models.model_interface import ModelInterface

    root, interface = (
        tmp_path_factory.mktemp("corners"),
        ModelInterface((16, 16, 3), (16, 16), (0.0, 255.0), 4, tuple("abcd")),
    )

    def module(turns):
        made = tf.Module()

        def corner_scores(image_bytes):
            if turns:
                images = read_images(image_bytes, interface)[0]
            else:
                decoded = lambda data: tf.image.resize(tf.io.decode_jpeg(data, channels=3), (16, 16))  # noqa: E731
                images = tf.map_fn(decoded, image_bytes, fn_output_signature=tf.float32)
            scores = tf.stack([images[:, y, x, 0] for y in (1, -2) for x in (1, -2)], axis=1) / 255
            return {"labels": tf.repeat(tf.constant([["a", "b", "c", "d"]]), tf.size(image_bytes), 0), "scores": scores}

        made.classify_bytes = tf.function(corner_scores, [tf.TensorSpec((None,), tf.string, name="image_bytes")])
        return made

    for name, turns in (("turning", True), ("older", False)):
        made = module(turns)
        tf.saved_model.save(made, str(root / name / "1"), signatures={"classify_bytes": made.classify_bytes})
        manifest = {"input": {"shape": [16, 16, 3], "range": [0, 255]} | ({"exif": True} if turns else {})}
        (root / name / "1" / "manifest.json").write_text(json.dumps(manifest))
    with started([root / "turning", root / "older"]) as server:
        yield server


@pytest.mark.broad
def test_in_chromium_the_picture_stands_as_the_scores_see_it(corner_server, page, tmp_path):
    """For all eight EXIF orientations, and for exports with and without EXIF support."""
    shades = np.array([[250, 170], [10, 90]], "uint8")
    stored = Image.fromarray(np.repeat(np.kron(shades, np.ones((16, 24), "uint8"))[..., None], 3, -1))
    page.open(f"http://127.0.0.1:{corner_server.port}/", 1000, 800)
    page.until("document.querySelectorAll('#model option').length === 2")
    for model in ("turning", "older"):
        page.evaluate(f"document.querySelector('#model').value = '{model}'")
        for value in range(1, 9):
            exif = Image.Exif()
            exif[0x0112] = value
            path = tmp_path / f"{model}{value}.jpg"
            path.write_bytes(encoded(stored, "JPEG", exif=exif, quality=95))
            page.drop(path, "#drop")
            drawn = f"document.querySelector('#pictures figcaption')?.textContent === '{path.name}'"
            page.until(f"{drawn} && document.querySelector('#message').textContent === ''")
            upright = ImageOps.exif_transpose(Image.open(path)) if model == "turning" else stored
            expected = np.asarray(upright)[[1, 1, -2, -2], [1, -2, 1, -2], 0].astype(int)
            size = page.evaluate("(c => [c.width, c.height])(document.querySelector('#pictures canvas'))")
            assert tuple(size) == upright.size
            assert np.allclose(corners(page, 0)[:, 0], expected, atol=4), (model, value)
            scores = page.evaluate(
                "[...document.querySelectorAll('#answers td.score')].map(td => parseFloat(td.innerText))"
            )
            assert np.allclose(np.array(scores) * 2.55, expected, atol=4), (model, value)


def test_in_chromium_a_file_that_is_no_image_gets_its_sentence(server, page, tmp_path):
    (tmp_path / "notes.png").write_bytes(b"no image")
    page.open(f"http://127.0.0.1:{server['photos'].port}/", 1000, 800, dark=True)
    page.until("document.querySelector('#model').value === 'photos'")
    page.drop(tmp_path / "notes.png", "#drop")
    page.until("document.querySelector('#message.error')")
    message = page.evaluate("document.querySelector('#message').innerText")
    assert message == "notes.png: expected an image file (JPEG, PNG, GIF or WebP), received 8 other bytes."
    assert page.evaluate("document.querySelectorAll('#pictures canvas, #answers tr').length") == 0
