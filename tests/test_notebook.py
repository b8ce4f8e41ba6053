"""What a notebook shows, in a real kernel: `show`, a model's table, progress in place and the live plot."""

import base64
import io
import re

import numpy as np
import pytest
from matplotlib.image import imread
from PIL import Image
from support import ROOT, needs_tensorflow, randomise

import keras_vit
from keras_vit.models.features import feature_model
from keras_vit.train.log import notebook

TINY = keras_vit.Variant("Tiny", width=8, depth=2, mlp_dim=12, num_heads=2, patch_size=4)


def tiny(**options):
    return randomise(keras_vit.build(TINY, **{"input_shape": (8, 12, 3), "classes": 3, **options}))


def texts_below(picture):
    return [axes.get_xlabel() for axes in picture.figure.axes if axes.images]


def test_show_draws_each_image_with_its_answer(tmp_path):
    images = np.random.default_rng(0).integers(0, 256, (3, 8, 12, 3), dtype="uint8")
    picture = keras_vit.show(images, ["ant", "bee", "black-footed ferret, polecat, Mustela nigripes"], columns=2)
    assert texts_below(picture) == ["ant", "bee", "black-footed…ela nigripes"]
    for axes, image in zip(picture.figure.axes, images, strict=False):
        np.testing.assert_allclose(axes.images[0].get_array(), image / 255, atol=1e-6)
    png, size = picture._repr_png_()
    assert imread(io.BytesIO(png)).shape[0] > size["height"] > 200  # more pixels than the screen's
    picture.save(tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes() == png


def test_show_takes_files_of_different_sizes_and_answers_of_the_package(tmp_path):
    files = [tmp_path / "a.png", str(tmp_path / "b.png")]
    for file, size in zip(files, [(20, 10), (900, 1200)], strict=True):
        Image.new("RGB", size, (255, 0, 0)).save(file)
    assert texts_below(keras_vit.show(files)) == ["a.png", "b.png"]
    assert max(keras_vit.show(files).figure.axes[1].images[0].get_array().shape) == 512
    rows = keras_vit.decode_predictions(np.array([[0.25, 0.75]] * 2), top=2, labels=["ant", "bee"])
    assert texts_below(keras_vit.show(files, rows)) == ["bee, 75%\nant, 25%"] * 2
    results = [{"image": "a.png", "predictions": [{"label": "ox", "score": 0.5}], "error": None},
               {"image": "b.png", "predictions": [], "error": "broken"}]  # fmt: skip
    assert texts_below(keras_vit.show(files, results)) == ["ox, 50%", "error: broken"]
    assert len(texts_below(keras_vit.show(np.zeros((8, 8, 1))))) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((np.zeros((2, 8, 8, 1)), ["a"]), "answers expected 2 answers, one per image, received"),
        ((np.zeros((2, 8, 8, 1)), "ab"), "answers expected 2 answers, one per image, received 'ab'"),
        (([],), "images expected one image or more, received none"),
        ((np.zeros((8, 8)),), "images expected shape"),
    ],
)
def test_show_refuses_wrong_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        keras_vit.show(*arguments)
    with pytest.raises(ValueError, match="columns expected a positive int, received 0"):
        keras_vit.show(np.zeros((1, 8, 8, 1)), columns=0)


def rows_of(model):
    return dict(re.findall(r"<tr><th[^>]*>(.*?)</th><td[^>]*>(.*?)</td></tr>", model._repr_html_()))


def test_a_model_shows_its_family_sizes_preprocessing_and_weights(tmp_path):
    model = tiny()
    rows = rows_of(model)
    assert rows["family"] == "Vision Transformer: 2 blocks, width 8, 2 heads, patches of 4 × 4"
    assert (rows["input"], rows["output"]) == ("8 × 12 × 3", "3")
    assert rows["parameters"] == f"{model.count_params():,}"
    assert rows["preprocessing"] == str(model.preprocessing) and rows["weights"] == "initial values, or set in Python"
    model.save(tmp_path / "model.keras")
    keras_vit.save_weights(model, tmp_path / "a<b.safetensors", layout="timm")
    assert rows_of(keras_vit.load_model(tmp_path))["weights"] == f"loaded from {tmp_path}/model.keras"
    assert rows_of(keras_vit.from_pretrained(tmp_path / "model.keras"))["weights"].endswith("model.keras")
    loaded = keras_vit.from_pretrained(tmp_path / "a<b.safetensors", num_heads=2, source_grid=(2, 3))
    assert rows_of(loaded)["weights"] == f"loaded from {tmp_path}/a&lt;b.safetensors"
    model.get_layer("head").trainable = False
    assert rows_of(model)["parameters"].endswith(f"; {model.count_params() - 27:,} are trained")


