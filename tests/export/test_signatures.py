"""The other outputs of a SavedModel: errors for broken files, features and attention."""

import io
from dataclasses import replace

import numpy as np
import pytest
import tensorflow as tf
from contract.cases import MODELS
from PIL import Image
from support import first_quick, max_difference, needs_tensorflow, quick_first, randomise

import keras_vit
from keras_vit import analysis
from keras_vit.export import tflite
from keras_vit.export.precision import in_dtype
from keras_vit.export.saved_model import load_signatures, write_saved_model
from keras_vit.models.model_interface import model_interface

pytestmark = needs_tensorflow
CASES = {case.name: case for case in MODELS}
ATTENTIVE = ("token", "gap", "map", "hybrid", "local", "gap_beside_a_class_token", "token_sequence", "free_size")


def made(name, **options):
    model = randomise(CASES[name].make(**options))
    shape = tuple(side or 12 for side in model.input_shape[1:])
    images = np.random.default_rng(0).uniform(-1, 1, (3, *shape)).astype("float32")
    return model, tf.constant(images)


@pytest.fixture(scope="module")
def files():
    image = Image.fromarray(np.random.default_rng(0).integers(0, 256, (9, 7, 3), "uint8"))
    kinds = {}
    for kind in ("JPEG", "PNG", "GIF", "WEBP"):
        buffer = io.BytesIO()
        image.save(buffer, kind)
        kinds[kind] = buffer.getvalue()
    return kinds


def animated(mode) -> bytes:
    """Return a WebP file of two frames. With 3 channels TensorFlow may write past its memory."""
    frames = [Image.fromarray(np.full((9, 7, 4), 60 * i, "uint8")).convert(mode) for i in (1, 2)]
    buffer = io.BytesIO()
    frames[0].save(buffer, "WEBP", save_all=True, append_images=frames[1:])
    return buffer.getvalue()


def test_a_broken_file_fails_for_itself_alone(files, tmp_path):
    model, _ = made("labelled")
    write_saved_model(model, tmp_path)
    classify = load_signatures(tmp_path)["classify_bytes"]
    whole = list(files.values())
    broken = [
        files["JPEG"][:60],
        files["PNG"][:40],
        b"",
        b"no image",
        b"\xff\xd8\xff",
        animated("RGB"),
        animated("RGBA"),
    ]
    mixed = [whole[0], *broken, *whole[1:]]
    answer = {name: value.numpy() for name, value in classify(image_bytes=tf.constant(mixed)).items()}
    good = [0, *range(len(broken) + 1, len(mixed))]
    bad = range(1, len(broken) + 1)
    assert all(answer["error"][i] == b"" for i in good) and all(answer["error"][i] for i in bad)
    assert answer["error"][1].decode() == (
        "image_bytes expected a whole image, received a damaged JPEG file of 60 bytes."
    )
    assert answer["error"][4].decode() == (
        "image_bytes expected a JPEG, PNG, GIF or WebP file, received 8 other bytes."
    )
    assert all(b"received a damaged WebP file" in answer["error"][i] for i in (6, 7))
    assert not answer["probabilities"][bad].any() and not any(answer["labels"][bad].ravel())
    for place, data in zip(good, whole, strict=True):
        alone = classify(image_bytes=tf.constant([data]))
        assert max_difference(answer["probabilities"][place], alone["probabilities"][0]) < 1e-6
        assert (answer["labels"][place] == alone["labels"][0].numpy()).all()


@pytest.mark.broad
def test_a_batch_without_one_whole_file_is_answered(tmp_path):
    model, _ = made("labelled")
    write_saved_model(model, tmp_path)
    classify = load_signatures(tmp_path)["classify_bytes"]
    for broken in ([], [b""], [b"no image"], [b"", b"no image", b"GIF8"]):
        answer = classify(image_bytes=tf.constant(broken, tf.string, (len(broken),)))
        assert answer["probabilities"].shape == (len(broken), 5) and not answer["probabilities"].numpy().any()
        assert all(said for said in answer["error"].numpy()) and len(answer["error"]) == len(broken)


@pytest.mark.parametrize("name", quick_first(ATTENTIVE, ("token",), broad=("hybrid", "free_size")))
def test_attention_is_the_analysis_rooms_rollout_and_features_are_the_models_own(name, tmp_path):
    model, images = made(name)
    write_saved_model(model, tmp_path)
    signatures = load_signatures(tmp_path)
    rollout = signatures["attention"](images=images)["rollout"]
    assert max_difference(rollout, analysis.rollout_maps(model, images.numpy())) < 1e-6
    features = signatures["features"](images=images)
    norm = "pooled_norm" if "beside" in name else "encoder_norm"
    stages = [stage for stage in (norm, "pooling") if stage in {layer.name for layer in model.layers}]
    inner = keras_vit.feature_model(model, stages)(images)
    found = dict(zip(stages, inner if len(stages) > 1 else [inner], strict=True))
    if norm == "encoder_norm":
        assert max_difference(features["tokens"], found["encoder_norm"]) < 1e-5
    if "pooling" in found:
        pooled = found["pooled_norm"] if norm == "pooled_norm" else found["pooling"]
        assert max_difference(features["pooled"], pooled) < 1e-5


def test_the_network_lies_in_one_function_that_all_signatures_share(tmp_path):
    model, _ = made("token")
    write_saved_model(model, tmp_path)
    products = [sum(node.op == "MatMul" for node in function.node_def) for function in _functions(tmp_path)]
    assert sum(count > 0 for count in products) == 1
    assert max(products) >= 4 * 2 + 1  # of two blocks and the head


