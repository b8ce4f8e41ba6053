"""Damaged files of every format: refused in one sentence, or read as they were written. Nothing is silently wrong."""

import json
import warnings
import zipfile

import keras
import numpy as np
import pytest
import torch_files
from mutations import bit_flipped, mutated
from support import GOLDENS, randomise

import keras_vit
from keras_vit.weights.contents import read_contents
from keras_vit.weights.files import open_weights
from keras_vit.weights.keras_file import check_hdf5

TINY = keras_vit.Variant("tiny", width=8, depth=1, mlp_dim=12, num_heads=2, patch_size=4, image_size=8)
LAYOUTS = {".npz": None, ".safetensors": "timm", ".keras": None, ".weights.h5": None}


@pytest.fixture(scope="module")
def model():
    return randomise(keras_vit.build(TINY, classes=3, classifier_activation=None))


@pytest.fixture(scope="module")
def whole(model, tmp_path_factory):
    """The bytes of the model's file, for each ending."""
    folder = tmp_path_factory.mktemp("whole")
    for ending, layout in LAYOUTS.items():
        keras_vit.save_weights(model, folder / f"weights{ending}", layout)
    with open_weights(folder / "weights.safetensors") as file:
        arrays = {name: np.array(file[name]) for name in file.shapes}
    checkpoint = {"state_dict": arrays, "args": torch_files.Made("argparse", "Namespace", {"lr": 0.1})}
    torch_files.save(folder / "weights.pth", checkpoint)
    torch_files.save_old(folder / "weights.bin", checkpoint)
    return {file.name.removeprefix("weights"): file.read_bytes() for file in folder.glob("weights.[!c]*")}


def read(path, model):
    """All arrays that a model would be filled with; what the reader checks first is checked."""
    with open_weights(path, model) as file:
        entries = read_contents(file).entries
        file.verify([name for entry in entries.values() for name in entry.names])
        return {name: np.array(file[name]) for entry in entries.values() for name in entry.names}


def same(found, expected):
    return found.keys() == expected.keys() and all(
        a.shape == expected[name].shape and a.tobytes() == expected[name].tobytes() for name, a in found.items()
    )


def test_every_format_is_there(whole):
    assert whole.keys() == {*LAYOUTS, ".pth", ".bin"}


@pytest.mark.parametrize(
    ("ending", "count"), [(".npz", 150), (".safetensors", 150), (".pth", 150), (".weights.h5", 12), (".keras", 40)]
)
def test_a_flipped_bit_is_refused_or_harmless(ending, count, whole, model, tmp_path):
    path, rng = tmp_path / f"weights{ending}", np.random.default_rng(0)
    path.write_bytes(whole[ending])
    expected, refused = read(path, model), 0
    for _ in range(count):
        path.write_bytes(bit_flipped(whole[ending], rng))
        try:
            found = read(path, model)
        except ValueError as error:
            refused += 1
            assert "\n" not in str(error) and str(path) in str(error)
            continue
        assert set(found) < set(expected) or same(found, expected)  # a name that is missing is refused by `apply`
    assert refused > count / 8


def test_a_flipped_bit_in_hdf5_is_refused_or_harmless(whole, tmp_path):
    h5py = pytest.importorskip("h5py")
    path, rng = tmp_path / "weights.h5", np.random.default_rng(0)

    def values():
        with h5py.File(path) as file:
            found = {}
            file.visititems(lambda name, item: found.update({name: item[()]}) if isinstance(item, h5py.Dataset) else 0)
        return found

    path.write_bytes(whole[".weights.h5"])
    expected, wrong = values(), 0
    for _ in range(150):
        path.write_bytes(bit_flipped(whole[".weights.h5"], rng))
        try:
            check_hdf5(path, path.stat().st_size, "it")
            found = values()
        except Exception:  # h5py's errors have no common kind; `read` makes sentences of them
            continue
        unlike = {name for name in found.keys() & expected.keys() if not np.array_equal(found[name], expected[name])}
        wrong += bool(unlike)
    assert wrong == 0


@pytest.mark.parametrize(
    ("ending", "count"), [(".npz", 60), (".safetensors", 60), (".pth", 60), (".bin", 60), (".weights.h5", 10)]
)
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.large)])
def test_any_damage_ends_in_one_sentence(ending, count, seed, whole, model, tmp_path):
    path, rng = tmp_path / f"weights{ending}", np.random.default_rng(seed)
    for _ in range(count):
        path.write_bytes(mutated(whole[ending], rng))
        try:
            read(path, model)
        except ValueError as error:
            assert "\n" not in str(error) and len(str(error)) < 700
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_a_keras_archive_with_another_checksum_is_refused(whole, model, tmp_path):
    path, data = tmp_path / "weights.keras", bytearray(whole[".keras"])
    kernel = np.asarray(model.get_layer("head").kernel).tobytes()
    data[data.index(kernel) + 2] ^= 0x10
    path.write_bytes(data)
    for load in (keras_vit.load_model, keras_vit.from_pretrained, lambda path: keras_vit.load_weights(model, path)):
        with pytest.raises(ValueError, match=r"received .*weights.keras': Bad CRC-32 for file 'model.weights.h5'"):
            load(path)


