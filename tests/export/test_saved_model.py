"""The SavedModel equals the goldens, stores weights once, loads alone, and decodes images as `preprocessing` does."""

import io
import os
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf
from PIL import Image
from support import (
    TOLERANCE,
    first_quick,
    golden,
    golden_model,
    max_difference,
    needs_tensorflow,
    quick_first,
    randomise,
)

import keras_vit
from keras_vit.export.saved_model import load_signatures, write_saved_model
from keras_vit.models.model_interface import named_outputs
from keras_vit.preprocessing.inputs import load_image, preprocess_input

pytestmark = needs_tensorflow
TINY = keras_vit.Variant("tiny", width=16, depth=2, mlp_dim=24, num_heads=2, patch_size=4, image_size=8)
KINDS = {
    "gap": {"pooling": "gap"},
    "map": {"pooling": "map"},
    "representation": {"representation_size": 12},
    "rectangular": {"patch_size": (4, 2), "input_shape": (8, 10, 3)},
    "grey": {"input_shape": (8, 12, 1)},
    "free_size": {"input_shape": (None, None, 3)},
    "pixels": {"include_preprocessing": True},
    "sigmoid": {"classifier_activation": "sigmoid"},
    "logits": {"classifier_activation": None},
}


def tiny(**options) -> keras.Model:
    return randomise(keras_vit.build(TINY, **{"classes": 7, **options}))


def encoded(image: Image.Image, kind: str, **options) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def turned(image: Image.Image, kind: str, value: int) -> bytes:
    exif = Image.Exif()
    exif[0x0112] = value
    return encoded(image, kind, exif=exif)


@pytest.fixture(scope="module")
def photo() -> Image.Image:
    coarse = np.random.default_rng(0).integers(0, 256, (5, 6, 3), "uint8")
    return Image.fromarray(coarse).resize((37, 29), Image.Resampling.BICUBIC)


def clone(model):
    copy = keras.models.clone_model(model)
    copy.set_weights(model.get_weights())
    return copy


def saved_and_loaded(model, folder):
    model.save(folder / "model.keras")
    return keras.saving.load_model(folder / "model.keras")


@pytest.mark.parametrize("name", first_quick(["g1", "g2", "g3"]))
def test_goldens_hold_in_every_keras_copy_and_in_the_saved_model(name, tmp_path):
    expected, model = golden(name), golden_model(name)
    images = expected["images"]
    assert max_difference(clone(model)(images), expected["logits"]) < TOLERANCE
    assert max_difference(saved_and_loaded(model, tmp_path)(images), expected["logits"]) < TOLERANCE
    write_saved_model(model, tmp_path / "saved")
    logits = load_signatures(tmp_path / "saved")["serving_default"](images=tf.constant(images))["logits"]
    assert max_difference(logits, expected["logits"]) < TOLERANCE


@pytest.mark.broad
@pytest.mark.parametrize("name", ["g7_6x6", "g7_4x6"])
def test_a_free_image_size_holds_its_goldens(name, tmp_path):
    expected = golden(name)
    write_saved_model(golden_model("g1", input_shape=(None, None, 3)), tmp_path)
    logits = load_signatures(tmp_path)["serving_default"](images=tf.constant(expected["images"]))["logits"]
    assert max_difference(logits, expected["logits"]) < TOLERANCE


@pytest.mark.broad
@pytest.mark.parametrize("kind", quick_first(KINDS, ("free_size", "pixels"), broad=("map", "grey")))
def test_every_kind_answers_floats_and_bytes_alike(kind, photo, tmp_path):
    model = tiny(**KINDS[kind])
    write_saved_model(model, tmp_path)
    signatures = load_signatures(tmp_path)
    height, width, channels = (side or 8 for side in model.input_shape[1:])
    files = [encoded(photo, "PNG"), encoded(photo, "JPEG", quality=60)]
    pixels = np.stack([load_image(data, (height, width, channels)) for data in files])
    images = pixels if kind == "pixels" else preprocess_input(pixels)
    expected = {name: value.numpy() for name, value in named_outputs(model)(images).items()}

    floats = signatures["serving_default"](images=tf.constant(images))
    assert floats.keys() == {"logits", "probabilities"}
    assert all(max_difference(floats[name], expected[name]) < 1e-5 for name in expected)
    answer = signatures["classify_bytes"](image_bytes=tf.constant(files))
    assert max_difference(answer["probabilities"], expected["probabilities"]) < 1e-5
    best = np.argsort(-expected["probabilities"], axis=1)[:, :5]
    assert answer["labels"].numpy().astype(str).tolist() == best.astype(str).tolist()
    assert max_difference(answer["scores"], np.take_along_axis(expected["probabilities"], best, 1)) < 1e-5


