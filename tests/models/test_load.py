"""A model from a workdir, a file or a name."""

import json
import shutil
import zipfile
from dataclasses import replace

import keras
import numpy as np
import pytest
from support import GOLDENS, golden, max_difference, randomise, run_python

import keras_vit
from keras_vit.models.load import load_model
from keras_vit.models.model_interface import model_interface
from keras_vit.private import parts_of
from keras_vit.weights import download

TINY = keras_vit.Variant("tiny", width=16, depth=1, mlp_dim=24, num_heads=2, patch_size=4, image_size=8)
BIT = keras_vit.BiTVariant("bit", (1,), 0.5)


def test_a_workdir_and_a_file_give_the_saved_model(tmp_path):
    model = randomise(keras_vit.build(TINY, classes=3, labels=("a", "b", "c")))
    model.save(tmp_path / "model.keras")
    images = np.random.default_rng(0).uniform(-1, 1, (2, 8, 8, 3)).astype("float32")
    for source in (tmp_path, str(tmp_path), tmp_path / "model.keras"):
        loaded = load_model(source)
        assert max_difference(loaded(images), model(images)) == 0
        assert loaded.get_layer("head").labels == ("a", "b", "c") and not loaded.compiled


def nested(model):
    """A classifier of Keras's own on a model without its head."""
    images = keras.Input((8, 8, 3))
    features = keras.Model(model.input, model.get_layer("pooling").output)
    return keras.Model(images, keras.layers.Dense(3, name="own")(features(images)))


@pytest.mark.parametrize("make", [lambda model: model, nested], ids=["a model", "a composition"])
def test_a_whole_h5_file_is_a_model_to_keras_and_to_us(make, tmp_path):
    model = make(randomise(keras_vit.build(TINY, classes=3, labels=("a", "b", "c"), dtype="mixed_bfloat16")))
    model.save(tmp_path / "model.h5")
    images = np.random.default_rng(0).uniform(-1, 1, (2, 8, 8, 3)).astype("float32")
    loads = [load_model, lambda path: keras.models.load_model(path, compile=False)]
    for load in loads if make is nested else [*loads, keras_vit.from_pretrained]:
        loaded = load(tmp_path / "model.h5")
        assert all((a == b).all() for a, b in zip(loaded.get_weights(), model.get_weights(), strict=True))
        assert max_difference(loaded(images), model(images)) < 1e-2  # bfloat16
    again = load_model(tmp_path / "model.h5")
    assert max_difference(again(images), model(images)) == 0
    assert keras_vit.preprocessing_of(again) == keras_vit.preprocessing_of(model)
    if make is not nested:
        assert again.preprocessing == model.preprocessing
        assert again.get_layer("head").labels == ("a", "b", "c")
        other = keras_vit.build(TINY, classes=3)
        assert len(keras_vit.load_weights(other, tmp_path / "model.h5").used) == len(model.weights)


def test_an_h5_file_that_holds_no_model_is_refused(tmp_path):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "none.h5", "w") as file:
        file["a"] = np.ones(3)
    (tmp_path / "text.h5").write_text("no HDF5")
    keras_vit.build(TINY, classes=3).save(tmp_path / "lying.h5")
    with h5py.File(tmp_path / "lying.h5", "r+") as file:
        file.attrs["model_config"] = file.attrs["model_config"].replace('"units": 3', '"units": 1000000000')
    for name, sentence in {"none": "No model config found", "text": ".", "lying": "Shape mismatch"}.items():
        with pytest.raises(ValueError, match=f"a .h5 file of this package, received .*{name}.h5': {sentence}") as error:
            load_model(tmp_path / f"{name}.h5")
        assert "\n" not in str(error.value)


