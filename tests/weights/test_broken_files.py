"""Files that are broken, or worse: one sentence each, and nothing changes."""

import io
import json
import pickle
import struct
import zipfile

import numpy as np
import pytest
import torch_files
from support import GOLDENS

import keras_vit
from keras_vit.cli import main

G1 = GOLDENS / "g1.weights.npz"


def npy(array):
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, array, allow_pickle=array.dtype.hasobject)
    return buffer.getvalue()


def header(shape, descr="<f4"):
    text = repr({"descr": descr, "fortran_order": False, "shape": shape})
    text += " " * (63 - (10 + len(text)) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode()


def members():
    with zipfile.ZipFile(G1) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def archive(path, values, **options):
    with zipfile.ZipFile(path, "w", **options) as file:
        for name, value in values.items():
            file.writestr(name, value)


class Bomb:
    """Unpickling it would leave a file behind."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


def truncated(path):
    path.write_bytes(G1.read_bytes()[:-5000])


def empty(path):
    path.write_bytes(b"")


def no_zip(path):
    path.write_bytes(b"PK\x03\x04" + bytes(range(256)) * 4)


def empty_zip(path):
    archive(path, {})


def pickled(path):
    archive(path, members() | {"cls.npy": npy(np.array([Bomb(path.with_name("exploded"))], dtype=object))})


def lone_pickle(path):
    path.write_bytes(pickle.dumps(Bomb(path.with_name("exploded"))))


def damaged(path):
    data = bytearray(G1.read_bytes())
    with zipfile.ZipFile(G1) as file:
        info = file.getinfo("Transformer/encoderblock_1/MlpBlock_3/Dense_0/kernel.npy")
    data[info.header_offset + info.compress_size // 2] ^= 0xFF
    path.write_bytes(bytes(data))


def damaged_deflated(path):
    archive(path, members(), compression=zipfile.ZIP_DEFLATED)
    data = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as file:
        info = file.getinfo("Transformer/encoderblock_1/MlpBlock_3/Dense_0/kernel.npy")
    data[info.header_offset + info.compress_size // 2] ^= 0xFF
    path.write_bytes(bytes(data))


def hundred_gigabytes(path):
    archive(path, members() | {"head/kernel.npy": header((48, 25 * 10**9)) + b"\0" * 64})


def hundred_gigabytes_in_the_directory(path):
    archive(path, members())
    data = bytearray(path.read_bytes())
    at = data.rindex(b"PK\x01\x02")
    data[at + 24 : at + 28] = struct.pack("<I", 0xFFFFFFF0)  # the uncompressed size of the last member
    path.write_bytes(bytes(data))


def path_traversal(path):
    archive(path, members() | {"../../evil.npy": npy(np.ones(3, "float32"))})


def integers(path):
    archive(path, members() | {"cls.npy": npy(np.ones((1, 1, 48), "int32"))})


def text(path):
    archive(path, members() | {"cls.npy": npy(np.array(["a", "b"]))})


def no_header(path):
    archive(path, members() | {"cls.npy": b"\x93NUMPY\x01\x00\xff\xff" + b"{" * 70000})


def evil_header(path):
    archive(path, members() | {"cls.npy": b"\x93NUMPY\x01\x00\x20\x00__import__('os').system('true')\n"})


def open_bracket_in_header(path):
    text = b"{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1, 48), \n"
    archive(path, members() | {"cls.npy": b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text})


def nested_header(path):
    text = b"{'descr': '<f4', 'fortran_order': False, 'shape': " + b"(" * 4000 + b"\n"
    archive(path, members() | {"cls.npy": b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text})


def twice(path):
    archive(path, {**members(), "cls": npy(np.ones((1, 1, 48), "float32"))})


def flat_positions(path):
    archive(path, members() | {"Transformer/posembed_input/pos_embedding.npy": npy(np.ones(48, "float32"))})


def scalar_head(path):
    archive(path, members() | {"head/kernel.npy": npy(np.ones((), "float32"))})


def endless_stack(path):
    archive(path, {"Transformer/encoderblock/LayerNorm_0/scale.npy": header((10**9, 0))})


def far_stage(path):
    archive(path, members() | {"block1000000000/unit01/conv1/kernel.npy": npy(np.ones((1, 1, 4, 4), "float32"))})


def other_names(path):
    archive(path, {"weights/0.npy": npy(np.ones(3, "float32"))})


def half_a_model(path):
    archive(path, {name: value for name, value in members().items() if "embedding/" not in name})


NPZ = {
    truncated: "expected a whole .npz archive",
    empty: "expected a whole .npz archive",
    no_zip: "expected a whole .npz archive",
    empty_zip: "expected weights of a layout among .* with nothing",
    pickled: "expected arrays of floats, received dtype object for 'cls'",
    lone_pickle: "expected a whole .npz archive",
    damaged: "as it was written, received damaged bytes",
    damaged_deflated: "as it was written, received damaged bytes",
    hundred_gigabytes: "'head/kernel' to hold what its header says, received a header for 4800000000000 bytes",
    hundred_gigabytes_in_the_directory: "to hold what its header says",
    path_traversal: "left over in the file: ../../evil",
    integers: "expected arrays of floats, received dtype int32 for 'cls'",
    text: "expected arrays of floats, received dtype <U1 for 'cls'",
    no_header: "expected",
    evil_header: "expected .npy headers, received none for 'cls'",
    open_bracket_in_header: "expected .npy headers, received none for 'cls'",
    nested_header: "expected .npy headers, received none for 'cls'",
    twice: "expected each array once, received 'cls' twice",
    flat_positions: r"expected 'Transformer/.*/pos_embedding' to have at least two axes, received shape \(48,\)",
    scalar_head: r"expected 'head/kernel' to have at least two axes, received shape \(\)",
    endless_stack: "left over in the file: Transformer/encoderblock/LayerNorm_0/scale",
    far_stage: "left over in the file: block1000000000/unit01/conv1/kernel",
    other_names: "expected weights of a layout among .* with weights/0",
    half_a_model: "missing from the file: embedding/kernel",
}


def safetensors_header(length, body=b"{}"):
    return struct.pack("<Q", length) + body


SAFETENSORS = {
    "absurd": safetensors_header(2**62),
    "beyond_the_end": safetensors_header(10**6),
    "no_json": safetensors_header(4, b"abcd"),
    "empty": b"",
    "outside": safetensors_header(
        len(body := json.dumps({"a": {"dtype": "F32", "shape": [9], "data_offsets": [0, 36]}}).encode()), body
    ),
    "integers": safetensors_header(
        len(body := json.dumps({"norm.bias": {"dtype": "I64", "shape": [1], "data_offsets": [0, 8]}}).encode()),
        body + b"\0" * 8,
    ),
}


def one_sentence(capsys, *arguments):
    assert main([str(argument) for argument in arguments]) == 2
    printed = capsys.readouterr().err.strip().splitlines()
    assert len(printed) == 1 and printed[0].startswith("keras-vit weights: "), printed
    return printed[0]


@pytest.mark.parametrize("make", NPZ, ids=lambda make: make.__name__)
def test_broken_archives(make, tmp_path, capsys):
    path = tmp_path / "weights.npz"
    make(path)
    model = keras_vit.build(
        keras_vit.Variant("g1", 48, 3, 112, 3, patch_size=8, image_size=32), classes=11, classifier_activation=None
    )
    before = model.get_weights()
    with pytest.raises(ValueError, match=NPZ[make]) as error:
        keras_vit.load_weights(model, path)
    assert "\n" not in str(error.value)
    assert all((old == new).all() for old, new in zip(before, model.get_weights(), strict=True))
    one_sentence(capsys, "weights", "convert", path, tmp_path / "out.npz")
    assert [file.name for file in tmp_path.iterdir()] == ["weights.npz"]


@pytest.mark.parametrize("name", SAFETENSORS)
def test_broken_safetensors(name, tmp_path, capsys):
    path = tmp_path / "weights.safetensors"
    path.write_bytes(SAFETENSORS[name])
    sentence = one_sentence(capsys, "weights", "convert", path, tmp_path / "out.npz")
    assert ("arrays of floats, received dtype I64" if name == "integers" else "a whole .safetensors file") in sentence
    one_sentence(capsys, "weights", "show", path)
    assert [file.name for file in tmp_path.iterdir()] == ["weights.safetensors"]


@pytest.mark.parametrize("ending", [".npz", ".safetensors", ".pth"])
def test_integers_of_an_optimiser_are_left_out(ending, tmp_path):
    with np.load(G1) as file:
        values = {f"opt/target/{name}": value for name, value in file.items()}
    values |= {"opt/state/step": np.full((), 90_000, "int32"), "opt/state/mu": np.ones(3, "float32")}
    path = tmp_path / f"weights{ending}"
    if ending == ".npz":
        np.savez(path, **values)
    elif ending == ".safetensors":
        pytest.importorskip("safetensors.numpy").save_file(values, path)
    else:
        values["opt/state/step"] = np.full((), 90_000, "int64")
        torch_files.save(path, values)
    found, expected = (keras_vit.from_pretrained(source).get_weights() for source in (path, G1))
    assert all((a == b).all() for a, b in zip(found, expected, strict=True))


def test_a_resnet_with_a_gap_in_its_stages_is_refused(tmp_path):
    with np.load(GOLDENS / "g4.weights.npz") as file:
        np.savez(tmp_path / "gap.npz", **file, **{"block40/unit1/conv1/kernel": np.ones((1, 1, 4, 4), "float32")})
    with pytest.raises(ValueError, match="source expected stages and units counted without a gap, received .*stage40"):
        keras_vit.from_pretrained(tmp_path / "gap.npz")


def test_unknown_arrays_among_the_optimisers_targets_are_left_over(tmp_path):
    with np.load(G1) as file:
        values = {f"opt/target/{name}": value for name, value in file.items()}
    np.savez(tmp_path / "weights.npz", **values, **{"opt/target/surprise": np.ones(3, "float32")})
    with pytest.raises(ValueError, match="left over in the file: opt/target/surprise"):
        keras_vit.from_pretrained(tmp_path / "weights.npz")


@pytest.mark.parametrize("ending", [".keras", ".pth", ".bin"])
@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 nothing", pickle.dumps({"a": 1}), b"\x80\x02."])
def test_other_broken_files(ending, content, tmp_path, capsys):
    path = tmp_path / f"weights{ending}"
    path.write_bytes(content)
    one_sentence(capsys, "weights", "convert", path, tmp_path / "out.npz")
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("content", ['{"weight_map": ' + "[" * 100_000, '{"weight_map": 3}', "[]", "\x00"])
def test_an_index_that_is_none(content, tmp_path, capsys):
    path = tmp_path / "model.safetensors.index.json"
    path.write_text(content)
    assert "expected an index with a weight_map" in one_sentence(capsys, "weights", "show", path)


def test_an_array_in_two_files_of_an_index_is_refused(tmp_path):
    save_file = pytest.importorskip("safetensors.numpy").save_file
    for name in ("a.safetensors", "b.safetensors"):
        save_file({"norm.bias": np.ones(3, "float32")}, tmp_path / name)
    path = tmp_path / "model.safetensors.index.json"
    path.write_text(json.dumps({"weight_map": {"norm.bias": "a.safetensors", "norm.weight": "b.safetensors"}}))
    with pytest.raises(ValueError, match="source expected each array once, received 'norm.bias' twice in"):
        keras_vit.from_pretrained(path)


def test_flipped_bytes_of_torchs_older_files_are_refused_or_harmless(tmp_path):
    path = tmp_path / "weights.pth"
    torch_files.save(path, {1: np.ones(2, "float32")})
    with pytest.raises(ValueError, match="source expected a torch state dict of plain tensors, received something"):
        keras_vit.from_pretrained(path)
    torch_files.save_old(path, {f"blocks.{i}.norm1.weight": np.ones(8, "float32") for i in range(4)})
    whole = path.read_bytes()
    for at in np.random.default_rng(0).integers(0, len(whole), 150):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :])
        with pytest.raises(ValueError):  # whole, it is no ViT either
            keras_vit.from_pretrained(path)


def test_what_is_no_file_of_weights(tmp_path, capsys):
    (tmp_path / "photo.png").write_bytes(b"\x89PNG")
    (tmp_path / "folder").mkdir()
    for arguments, sentence in (
        ((tmp_path / "photo.png",), "expected a file that ends in .npz"),
        ((tmp_path / "folder",), "expected a folder with one file of weights, found no file of weights"),
        ((tmp_path / "absent.npz",), "expected a file of weights, found nothing"),
        (("no_such_tag",), "expected a file or a tag of list_weights(), received 'no_such_tag'; the nearest are"),
    ):
        assert sentence in one_sentence(capsys, "weights", "show", *arguments)


def test_truncations_at_every_kind_of_place(tmp_path):
    """Cut anywhere, a file is refused or, where only the end of the archive's comment went, read whole."""
    path = tmp_path / "weights.npz"
    whole = G1.read_bytes()
    for length in np.random.default_rng(0).integers(0, len(whole), 40):
        path.write_bytes(whole[:length])
        with pytest.raises(ValueError, match="source expected"):
            keras_vit.from_pretrained(path)


def test_flipped_bytes_are_refused_or_harmless(tmp_path):
    path = tmp_path / "weights.npz"
    whole = G1.read_bytes()
    expected = keras_vit.from_pretrained(G1).get_weights()
    refused = 0
    for at in np.random.default_rng(1).integers(0, len(whole), 25):
        data = bytearray(whole)
        data[at] ^= 0x55
        path.write_bytes(bytes(data))
        try:
            weights = keras_vit.from_pretrained(path).get_weights()
        except ValueError:
            refused += 1
        else:
            assert all((a == b).all() for a, b in zip(weights, expected, strict=True))
    assert refused > 15