@pytest.mark.broad
def test_probabilities_are_the_models_own_activation(tmp_path):
    for activation, function in (("sigmoid", tf.sigmoid), ("softmax", tf.nn.softmax), (None, tf.nn.softmax)):
        folder = tmp_path / str(activation)
        write_saved_model(tiny(classifier_activation=activation), folder)
        answer = load_signatures(folder)["serving_default"](images=tf.random.normal((2, 8, 8, 3)))
        assert max_difference(answer["probabilities"], function(answer["logits"])) < 1e-6


@pytest.mark.parametrize("channels", first_quick([3, 1]))
def test_bytes_are_read_exactly_as_preprocess_reads_them(channels, photo, tmp_path):
    """Return a model that outputs its input, which shows differences in decoding and resizing."""
    grey, alpha = photo.convert("L"), photo.convert("RGBA")
    alpha.putalpha(grey)
    files = {
        "jpeg": encoded(photo, "JPEG", quality=50),
        "jpeg 4:4:4": encoded(photo, "JPEG", quality=95, subsampling=0),
        "progressive": encoded(photo, "JPEG", progressive=True),
        "cmyk": encoded(photo.convert("CMYK"), "JPEG"),
        "grey jpeg": encoded(grey, "JPEG"),
        "png": encoded(photo, "PNG"),
        "grey png": encoded(grey, "PNG"),
        "grey png of 16 bits": encoded(Image.fromarray(np.asarray(grey, "uint16") * 256 + 200), "PNG"),
        "grey alpha": encoded(photo.convert("LA"), "PNG"),
        "alpha": encoded(alpha, "PNG"),
        "palette": encoded(photo.convert("P"), "PNG"),
        "gif": encoded(photo.convert("P"), "GIF"),
        "webp": encoded(photo, "WEBP"),
        "lossless webp": encoded(photo, "WEBP", lossless=True),
        "alpha webp": encoded(alpha, "WEBP"),
        "lossless alpha webp": encoded(alpha, "WEBP", lossless=True),
    }
    turns = [("JPEG", value) for value in range(1, 9)] + [("PNG", 6), ("WEBP", 8)]
    files |= {f"{kind} turned {value}": turned(photo, kind, value) for kind, value in turns}
    for size, tolerance in ((photo.size[::-1], 0.0), ((16, 12), 1e-3)):
        images = keras.Input((*size, channels))
        flat = keras.layers.Flatten()(images)
        scaled = keras.layers.Rescaling(1 / 256)(flat)  # which marks a model that takes 0..255
        pixels = keras.layers.Rescaling(256.0)(scaled)
        outputs = keras.layers.Activation("linear", name="head")(pixels)
        model = keras.Model(images, keras.layers.Activation("linear", name="predictions")(outputs))
        model.get_layer("head").units = flat.shape[1]
        write_saved_model(model, tmp_path / f"{size[0]}")
        classify = load_signatures(tmp_path / f"{size[0]}")["classify_bytes"]
        for name, data in files.items():
            seen = classify(image_bytes=tf.constant([data]))["probabilities"].numpy().reshape(*size, channels)
            within = max(tolerance, 1e-3) if "turned" in name else tolerance  # on its side it is of another size
            assert max_difference(seen, load_image(data, (*size, channels))) <= within, name
        several = [data for name, data in files.items() if "turned" in name]
        seen = classify(image_bytes=tf.constant(several))["probabilities"].numpy().reshape(-1, *size, channels)
        expected = np.stack([load_image(data, (*size, channels)) for data in several])
        assert max_difference(seen, expected) <= 1e-3
        assert len({image.round().tobytes() for image in expected}) >= 8


