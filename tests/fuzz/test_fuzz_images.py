"""Images of every kind, whole and damaged: one answer or one sentence, and the same pixels wherever they are read."""

import resource
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from fuzz.images import image_file
from support import needs_tensorflow

from keras_vit.export.image_bytes import read_images
from keras_vit.exported import ExportedModel
from keras_vit.models.model_interface import ModelInterface
from keras_vit.predict import predict
from keras_vit.preprocessing.decode import decode_image
from keras_vit.preprocessing.inputs import load_image
from keras_vit.preprocessing.kinds import kind_of
from keras_vit.serve.images import _fault
from keras_vit.serve.limits import Limits
from keras_vit.serve.measure import measure

pytestmark = needs_tensorflow
INTERFACE = ModelInterface((16, 16, 3), (16, 16), (0.0, 255.0), 3, ("red", "green", "blue"))
IN_GRAPHS = ("JPEG", "PNG", "GIF", "WebP")
GRAPH = tf.function(lambda data: read_images(data, INTERFACE), [tf.TensorSpec((None,), tf.string)], autograph=False)


def by_pillow(data):
    """(16 x 16 pixels, the sides of the image), or the sentence."""
    try:
        return load_image(data, (16, 16, 3)), decode_image(data).shape[:2]
    except ValueError as error:
        assert "\n" not in str(error) and len(str(error)) < 300
        return str(error), None


def by_graph(data):
    """(16 x 16 pixels, the sides of the image), or the sentence, as `keras-vit serve` has it."""
    found = measure(data)
    if sentence := _fault(found, len(data), Limits().max_pixels):
        return sentence, None
    images, errors = GRAPH(tf.constant([found.data]))
    if sentence := errors.numpy()[0].decode():
        return sentence, None
    return images.numpy()[0], (found.height, found.width)


@pytest.mark.filterwarnings("ignore")  # Pillow's, of odd metadata
@pytest.mark.parametrize("count", [80, pytest.param(2000, marks=pytest.mark.large)])
def test_images_have_the_same_pixels_everywhere_or_one_sentence(count, tmp_path):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    one_sided, answers, files = 0, 0, []
    for seed in range(count):
        data, whole = image_file(seed)
        (tmp_path / f"{seed:04}.jpg").write_bytes(data)
        files.append(tmp_path / f"{seed:04}.jpg")
        (pixels, sides), (graphs, graph_sides) = by_pillow(data), by_graph(data)
        refused, graph_refused = isinstance(pixels, str), isinstance(graphs, str)
        animated = "animation" in graphs if graph_refused else False
        assert not whole or not refused or "16 bits per channel" in pixels, f"seed {seed}: {pixels}"
        assert not whole or animated or graph_refused == (kind_of(data) not in IN_GRAPHS), f"seed {seed}: {graphs}"
        if refused != graph_refused and kind_of(data) in IN_GRAPHS and not animated:
            one_sided += 1  # one decoder gives a damaged file up, where the other one has all it needs
        if not refused and not graph_refused:
            answers += 1
            assert sorted(sides) == sorted(graph_sides), f"seed {seed}: measured {graph_sides}, decoded {sides}"
            # Of four colours TensorFlow and Pillow round each pixel on their own.
            most = 1.01 if kind_of(data) == "JPEG" and b"Adobe" in data else 0.02
            assert np.abs(pixels - graphs).max() < most, f"seed {seed}: other pixels in the graph"
    assert answers > count / 5 and one_sided <= max(2, count / 50)
    rows_are_right(predict(exported(tmp_path), files, top=1))
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 < 2e9


def exported(folder: Path) -> ExportedModel:
    """An export whose answer is each image's colours."""

    def answer(*, images):
        return {"probabilities": images.mean(axis=(1, 2)) / 255}

    return ExportedModel(folder, "tflite", "colours", INTERFACE, {"serving_default": answer})


def rows_are_right(rows):
    """Of every file an error of one line, or the answer to its own pixels."""
    for row in rows:
        assert bool(row["error"]) != bool(row["predictions"])
        pixels, _ = by_pillow(Path(row["image"]).read_bytes())
        if row["error"]:
            assert isinstance(pixels, str) and "\n" not in row["error"]
        else:
            colours = pixels.mean(axis=(0, 1)) / 255
            (best,) = row["predictions"]
            assert best["score"] == pytest.approx(colours.max(), abs=1e-5)
