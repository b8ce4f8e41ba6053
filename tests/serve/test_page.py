"""The page at `/`: whole by itself, and what its script shows of a dropped file, run by Node without a browser."""

import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from serving import encoded, picture, started
from support import needs_tensorflow

pytestmark = needs_tensorflow


class Rollout(tf.Module):
    """A model of 16 x 16 RGB images with a map of 2 x 4 that rises from 0 to 1."""

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
    """What the page shows after a file was dropped on it."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("Node, which runs the page's script, is not installed")
    (folder / "image").write_bytes(data)
    script = Path(__file__).with_name("page.mjs")
    command = [node, str(script), f"http://127.0.0.1:{server.port}/", str(folder / "image")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


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
    assert np.allclose(overlay["alpha"], 200 * (1 - np.arange(8) / 7), atol=0.51)


def test_a_file_that_is_no_image_gets_its_sentence(server, tmp_path):
    found = shown(server["photos"], b"no image", tmp_path)
    assert "expected an image" in found["message"]
    assert found["rows"] == []