def test_labels_stand_in_the_graph(photo, tmp_path):
    labels = ("null", "eins", "zwölf")
    model = tiny(classes=3, labels=labels)
    write_saved_model(model, tmp_path)
    answer = load_signatures(tmp_path)["classify_bytes"](image_bytes=tf.constant([encoded(photo, "PNG")]))
    order = np.argsort(-answer["probabilities"].numpy()[0])
    assert [label.decode() for label in answer["labels"].numpy()[0]] == [labels[i] for i in order]


@pytest.mark.broad
def test_an_empty_batch_gets_an_empty_answer(tmp_path):
    write_saved_model(tiny(), tmp_path)
    signatures = load_signatures(tmp_path)
    assert signatures["serving_default"](images=tf.zeros((0, 8, 8, 3)))["logits"].shape == (0, 7)
    assert signatures["classify_bytes"](image_bytes=tf.zeros((0,), tf.string))["labels"].shape == (0, 5)


@pytest.mark.broad
def test_of_a_free_size_images_without_a_whole_patch_are_refused(tmp_path):
    write_saved_model(tiny(input_shape=(None, None, 3)), tmp_path)
    answer = load_signatures(tmp_path)
    for shape in ((1, 1, 1, 3), (1, 64, 0, 3), (2, 3, 64, 3)):
        for name in ("serving_default", "features", "attention"):
            with pytest.raises(tf.errors.InvalidArgumentError, match="images expected to hold at least one patch"):
                answer[name](images=tf.zeros(shape))
    assert answer["serving_default"](images=tf.zeros((2, 4, 5, 3)))["logits"].shape == (2, 7)


@pytest.mark.broad
def test_without_a_head_the_features_are_served(tmp_path):
    model = tiny(include_top=False)
    write_saved_model(model, tmp_path)
    signatures = load_signatures(tmp_path)
    images = tf.random.normal((2, 8, 8, 3))
    assert signatures.keys() == {"serving_default", "features", "attention"}
    assert max_difference(signatures["serving_default"](images=images)["features"], model(images)) < 1e-6


def test_every_weight_is_stored_once(tmp_path):
    model = tiny(dropout_rate=0.1, drop_path_rate=0.1)
    write_saved_model(model, tmp_path)
    size = sum(file.stat().st_size for file in (tmp_path / "variables").glob("variables.data*"))
    assert 4 * model.count_params() <= size <= 1.02 * 4 * model.count_params() + 20_000
    names = [name for name, _ in tf.train.list_variables(str(tmp_path / "variables" / "variables"))]
    assert sum("VARIABLE_VALUE" in name for name in names) == len(model.weights)


@pytest.mark.broad
def test_it_loads_where_neither_keras_vit_nor_keras_can_be_imported(photo, tmp_path):
    model = golden_model("g1", labels=tuple("abcdefghijk"))
    write_saved_model(model, tmp_path / "saved")
    np.save(tmp_path / "images.npy", golden("g1")["images"])
    code = f"""
import sys
sys.modules["keras_vit"] = sys.modules["keras"] = None
import numpy as np, tensorflow as tf
signatures = tf.saved_model.load({str(tmp_path / "saved")!r}).signatures
answer = signatures["serving_default"](images=tf.constant(np.load({str(tmp_path / "images.npy")!r})))
np.save({str(tmp_path / "logits.npy")!r}, answer["logits"].numpy())
print(signatures["classify_bytes"](image_bytes=tf.constant([{encoded(photo, "JPEG")!r}]))["labels"].numpy()[0][0])
"""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.strip() in {f"b'{label}'" for label in "abcdefghijk"}
    assert max_difference(np.load(tmp_path / "logits.npy"), golden("g1")["logits"]) < TOLERANCE


def test_a_model_without_one_image_input_is_refused(tmp_path):
    tokens = keras.Input((4, 8))
    with pytest.raises(ValueError, match=r"model expected one input \(batch, height, width, channels\), received"):
        write_saved_model(keras.Model(tokens, tokens * 2), tmp_path)