@pytest.mark.parametrize("make", [lambda model: model, nested], ids=["a model", "a composition"])
def test_in_a_file_models_are_kerass_own_and_layers_say_what_to_import(make, tmp_path):
    make(keras_vit.build(TINY, classes=3)).save(tmp_path / "model.keras")
    with zipfile.ZipFile(tmp_path / "model.keras") as file:
        config = json.loads(file.read("config.json"))
    custom = [part for part in parts(config) if not part["module"].startswith("keras.") and part["module"] != "keras"]
    assert config["class_name"] == "Functional" and config["module"] == "keras.src.models.functional"
    assert {part["module"].split(".")[0] for part in custom} == {"keras_vit"}
    assert all(part["build_config"]["needs"] == "import keras_vit" for part in custom if "build_config" in part)
    assert any("build_config" in part for part in custom)


def parts(config):
    """All objects in a Keras config that are of a class."""
    if isinstance(config, list):
        for value in config:
            yield from parts(value)
    elif isinstance(config, dict):
        if config.get("module") and "class_name" in config:
            yield config
        for value in config.values():
            yield from parts(value)


@pytest.mark.broad
def test_keras_alone_says_what_to_import(tmp_path):
    keras_vit.build(TINY, classes=3).save(tmp_path / "model.keras")
    code = f"""
import sys, keras
try:
    keras.models.load_model({str(tmp_path / "model.keras")!r})
except TypeError as error:
    print("'needs': 'import keras_vit'" in str(error), "Could not locate class 'PatchEmbedding'" in str(error))
import keras_vit
print(type(keras.models.load_model({str(tmp_path / "model.keras")!r}, compile=False)).__name__)
"""
    assert run_python(code).splitlines() == ["True True", "Functional"]


@pytest.mark.parametrize("ending", [".npz", ".pth", ".keras", ""], ids=lambda ending: ending or "a hub folder")
def test_published_files_and_folders_give_their_model(ending, tmp_path):
    model = randomise(keras_vit.build(TINY, classes=3, activation="gelu" if ending == "" else None))
    path = tmp_path / f"weights{ending}"
    if ending == ".pth":
        torch = pytest.importorskip("torch", reason="torch is not installed")
        path = tmp_path / "h1.pth"
        from safetensors.torch import load_file

        torch.save(load_file(GOLDENS / "h1.weights.safetensors"), path)
        shutil.copy(GOLDENS / "h1.config.json", tmp_path / "config.json")
        assert max_difference(load_model(path)(golden("h1")["images"]), golden("h1")["logits"]) < 2e-5
        return
    keras_vit.save_weights(model, path, layout=None if ending else "hf")
    images = np.random.default_rng(0).uniform(-1, 1, (2, 8, 8, 3)).astype("float32")
    answer = load_model(path)(images)
    answer = answer if ending == ".keras" else keras.ops.softmax(answer)
    assert max_difference(answer, model(images)) < 1e-6


def test_our_own_file_in_another_size_keeps_what_no_array_says(tmp_path):
    rates = {"dropout_rate": 0.1, "attention_dropout_rate": 0.2, "drop_path_rate": 0.3}
    kept = {"include_preprocessing": True, "dtype": "mixed_bfloat16"}
    free = replace(TINY, depth=2)
    randomise(keras_vit.build(free, input_shape=(None, None, 3), **kept, **rates)).save(tmp_path / "vit.keras")
    randomise(keras_vit.build(BIT, **kept)).save(tmp_path / "bit.keras")
    for name, layer in (("vit", "encoder_block_01"), ("bit", "stage1_unit01")):
        larger = keras_vit.from_pretrained(tmp_path / f"{name}.keras", input_shape=(16, 16, 3))
        assert model_interface(larger).takes_pixels and larger.get_layer(layer).dtype_policy.name == "mixed_bfloat16"
        if name == "vit":
            assert {rate: getattr(larger.get_layer(layer), rate) for rate in rates} == rates
        said = {"include_preprocessing": False, "dtype": "float32"}
        other = keras_vit.from_pretrained(tmp_path / f"{name}.keras", **said)
        assert other.input_shape == (None, None, None, 3)  # as the file's own model, or as a BiT from any file
        assert not model_interface(other).takes_pixels and other.get_layer(layer).dtype_policy.name == "float32"


