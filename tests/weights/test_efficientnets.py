"""EfficientNet from Keras's own models and timm's files, and back to timm: the same answers."""

import json

import keras
import numpy as np
import pytest
from parity import nchw, quietly, timm
from support import max_difference

import keras_vit
from keras_vit.models.features import feature_model
from keras_vit.models.variants import EFFICIENTNETS
from keras_vit.weights.efficientnets import SIZES, TIMM_NAMES

SIZE = 70  # pixels; SAME padding is uneven on some stages
IMAGES = np.random.default_rng(0).uniform(0, 255, (2, SIZE, SIZE, 3)).astype("float32")
IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))


def close(received, expected):
    """Whether answers differ by at most 2e-5 of their scale."""
    expected = np.asarray(expected)
    return expected.std() > 0 and max_difference(np.asarray(received), expected) < 2e-5 * np.abs(expected).max()


def randomised(variables, rng=None):
    """Fill variables with random values that keep the activations of a deep network in range."""
    rng = rng or np.random.default_rng(1)
    for variable in variables:
        shape, name = tuple(variable.shape), variable.path.split("/")[-1]
        fan = max(int(np.prod(shape[:-1])), 1)
        values = rng.normal(0, (2 / fan) ** 0.5 if name == "kernel" else 0.3, shape)
        if name in ("moving_variance", "variance", "gamma"):
            values = rng.uniform(0.5, 2.0, shape)
        if "seed" not in name and name != "count":
            variable.assign(values.astype("float32"))


@pytest.fixture(scope="module")
def application():
    """Keras's own B0 with random weights, of its layers and normalisation."""
    model = keras.applications.EfficientNetB0(
        weights=None, input_shape=(SIZE, SIZE, 3), classes=5, classifier_activation=None
    )
    randomised(model.variables)
    layer = next(layer for layer in model.layers if isinstance(layer, keras.layers.Normalization))
    for name, values in zip(("mean", "variance"), IMAGENET, strict=True):  # as the published files have them
        variable = next(variable for variable in layer.variables if variable.name == name)
        variable.assign(np.array(values) ** (2 if name == "variance" else 1))
    layer.finalize_state()
    return model


def test_the_table_of_sizes_is_that_of_the_rows():
    assert {row.timm_name: (row.widths[-1], row.units) for row in EFFICIENTNETS} == {
        TIMM_NAMES[size]: known for size, known in SIZES.items()
    }


@pytest.mark.broad
def test_a_whole_model_of_keras_answers_the_same(application, tmp_path):
    application.save(tmp_path / "theirs.keras")
    model = keras_vit.from_pretrained(
        tmp_path / "theirs.keras", include_preprocessing=True, input_shape=(SIZE, SIZE, 3)
    )
    assert model.name == "EfficientNet_B0"
    assert close(model(IMAGES), application(IMAGES))
    features = keras.Model(application.input, application.get_layer("top_activation").output)
    assert close(feature_model(model, ["swish"])(IMAGES), features(IMAGES))
    spec = model.preprocessing
    assert np.allclose(spec.mean, IMAGENET[0], atol=1e-6) and np.allclose(spec.std, IMAGENET[1], atol=1e-6)


@pytest.mark.broad
@pytest.mark.parametrize("name", ["theirs.weights.h5", "theirs.h5"])
def test_a_file_of_keras_weights_answers_the_same(application, tmp_path, name):
    if name == "theirs.h5":
        application = _as_published(application, tmp_path / name)
    else:
        application.save_weights(tmp_path / name)
    model = keras_vit.EfficientNet_B0(
        input_shape=(SIZE, SIZE, 3), classes=5, classifier_activation=None, include_preprocessing=True
    )
    keras_vit.load_weights(model, tmp_path / name)
    assert close(model(IMAGES), application(IMAGES))
    assert np.allclose(model.preprocessing.std, IMAGENET[1], atol=1e-6)


def _as_published(application, path):
    """Write weights as Keras publishes them: by layers' names, with deviations stored as variances; the model."""
    import h5py

    with h5py.File(path, "w") as file:
        layers = [layer for layer in application.layers if layer.variables]
        file.attrs["layer_names"] = [layer.name.encode() for layer in layers]
        file.attrs["keras_version"], file.attrs["backend"] = b"2.4.0", b"tensorflow"
        for layer in layers:
            group = file.create_group(layer.name)
            variables = [v for v in layer.variables if "seed" not in v.name]
            group.attrs["weight_names"] = [f"{layer.name}/{variable.name}:0".encode() for variable in variables]
            for variable in variables:
                values = np.asarray(variable)
                group[f"{layer.name}/{variable.name}:0"] = values**0.5 if variable.name == "variance" else values
    return application


@pytest.mark.broad
def test_a_file_of_keras_weights_needs_the_same_size(application, tmp_path):
    application.save_weights(tmp_path / "theirs.weights.h5")
    row = keras_vit.EfficientNetVariant("tiny", 0.25, 0.1)
    model = keras_vit.build(row, input_shape=(32, 32, 3), classes=5)
    with pytest.raises(ValueError, match="an EfficientNet among B0 to B7, for .*, received another one"):
        keras_vit.load_weights(model, tmp_path / "theirs.weights.h5")