def with_a_nan(model):
    other = keras.models.clone_model(model)
    other.set_weights(model.get_weights())
    kernel = np.array(other.get_layer("head").kernel)
    kernel[3, 1] = np.nan
    other.get_layer("head").kernel.assign(kernel)
    return other


@pytest.mark.parametrize("ending", [".npz", ".safetensors", ".keras", ".h5", ".weights.h5", ".pth"])
def test_every_reader_names_arrays_that_are_not_finite(ending, model, tmp_path):
    path = tmp_path / f"weights{ending}"
    if ending == ".h5":
        with_a_nan(model).save(path)
    elif ending == ".pth":
        keras_vit.save_weights(with_a_nan(model), tmp_path / "weights.safetensors", "timm")
        with open_weights(tmp_path / "weights.safetensors") as file:
            torch_files.save(path, {name: np.array(file[name]) for name in file.shapes})
    else:
        keras_vit.save_weights(with_a_nan(model), path, LAYOUTS[ending])
    calls = [lambda: keras_vit.load_weights(keras_vit.build(TINY, classes=3), path)]
    if ending != ".weights.h5":
        options = {"num_heads": 2} if ending == ".pth" else {}
        calls.append(lambda: keras_vit.from_pretrained(path, **options))
    if ending in (".keras", ".h5"):
        calls.append(lambda: keras_vit.load_model(path))
    for call in calls:
        with pytest.warns(UserWarning, match=r"'head[/.]\w+' holds values that are not finite"):
            call()


def test_files_of_others_have_no_checksums_and_are_read(tmp_path):
    model = randomise(keras_vit.build(TINY, classes=3))
    model.save_weights(tmp_path / "plain.weights.h5")
    keras_vit.load_weights(model, tmp_path / "plain.weights.h5")
    assert len(read(GOLDENS / "t1.weights.safetensors", None)) > 10


def test_checksums_are_of_no_concern_to_the_libraries_themselves(whole, model, tmp_path):
    from safetensors.numpy import load_file

    (tmp_path / "a.safetensors").write_bytes(whole[".safetensors"])
    (tmp_path / "a.weights.h5").write_bytes(whole[".weights.h5"])
    assert "head.weight" in load_file(tmp_path / "a.safetensors")
    other = keras_vit.build(TINY, classes=3, classifier_activation=None)
    other.load_weights(tmp_path / "a.weights.h5")
    assert all((a == b).all() for a, b in zip(other.get_weights(), model.get_weights(), strict=True))


def keras_file_with(path, source, change):
    """A copy of a `.keras` file with another config."""
    with zipfile.ZipFile(source) as file:
        members = {name: file.read(name) for name in file.namelist()}
    config = json.loads(members["config.json"])
    members["config.json"] = change(config)
    with zipfile.ZipFile(path, "w") as file:
        for name, value in members.items():
            file.writestr(name, value)


def lying(config):
    for layer in config["config"]["layers"]:
        if layer["class_name"] == "Head":
            layer["config"]["units"] = 10**9
    return json.dumps(config)


CONFIGS = {
    "lying": (lying, r"its config declares \d[\d,]+ bytes of weights, the file has [\d,]+ bytes"),
    "nested": (lambda _: "[" * 10**5, r"its config cannot be read \(.*recursion.*\)"),
    "no_text": (lambda _: b"\xff\xfe", r"its config cannot be read \("),
    "a_list": (lambda _: "[]", "."),
    "huge": (lambda config: json.dumps(config) + " " * 2**26, "its config is too large"),
}


@pytest.mark.parametrize("name", CONFIGS)
def test_a_config_is_not_believed(name, whole, tmp_path):
    change, sentence = CONFIGS[name]
    (tmp_path / "whole.keras").write_bytes(whole[".keras"])
    keras_file_with(tmp_path / "model.keras", tmp_path / "whole.keras", change)
    for load in (keras_vit.load_model, keras_vit.from_pretrained):
        with warnings.catch_warnings(), pytest.raises(ValueError, match=f"received .*model.keras': {sentence}"):
            load(tmp_path / "model.keras")


def test_sizes_are_checked_before_memory_is_taken(tmp_path, model):
    """A megabyte of zeros, deflated, is a gigabyte of them in memory."""
    h5py = pytest.importorskip("h5py")
    with zipfile.ZipFile(tmp_path / "bomb.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        header = repr({"descr": "<f4", "fortran_order": False, "shape": (2**19, 48)}).ljust(117) + "\n"
        with archive.open("head/kernel.npy", "w") as member:
            member.write(b"\x93NUMPY\x01\x00\x76\x00" + header.encode())
            for _ in range(96):
                member.write(bytes(2**20))
    with h5py.File(tmp_path / "bomb.weights.h5", "w") as file:
        file.create_dataset("layers/head/vars/0", (10**6, 10**6), "float32", chunks=(64, 64))
    with h5py.File(tmp_path / "bomb.h5", "w") as file:
        file.create_dataset("model_weights/a", (10**6, 10**6), "float32", chunks=(64, 64))
    for name in ("bomb.npz", "bomb.weights.h5", "bomb.h5"):
        with pytest.raises(ValueError, match=r"expected at most [\d,]+ bytes of arrays in a file of [\d,]+ bytes"):
            keras_vit.load_weights(model, tmp_path / name)