def test_our_own_file_in_another_size_keeps_its_frozen_layers(tmp_path):
    model = randomise(keras_vit.build(replace(TINY, depth=2), classes=3))
    model.trainable = False
    block = model.get_layer("encoder_block_01")
    block.trainable = True
    parts_of(block)[-1].trainable = False
    model.get_layer("head").trainable = False
    model.save(tmp_path / "vit.keras")
    saved = keras_vit.from_pretrained(tmp_path / "vit.keras")
    larger = keras_vit.from_pretrained(tmp_path / "vit.keras", input_shape=(16, 16, 3))
    assert trainable_paths(larger) == trainable_paths(saved) != []
    other = keras_vit.from_pretrained(
        tmp_path / "vit.keras", classes=5, strict=False
    )  # a classifier that is to be trained
    assert trainable_paths(other) == trainable_paths(saved) + ["head/kernel", "head/bias"]  # a new classifier


def trainable_paths(model):
    return [variable.path for layer in model.layers for variable in layer.trainable_variables]


HYBRID = replace(TINY, patch_size=1, stem=keras_vit.ResNetStem((1, 1), 0.5), image_size=32)
TORCHS = keras_vit.ResNetStem((1, 1), 0.5, group_norm_epsilon=1e-5, weight_epsilon=1e-8, weight_epsilon_on="variance")


@pytest.mark.parametrize(
    ("row", "origin", "options"),
    [
        (TINY, TINY, {"activation": "gelu", "layer_norm_epsilon": 1e-12}),
        (HYBRID, replace(HYBRID, stem=TORCHS), {"activation": "gelu"}),
        (replace(BIT, image_size=32), replace(BIT, weight_epsilon=1e-8), {"input_shape": (32, 32, 3)}),
    ],
    ids=["vit", "hybrid", "bit"],
)
def test_a_builder_given_our_own_file_computes_as_it_does(row, origin, options, tmp_path):
    model = randomise(keras_vit.build(origin, classes=3, **options))
    model.save(tmp_path / "model.keras")
    images = np.random.default_rng(0).uniform(-1, 1, (2, *model.input_shape[1:])).astype("float32")
    for source in (tmp_path, tmp_path / "model.keras"):
        assert max_difference(keras_vit.build(row, classes=3, weights=source)(images), model(images)) == 0


@pytest.mark.parametrize("layout", [None, "hf", "timm"])
def test_another_number_of_heads_than_a_file_says_is_refused(layout, tmp_path):
    source = tmp_path if layout else tmp_path / "model.keras"
    keras_vit.save_weights(randomise(keras_vit.build(TINY, classes=3)), source, layout)
    model = keras_vit.build(replace(TINY, num_heads=4), classes=3)
    before = model.get_weights()
    with pytest.raises(ValueError, match=r"num_heads expected 2, as in '.*', received 4 in 'encoder_block_00'\."):
        keras_vit.load_weights(model, source)
    assert all((old == new).all() for old, new in zip(before, model.get_weights(), strict=True))
    with pytest.raises(ValueError, match=r"num_heads expected 2, as in '.*', received 4\."):
        keras_vit.from_pretrained(source, num_heads=4)
    with pytest.raises(ValueError, match="position_resize expected None or one of .* received 'offical'"):
        keras_vit.from_pretrained(source, position_resize="offical")
    assert keras_vit.from_pretrained(source, num_heads=2, strict=False).get_layer("head").units == 3
    for none in (0, -3, 2.0, True):
        with pytest.raises(ValueError, match=f"num_heads expected a positive int, received {none}"):
            keras_vit.from_pretrained(source, num_heads=none)


def test_a_resnets_file_gets_the_size_its_row_is_built_for():
    assert load_model(GOLDENS / "g6.weights.npz").input_shape == (None, 224, 224, 3)


def test_a_file_that_leaves_something_open_says_what_settles_it(tmp_path):
    sentence = (
        r"num_heads expected .*received None; keras-vit weights convert IN OUT.keras takes --num-heads .* it is\.$"
    )
    with pytest.raises(ValueError, match=sentence):
        load_model(GOLDENS / "t1.weights.safetensors")
    for name in ("a.npz", "b.npz"):
        keras_vit.save_weights(keras_vit.build(TINY), tmp_path / name)
    with pytest.raises(ValueError, match="expected a folder with one file of weights, found a.npz, b.npz in"):
        load_model(tmp_path)
    with pytest.raises(FileNotFoundError, match="model expected a .npz file, found nothing at 'ViT-B_16.npz'"):
        load_model("ViT-B_16.npz")