@needs_tensorflow
def test_a_model_that_was_trained_says_so(tmp_path):
    model = tiny()
    model.compile("sgd", "sparse_categorical_crossentropy")
    model.fit(np.zeros((4, 8, 12, 3)), np.zeros(4), batch_size=2, verbose=0)
    assert rows_of(model)["weights"].endswith(", then trained for 2 updates")


def test_models_of_other_kinds_show_what_they_have():
    resnet = keras_vit.build(keras_vit.BiTVariant("tiny", units=(1, 1), width_factor=0.5), input_shape=(None, None, 1))
    rows = rows_of(resnet)
    assert rows["family"] == "ResNet (BiT): 1 + 1 units, width factor 0.5" and rows["input"] == "any × any × 1"
    stem = keras_vit.ResNetStem((1,), 0.5)
    hybrid = keras_vit.Variant("h", width=8, depth=1, mlp_dim=8, num_heads=2, patch_size=2, stem=stem)
    assert rows_of(keras_vit.build(hybrid, input_shape=(16, 16, 3)))["family"].startswith(
        "hybrid: ResNet of 1 units, width factor 0.5, then Vision Transformer: 1 blocks"
    )
    assert "family" in rows_of(keras_vit.models.features.head_features(tiny()))
    assert not hasattr(feature_model(tiny(), ["encoder_norm"]), "_repr_html_")  # a plain Keras model


def test_a_live_plot_needs_a_notebook(tmp_path):
    with pytest.raises(ValueError, match="live_plot expected a notebook, received a process without one"):
        notebook.LivePlot(tmp_path / "metrics.jsonl")


RECIPE = """
from keras_vit.train.recipe import Data, Evaluate, Model, Recipe, Variant

row = Variant("tiny", width=8, depth=1, mlp_dim=8, num_heads=2, patch_size=4, image_size=8)
data = Data("digits", train_split="train[:5%]", test_split="test[:20%]", batch_size=16)
recipe = Recipe("tiny", Model(row, channels=1), data, epochs=2, evaluate=Evaluate(every=1))
"""


@pytest.mark.broad
@needs_tensorflow
def test_a_real_notebook(tmp_path):
    """One kernel runs all cells, because starting one imports TensorFlow."""
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    pytest.importorskip("sklearn")
    (tmp_path / "tiny.py").write_text(RECIPE)
    cells = [
        f"import sys; sys.path.insert(0, {str(ROOT)!r})\nimport numpy as np, keras_vit",
        "model = keras_vit.ViT_Ti16(input_shape=(32, 32, 3), classes=2)\nmodel",
        "keras_vit.show(np.zeros((2, 8, 8, 3)), ['ant', 'bee'])",
        f"%run -m keras_vit.cli train {tmp_path}/tiny.py --workdir {tmp_path}/run --live-plot",
    ]
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    nbclient.NotebookClient(book, timeout=600, kernel_name="python3").execute()
    _, model, shown, training = (cell.outputs for cell in book.cells)
    assert "Vision Transformer: 12 blocks" in model[0].data["text/html"]
    assert imread(io.BytesIO(base64.b64decode(shown[0].data["image/png"])))[..., :3].std() > 0.05
    displayed = [output.data for output in training if output.output_type == "display_data"]
    (line,) = [data["text/plain"] for data in displayed if "image/png" not in data]  # updated in place
    assert re.match(r"epoch 2/2 \|.*\| \d+/\d+ steps, .* images/s, loss", line)
    (plot,) = [data["image/png"] for data in displayed if "image/png" in data]
    assert imread(io.BytesIO(base64.b64decode(plot))).shape[1] > 1000
    said = "".join(output.text for output in training if output.output_type == "stream")
    assert "tiny: test accuracy" in said and "|" not in said  # the bar is in its own output