def _timm_folder(folder, name="tf_efficientnet_b0"):
    timm()  # or a skip
    import torch
    from safetensors.torch import save_file

    torch.manual_seed(0)
    model = quietly(lambda: timm().create_model(name, num_classes=5).eval())
    for key, tensor in model.state_dict().items():
        if tensor.is_floating_point() and tensor.ndim == 1:
            tensor.uniform_(0.5, 1.5) if key.endswith(("weight", "var")) else tensor.normal_(std=0.3)
    model.classifier.weight.data.normal_(std=0.1)
    folder.mkdir()
    save_file(model.state_dict(), folder / "model.safetensors")
    config = {"architecture": name, "num_classes": 5, "pretrained_cfg": {"mean": IMAGENET[0], "std": IMAGENET[1]}}
    (folder / "config.json").write_text(json.dumps(config))
    return model


def test_a_file_of_timm_answers_the_same(tmp_path):
    theirs = _timm_folder(tmp_path / "theirs")
    model = keras_vit.from_pretrained(tmp_path / "theirs", input_shape=(SIZE, SIZE, 3))
    images = IMAGES / 127.5 - 1
    assert close(model(images), quietly(lambda: theirs(nchw(images)).numpy()))
    maps = quietly(lambda: theirs.forward_features(nchw(images)).numpy()).transpose(0, 2, 3, 1)
    assert close(feature_model(model, ["swish"])(images), maps)
    assert model.preprocessing.mean == IMAGENET[0] and model.preprocessing.std == IMAGENET[1]


@pytest.mark.broad
def test_timm_runs_what_we_write(tmp_path):
    timm()
    model = keras_vit.EfficientNet_B0(input_shape=(SIZE, SIZE, 3), classes=5, classifier_activation=None)
    randomised(model.variables)
    keras_vit.save_weights(model, tmp_path / "ours", layout="timm")
    from safetensors.torch import load_file

    config = json.loads((tmp_path / "ours" / "config.json").read_text())
    theirs = quietly(lambda: timm().create_model(config["architecture"], num_classes=config["num_classes"]).eval())
    arrays = load_file(tmp_path / "ours" / "model.safetensors")
    result = quietly(lambda: theirs.load_state_dict(arrays, strict=False))
    assert not result.unexpected_keys and all(key.endswith("num_batches_tracked") for key in result.missing_keys)
    images = IMAGES / 127.5 - 1
    assert close(model(images), quietly(lambda: theirs(nchw(images)).numpy()))


@pytest.mark.broad
def test_files_of_other_efficientnets_are_refused(tmp_path):
    _timm_folder(tmp_path / "theirs")
    config = json.loads((tmp_path / "theirs" / "config.json").read_text())
    (tmp_path / "theirs" / "config.json").write_text(json.dumps({**config, "architecture": "efficientnet_b0"}))
    with pytest.raises(
        ValueError, match="'architecture' to be one of tf_efficientnet_b0, .* received 'efficientnet_b0'"
    ):
        keras_vit.from_pretrained(tmp_path / "theirs")


@pytest.mark.broad
def test_a_file_without_config_says_what_is_assumed(tmp_path, capsys):
    _timm_folder(tmp_path / "theirs")
    (tmp_path / "theirs" / "config.json").unlink()
    keras_vit.from_pretrained(tmp_path / "theirs")
    assert "assumed, because no config names the architecture: padding of TensorFlow" in capsys.readouterr().err


def test_layouts_without_efficientnets_refuse_them(tmp_path):
    model = keras_vit.build(keras_vit.EfficientNetVariant("tiny", 0.25, 0.1), input_shape=(32, 32, 3), classes=2)
    with pytest.raises(
        ValueError, match=r"layout 'timm' expected an EfficientNet among B0, .*, received units \(1, 1,"
    ):
        keras_vit.save_weights(model, tmp_path / "ours", layout="timm")
    with pytest.raises(ValueError, match="layout 'npz' has no place for root/kernel"):
        keras_vit.save_weights(model, tmp_path / "ours.npz")


@pytest.mark.broad
def test_rebuilding_a_keras_file_keeps_rates_and_weights(tmp_path):
    row = keras_vit.EfficientNetVariant("tiny", 0.25, 0.1)
    model = keras_vit.build(row, input_shape=(32, 32, 3), classes=2, dropout_rate=0.1, drop_path_rate=0.2)
    randomised(model.variables)
    model.save(tmp_path / "ours.keras")
    other = keras_vit.from_pretrained(tmp_path / "ours.keras", input_shape=(32, 32, 3), classifier_activation="softmax")
    assert other.get_layer("dropout").rate == 0.1
    rates = [layer.drop_path_rate for layer in other.layers if "_unit" in layer.name]
    assert np.allclose(rates, [0.2 * i / 7 for i in range(7)])
    images = IMAGES[:, :32, :32] / 127.5 - 1
    assert max_difference(other(images), model(images)) == 0.0