def test_a_name_builds_its_model():
    assert load_model("ViT-Ti/16").count_params() == 5_717_416


def test_a_published_classifier_of_imagenet_names_its_classes(tmp_path, monkeypatch):
    keras_vit.save_weights(randomise(keras_vit.build(TINY)), tmp_path / "file.npz")
    monkeypatch.setattr(download, "download", lambda released: tmp_path / "file.npz")
    tag = "vit_base_patch16_224.sam_in1k"
    own = [str(i) for i in range(1000)]
    for model, named in (
        (keras_vit.build(TINY, weights=tag), True),
        (keras_vit.from_pretrained(tag), True),
        (keras_vit.from_pretrained(tmp_path / "file.npz"), False),
        (keras_vit.build(TINY, weights=tag, labels=own), False),
        (keras_vit.from_pretrained(tag, labels=own), False),
        (keras_vit.from_pretrained("vit_base_patch16_224.augreg_in21k"), False),
    ):
        labels = model_interface(model).labels
        assert len(labels) == 1000 and (labels[0], labels[999]) == (
            ("tench", "toilet_tissue") if named else ("0", "999")
        )


def test_a_damaged_download_is_no_unknown_name(tmp_path, monkeypatch):
    monkeypatch.setenv("KERAS_VIT_HOME", str(tmp_path))
    place = tmp_path / "vit_models/sam/ViT-B_16.npz"
    place.parent.mkdir(parents=True)
    place.write_bytes(b"no archive")
    with pytest.raises(ValueError, match="^source expected a whole .npz archive, received something else in"):
        load_model("vit_base_patch16_224.sam_in1k")


def test_what_is_no_model_gets_a_sentence(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(
        ValueError, match="model expected a folder that holds model.keras or one file of weights, received .*empty'"
    ):
        load_model(tmp_path / "empty")
    with pytest.raises(FileNotFoundError, match="model expected a .keras file, found nothing at 'no/such.keras'"):
        load_model("no/such.keras")
    with pytest.raises(ValueError, match="nothing lies at 'ViT_B61', and as a name .*nearest are ViT_B16"):
        load_model("ViT_B61")
    with zipfile.ZipFile(tmp_path / "other.keras", "w") as archive:
        archive.writestr("config.json", "{}")
    (tmp_path / "broken.keras").write_bytes(b"PK\x03\x04 no zip after all")
    (tmp_path / "picture.png").write_bytes(b"\x89PNG")
    for name in ("broken.keras", "picture.png"):
        with pytest.raises(
            ValueError,
            match=f"model expected a .keras or .h5 file or a file of weights, received .*{name}', which is none",
        ):
            load_model(tmp_path / name)
    with pytest.raises(ValueError, match="model expected a .keras file of this package, received .*other.keras': "):
        load_model(tmp_path / "other.keras")
    keras_vit.build(TINY).save(tmp_path / "damaged.keras")
    data = bytearray((tmp_path / "damaged.keras").read_bytes())
    at = data.index(b"\x89HDF") + 2000  # inside of its weights
    data[at : at + 64] = bytes(byte ^ 0xFF for byte in data[at : at + 64])
    (tmp_path / "damaged.keras").write_bytes(data)
    with pytest.raises(ValueError, match="expected a .keras file of this package, received .*damaged.keras': Bad CRC"):
        load_model(tmp_path / "damaged.keras")
    layer = keras.layers.Dense(2)
    layer.build((None, 2))
    keras.saving.save_model(layer, tmp_path / "layer.keras")
    for open_it in (load_model, keras_vit.from_pretrained):
        with pytest.raises(ValueError, match="received .*layer.keras': it holds a Dense"):
            open_it(tmp_path / "layer.keras")