@pytest.mark.broad
def test_a_model_without_attention_has_no_such_signature(tmp_path):
    model, images = made("bit")
    write_saved_model(model, tmp_path)
    signatures = load_signatures(tmp_path)
    assert signatures.keys() == {"serving_default", "classify_bytes", "features"}
    pooled = signatures["features"](images=images)["pooled"]
    assert max_difference(pooled, keras_vit.feature_model(model, ["pooling"])(images)) < 1e-5


@pytest.mark.broad
@pytest.mark.parametrize("name", ["token", "hybrid", "bit"])
def test_bfloat16_stores_half_and_leaves_the_model_alone(name, tmp_path):
    model, images = made(name)
    before = model.get_weights()
    write_saved_model(in_dtype(model, "bfloat16"), tmp_path)
    assert all((old == new).all() for old, new in zip(before, model.get_weights(), strict=True))
    stored = tf.train.load_checkpoint(str(tmp_path / "variables" / "variables")).get_variable_to_dtype_map()
    kinds = [kind for entry, kind in stored.items() if "VARIABLE_VALUE" in entry]
    assert kinds.count(tf.bfloat16) == len(kinds) - 2  # all but the classifier's kernel and bias
    answer = load_signatures(tmp_path)["serving_default"](images=images)
    assert 0 < max_difference(answer["probabilities"], model(images)) < 0.02
    operations = _operations(tmp_path)
    assert operations & {("MatMul", "bfloat16"), ("Conv2D", "bfloat16"), ("_FusedMatMul", "bfloat16")}


@pytest.mark.parametrize("name", first_quick(["bit", "hybrid"]))
def test_kernels_are_stored_standardised_and_the_model_keeps_its_own(name, tmp_path):
    """An export's kernels are constant; the model's can be trained further."""
    model, images = made(name)
    before, expected = model.get_weights(), model(images)
    write_saved_model(model, tmp_path)
    stored = tf.train.load_checkpoint(str(tmp_path / "variables" / "variables"))
    kernels = [stored.get_tensor(name) for name, shape in stored.get_variable_to_shape_map().items() if len(shape) == 4]
    convolutions = [layer for layer in model._flatten_layers() if isinstance(layer, keras_vit.layers.StdConv)]
    standardised = [kernel for kernel in kernels if np.abs(kernel.mean((0, 1, 2))).max() < 1e-6]
    assert len(standardised) == len(convolutions) > 4
    assert all(max_difference(kernel.var((0, 1, 2)), 1) < 1e-3 for kernel in standardised)
    assert max_difference(load_signatures(tmp_path)["serving_default"](images=images)["probabilities"], expected) < 1e-5

    assert all((old == new).all() for old, new in zip(before, model.get_weights(), strict=True))
    convolutions[0].kernel.assign(np.random.default_rng(1).normal(size=convolutions[0].kernel.shape))
    assert max_difference(model(images), expected) > 1e-3


def _functions(folder):
    """Return the functions of a SavedModel's graph."""
    from tensorflow.core.protobuf import saved_model_pb2

    saved = saved_model_pb2.SavedModel.FromString((folder / "saved_model.pb").read_bytes())
    return saved.meta_graphs[0].graph_def.library.function


def _operations(folder):
    """Return (type, dtype) of every operation in a SavedModel's functions."""
    nodes = [node for function in _functions(folder) for node in function.node_def]
    return {(node.op, tf.as_dtype(node.attr["T"].type).name) for node in nodes if node.attr["T"].type}


@pytest.mark.parametrize("batch", quick_first([None, 2], [None]))
@pytest.mark.parametrize("precision", first_quick(tflite.PRECISIONS, 2))
def test_a_tflite_file_says_what_it_is_and_takes_any_batch_on_request(precision, batch, tmp_path):
    import zipfile

    model, images = made("labelled")
    flatbuffer = tflite.convert(model, precision, batch=batch, calibration=images.numpy())
    said = tflite.read_metadata(flatbuffer)
    assert said["labels"] == ["a", "b", "c", "d", "e"] and said["precision"] == precision
    assert said["normalisation"] == {"of_pixels": [0, 255], "mean": 127.5, "std": 127.5}
    (tmp_path / "model.tflite").write_bytes(flatbuffer)
    with zipfile.ZipFile(tmp_path / "model.tflite") as archive:
        assert archive.read("labels.txt").decode().split() == ["a", "b", "c", "d", "e"]
    assert not any(name.startswith("CUSTOM") for name in tflite.operators(flatbuffer))
    run = tflite.runner(flatbuffer)
    for count in (1, 3):
        answer = run(images=images.numpy()[:count])
        assert answer.keys() == {"logits", "probabilities"}
        assert max_difference(answer["probabilities"], model(images[:count])) < (
            1e-5 if precision == "float32" else 0.02
        )


@pytest.mark.broad
def test_a_hybrid_of_free_size_reads_files_at_the_size_of_its_positions():
    """A cell of the grid is as many pixels as the stride of the stem."""
    case = CASES["hybrid"]
    fixed = case.make()
    free = keras_vit.build(replace(case.arguments["variant"], image_size=32), input_shape=(None, None, 3), classes=5)
    assert [layer.grid for layer in free.layers if layer.name == "position_embedding"] == [
        layer.grid for layer in fixed.layers if layer.name == "position_embedding"
    ]
    assert model_interface(free).image_size == model_interface(fixed).image_size == (32, 32)
