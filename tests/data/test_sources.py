"""Where examples come from: fixed splits, honest errors."""

import hashlib
import os
import re
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image
from serving import tiny
from support import needs_tensorflow

from keras_vit.cli.images import images_to_compare
from keras_vit.data.decode import decode
from keras_vit.data.evaluation import held_out
from keras_vit.data.sources import from_arrays, open_split
from keras_vit.predict.images import image_files
from keras_vit.preprocessing.inputs import decode_image, load_image
from keras_vit.train.recipe import Data

pytestmark = needs_tensorflow
load_digits = pytest.importorskip("sklearn.datasets", reason="scikit-learn carries the digits").load_digits


def everything(examples):
    rows = list(examples.stream().as_numpy_iterator())
    return [row[1] for row in rows], np.array([row[2] for row in rows])


@pytest.fixture
def folder(tmp_path):
    """Ten pictures of cats and five of dogs of several sizes and formats, beside what file managers leave there."""
    rng = np.random.default_rng(0)
    for label, count in (("cat", 10), ("dog", 5)):
        (tmp_path / label).mkdir()
        for i in range(count):
            suffix = (".png", ".jpg", ".JPEG")[i % 3]
            pixels = rng.integers(0, 256, (20 + i, 30, 3), dtype="uint8")
            Image.fromarray(pixels).save(tmp_path / label / f"{label}{i}{suffix}")
    (tmp_path / "cat" / "Thumbs.db").write_text("no picture")
    (tmp_path / ".ipynb_checkpoints").mkdir()
    return tmp_path


def test_digits_are_scikit_learns():
    parts = [everything(open_split("digits", split)) for split in ("train", "test")]
    images = np.array(parts[0][0] + parts[1][0])
    labels = np.concatenate([parts[0][1], parts[1][1]])
    bunch = load_digits()
    assert images.shape == (1797, 8, 8, 1) and images.dtype == np.uint8
    key = lambda pictures, targets: sorted(  # noqa: E731
        (picture.tobytes(), int(target)) for picture, target in zip(pictures, targets, strict=True)
    )
    assert key(images, labels) == key(np.round(bunch.images * 255 / 16).astype("uint8")[..., None], bunch.target)


def test_digits_split_is_fixed_stratified_and_disjoint():
    train, test = (open_split("digits", split) for split in ("train", "test"))
    assert (train.count, test.count) == (1438, 359)
    assert train.labels == tuple("0123456789")
    assert test.counts == (36, 36, 35, 37, 36, 36, 36, 36, 35, 36)
    pixels = [{image.tobytes() for image in everything(part)[0]} for part in (train, test)]
    assert not pixels[0] & pixels[1]
    digest = hashlib.sha256(b"".join(sorted(pixels[1]))).hexdigest()
    assert (
        digest == "492aee7ab944e078972650c259e00abdb7206abf4615b31544713d06e52a5a19"
    )  # every published figure would change with it


def test_parts_of_a_split():
    whole, first, rest = (everything(open_split("digits", f"train{part}"))[0] for part in ("", "[:90%]", "[90%:]"))
    assert len(first) == round(0.9 * len(whole)) and len(first) + len(rest) == len(whole)
    assert all(np.array_equal(a, b) for a, b in zip(whole, first + rest, strict=True))
    labels = everything(open_split("digits", "train[90%:]"))[1]
    assert set(labels) == set(range(10))  # the order is random, so a part has every class


def test_one_folder_gets_a_fixed_split(folder):
    train, test = (open_split("folder", split, str(folder)) for split in ("train", "test"))
    assert train.labels == test.labels == ("cat", "dog")
    assert (train.counts, test.counts) == ((8, 4), (2, 1))
    assert not set(train.files) & set(test.files)
    Image.fromarray(np.zeros((8, 8, 3), "uint8")).save(folder / "cat" / "new.png")
    assert sum(path in test.files for path in open_split("folder", "test", str(folder)).files) >= 2


def test_training_prediction_and_export_take_the_same_files_of_a_folder(folder, tmp_path_factory):
    """Not what a Mac or a file manager leaves there; and links to folders, but none in a circle."""
    place = tmp_path_factory.mktemp("linked") / ".pictures"
    (place / "cat" / "more").mkdir(parents=True)
    for name in (".thumbnails", "more/.hidden"):
        (place / "cat" / name).mkdir()
        shutil.copy(folder / "cat" / "cat0.png", place / "cat" / name)
    shutil.copy(folder / "cat" / "cat0.png", place / "cat" / "more")
    (place / "cat" / "more" / "._cat0.png").write_bytes(b"of a Mac")
    (place / "dog").symlink_to(folder / "dog")
    (place / "cat" / "linked").symlink_to(folder / "cat")
    (place / "cat" / "back").symlink_to(place)
    (place / "cat" / "more" / "round").symlink_to("../more")
    (folder / "cat" / "there").symlink_to(place / "cat")  # and back again
    expected = {str(place / "cat" / "more" / "cat0.png")}
    expected |= {str(place / "cat" / "linked" / path.name) for path in (folder / "cat").glob("cat*")}
    expected |= {str(place / "dog" / path.name) for path in (folder / "dog").iterdir()}
    assert len(expected) == 16
    trained = [path for split in ("train", "test") for path in open_split("folder", split, str(place)).files]
    assert sorted(trained) == sorted(image_files([str(place)])) == sorted(expected)
    images, _ = images_to_compare(tiny(), str(place), None, None, 99)
    assert len(images) == 16


def test_the_only_picture_of_a_class_is_trained_on(folder):
    (folder / "bird").mkdir()
    shutil.copy(folder / "cat" / "cat0.png", folder / "bird")
    train, test = (open_split("folder", split, str(folder)) for split in ("train", "test"))
    assert (train.counts, test.counts) == ((1, 8, 4), (0, 2, 1))


def test_files_are_taken_by_what_they_hold(tmp_path):
    """Names as a browser, a camera or nobody gave them; the same files for training, prediction and export."""
    names = (
        "a.jfif",
        "b.jpe",
        "c.JPG.jpg",
        "IMG_0001",
        "e.webp",
        "f.TIFF",
        "g.tif",
        "h.bmp",
        "i.txt",
        "j.png",
        "k.avif",
    )
    kinds = ("JPEG", "JPEG", "JPEG", "JPEG", "WEBP", "TIFF", "TIFF", "BMP", "PNG", "JPEG", "AVIF")
    rng = np.random.default_rng(0)
    for label in ("cat", "dog"):
        (tmp_path / label).mkdir()
        for name, kind in zip(names, kinds, strict=True):
            Image.fromarray(rng.integers(0, 256, (9, 7, 3), "uint8")).save(tmp_path / label / name, kind)
    splits = [open_split("folder", split, str(tmp_path)) for split in ("train", "test")]
    expected = sorted(str(tmp_path / label / name) for label in ("cat", "dog") for name in names)
    assert sorted(path for split in splits for path in split.files) == expected == sorted(image_files([str(tmp_path)]))
    assert len(images_to_compare(tiny(), str(tmp_path), None, None, 99)[0]) == len(expected)
    for split in splits:
        found = [decode(data).numpy() for _, data, _ in split.images().as_numpy_iterator()]
        assert all(
            np.array_equal(x, decode_image(Path(p).read_bytes())) for x, p in zip(found, split.files, strict=True)
        )


def test_what_is_left_out_is_counted_and_named_by_reason_in_one_line(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "pillow_heif", None)  # as if it were not installed
    for name, data in {"notes.txt": b"no image", "more.csv": b"a,b", "raw.NEF": b"MM\0*", "e.heic": b"", "x": b"%PDF-1",
                       "IMG_1.HEIC": b"\0\0\0\x18ftypheic\0\0\0\0mif1heic", ".hidden": b""}.items():  # fmt: skip
        (folder / "cat" / name).write_bytes(data)
    shutil.copy(folder / "cat" / "cat0.png", folder / "lost.png")
    sentence = (
        "2 not images (more.csv, ...); 1 in no class's folder (lost.png); "
        "1 HEIC, read after pip install 'keras-vit-zoo[heic]' (IMG_1.HEIC); 1 camera raw (raw.NEF); 1 PDF (x)."
    )
    with pytest.warns(UserWarning) as warned:
        train, test = (open_split("folder", split, str(folder)) for split in ("train", "test"))
    assert {str(warning.message) for warning in warned} == {f"left out of {str(folder)!r}: {sentence}"}
    files = {Path(path).name for path in (*train.files, *test.files)}
    assert "e.heic" in files  # no image at all, which its name hides: reading it stops the run
    assert not files & {"notes.txt", "more.csv", "raw.NEF", "x", "IMG_1.HEIC", ".hidden"}


def test_a_class_may_have_any_name(folder):
    """Also what looks like a split, or like Python's own; not the folder that a Mac's archives bring."""
    for name in ("train", "__init__", "__MACOSX"):
        (folder / name).mkdir()
        shutil.copy(folder / "cat" / "cat0.png", folder / name)
    assert open_split("folder", "train", str(folder)).labels == ("__init__", "cat", "dog", "train")


def test_splits_that_hold_no_classes_are_no_classes(folder):
    for name in ("train", "val"):
        (folder / name).mkdir()
        shutil.copy(folder / "cat" / "cat0.png", folder / name)
    with pytest.raises(ValueError, match="a folder for each of at least 2 classes in '.*/train', found 0"):
        open_split("folder", "train", str(folder))


@pytest.mark.parametrize("place", ["", "cat", "cat/more"])
def test_a_name_that_is_not_utf_8_is_told_with_its_folder(place, folder):
    (folder / "cat" / "more").mkdir()
    name = b"caf\xe9.png"
    Path(os.fsdecode(os.fsencode(folder / place) + b"/" + name)).touch()
    sentence = f"directory expected names in UTF-8 in '{folder / place.split('/')[0]}' and below, received {name!r}."
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
        open_split("folder", "train", str(folder))


@pytest.mark.parametrize("name", ["test", "validation"])
def test_train_and_test_folders(folder, tmp_path_factory, name):
    root = tmp_path_factory.mktemp("split")
    (root / "train").mkdir()
    for label in ("cat", "dog"):
        (folder / label).rename(root / "train" / label)
        (root / name / label).mkdir(parents=True)
    Image.fromarray(np.zeros((8, 8), "uint8")).save(root / name / "dog" / "grey.png")
    assert open_split("folder", "train", str(root)).counts == (10, 5)
    assert open_split("folder", "test", str(root)).counts == (0, 1)
    (root / name / "bird").mkdir()
    with pytest.raises(ValueError, match="expected only the classes cat, dog .* found bird"):
        open_split("folder", "test", str(root))


@pytest.mark.parametrize("channels", [1, 3])
def test_held_out_equals_what_prediction_loads(folder, channels):
    shape = (16, 16, channels)
    images, labels, names = held_out(Data("folder", directory=str(folder)), shape)
    assert images.shape == (3, 16, 16, channels) and images.dtype == np.float32
    assert names == ["cat", "dog"]
    files = open_split("folder", "test", str(folder)).files
    for image, label, path in zip(images, labels, files, strict=True):
        assert names[label] in path
        assert np.max(np.abs(image - load_image(path, shape))) < 1e-3


def test_held_out_names_a_file_that_is_no_image(folder):
    broken = open_split("folder", "test", str(folder)).files[1]
    Path(broken).write_bytes(b"no picture")
    with pytest.raises(ValueError, match=f"^data expected an image file .* received '{re.escape(broken)}'"):
        held_out(Data("folder", directory=str(folder)), (8, 8, 3))


def test_held_out_digits():
    images, labels, names = held_out(Data("digits"), (8, 8, 1), limit=5)
    assert images.shape == (5, 8, 8, 1) and images.max() == 255 and labels.shape == (5,) and len(names) == 10
    assert held_out(Data("digits"), (16, 16, 3), limit=2)[0].shape == (2, 16, 16, 3)


@pytest.mark.parametrize(
    ("source", "split", "directory", "error", "message"),
    [
        ("digits", "validation", None, ValueError, "split expected test or train of digits, .* received 'validation'"),
        ("digits", "train[:x]", None, ValueError, "split expected .* received 'train"),
        (
            "cifar10",
            "train",
            None,
            ValueError,
            "source expected one of digits, folder, arrays, csv, tfds:NAME, vtab:TASK, received 'cifar10'",
        ),
        ("folder", "train", None, FileNotFoundError, "directory expected a folder of images .* found none at None"),
        ("folder", "train", "nowhere", FileNotFoundError, "found none at 'nowhere'"),
    ],
)
def test_bad_sources_get_one_sentence(source, split, directory, error, message):
    with pytest.raises(error, match=message):
        open_split(source, split, directory)


def test_a_folder_without_classes_or_images(tmp_path):
    with pytest.raises(ValueError, match="a folder for each of at least 2 classes in .* found 0"):
        open_split("folder", "train", str(tmp_path))
    for label in ("cat", "dog"):
        (tmp_path / label).mkdir()
    with pytest.raises(ValueError, match=r"directory expected images \(JPEG.*cat'.*found none"):
        open_split("folder", "train", str(tmp_path))


def test_a_place_is_read_as_tensorflow_reads_it(folder):
    """A scheme, as `gs://` is one: everything goes through TensorFlow's own file systems."""
    here, there = (open_split("folder", "train", place) for place in (str(folder), f"file://{folder}/"))
    assert [path.removeprefix("file://") for path in there.files] == list(here.files)
    images = [row[1] for row in there.images().as_numpy_iterator()]
    assert all(len(image) > 50 for image in images) and len(images) == 12


def test_a_split_without_examples_is_refused_when_it_is_opened(folder, tmp_path_factory):
    root = tmp_path_factory.mktemp("split")
    (root / "test" / "cat").mkdir(parents=True)
    folder.rename(root / "train")
    none = "split expected one with examples, received '{}' of {}.*, which has none"
    for source, split, place in (
        ("folder", "test", str(root)),
        ("digits", "test[:0%]", None),
        ("arrays", "test[:1%]", arrays(root / "a.npz")),
    ):
        with pytest.raises(ValueError, match=none.format(re.escape(split), source)):
            open_split(source, split, place)
    with pytest.raises(ValueError, match="received 'test' of folder .*, which has none"):
        held_out(Data("folder", directory=str(root)), (8, 8, 3))


def test_classes_and_counts_in_a_line(folder):
    examples = open_split("folder", "train", str(folder))
    assert examples.listing() == "12 images of 2 classes: cat 8, dog 4"
    assert open_split("digits", "test").listing(2) == "359 images of 10 classes: 0 36, 1 36, and 8 more"


def test_arrays():
    pixels = np.zeros((4, 8, 8, 3), "uint8")
    assert from_arrays(pixels, [0, 2, 1, 1]).labels == ("0", "1", "2")
    assert from_arrays(pixels, [0, 0, 1, 1], ["no", "yes"]).counts == (2, 2)
    for wrong, message in (
        ((pixels / 255.0, [0] * 4), "images expected uint8 .* received float64"),
        ((pixels[0], [0] * 4), r"images expected .* received uint8 \(8, 8, 3\)"),
        ((pixels, [0] * 3), r"targets expected 4 class indices, received int64 \(3,\)"),
        ((pixels, [0.0] * 4), "targets expected 4 class indices, received float64"),
        ((pixels, [0, 1, 2, 3], ["a", "b"]), "targets expected indices of the 2 classes, received 0 to 3"),
    ):
        with pytest.raises(ValueError, match=message):
            from_arrays(*wrong)


def test_a_graph_does_not_hold_the_pixels():
    """Past 2 GiB it could not."""
    pixels = np.random.default_rng(0).integers(0, 256, (64, 32, 32, 3), "uint8")
    stream = tf.function(from_arrays(pixels, np.arange(64) % 2).stream)
    graph = stream.get_concrete_function(tf.constant(0, tf.int64)).graph
    assert graph.as_graph_def().ByteSize() < pixels.nbytes / 10


def arrays(path, **changes):
    """A file of 20 pictures to train on and 8 to test on, whose grey level is 10 times the class."""
    parts = {"train": np.arange(20) % 4, "test": np.arange(8) % 4}
    found = {f"y_{name}": y[:, None] for name, y in parts.items()}  # Keras's CIFAR has columns
    found |= {f"x_{name}": (10 * y)[:, None, None] * np.ones((1, 6, 5), "uint8") for name, y in parts.items()}
    found = {name: array.astype("uint8") for name, array in found.items()} | changes
    np.savez(path, **{name: array for name, array in found.items() if array is not None})
    return str(path)


def test_arrays_in_a_file(tmp_path):
    path = arrays(tmp_path / "grey.npz")
    train, test = (open_split("arrays", split, path) for split in ("train", "test"))
    assert (train.count, test.count, train.shape) == (20, 8, (6, 5, 1)) and train.labels == tuple("0123")
    for images, labels in map(everything, (train, test)):
        assert all(np.all(image == 10 * label) for image, label in zip(images, labels, strict=True))
    part = open_split("arrays", "train[:50%]", path)
    assert part.count == 10 and len(set(everything(part)[1])) > 2
    for names in (["a", "b", "c", "ä"], [b"a", b"b", b"c", "ä".encode()]):
        named = arrays(tmp_path / "named.npz", labels=np.array(names))
        assert open_split("arrays", "test", named).labels == ("a", "b", "c", "ä")


def test_arrays_in_a_file_that_only_tensorflow_reads(tmp_path, monkeypatch):
    place = "ram://bucket/grey.npz"  # as in a bucket, which NumPy cannot open
    tf.io.gfile.copy(arrays(tmp_path / "grey.npz"), place)
    (images, labels), local = (everything(open_split("arrays", "train", path)) for path in
                               (place, str(tmp_path / "grey.npz")))  # fmt: skip
    assert np.array_equal(images, local[0]) and np.array_equal(labels, local[1])
    for nothing in ("ram://bucket/other.npz", "ram://bucket", "nowhere://bucket/grey.npz"):
        with pytest.raises(OSError, match=f"directory expected an .npz file .* at '{nothing}'"):
            open_split("arrays", "train", nothing)


@pytest.mark.parametrize("place", ["{tmp}/broken.npz", "ram://bucket/broken.npz"])
@pytest.mark.parametrize("damage", ["empty", "truncated", "npy", "corrupt", "text"])
def test_a_damaged_file_of_arrays_gets_a_sentence(damage, place, tmp_path):
    whole = Path(arrays(tmp_path / "whole.npz")).read_bytes()
    np.save(tmp_path / "one.npy", np.zeros(3))
    middle = whole.index(b"x_train") + 200  # among the pixels
    data = {
        "empty": b"", "truncated": whole[:-300], "npy": (tmp_path / "one.npy").read_bytes(), "text": b"no arrays",
        "corrupt": whole[:middle] + b"damaged" + whole[middle + 7 :],
    }  # fmt: skip
    place = place.format(tmp=tmp_path)
    with tf.io.gfile.GFile(place, "wb") as file:
        file.write(data[damage])
    sentence = f"directory expected an .npz file that can be read at '{place}', which failed ("
    with pytest.raises(OSError, match=re.escape(sentence)) as error:
        open_split("arrays", "train", place)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("shape", [(20, 4), (2, 10), (21,), (19, 1), ()])
def test_labels_that_are_not_one_an_image_are_refused(tmp_path, shape):
    path = arrays(tmp_path / "other.npz", y_train=np.zeros(shape, "uint8"))
    sentence = f"y_train expected the class index of each image of x_train (20, 6, 5), received {shape}."
    with pytest.raises(ValueError, match=re.escape(sentence)):
        open_split("arrays", "train", path)


def test_an_empty_part_is_refused_when_it_is_opened(tmp_path):
    path = arrays(tmp_path / "half.npz", x_test=np.zeros((0, 6, 5), "uint8"), y_test=np.zeros(0, "uint8"))
    assert open_split("arrays", "train", path).count == 20
    with pytest.raises(ValueError, match="split expected one with examples, received 'test' of "):
        open_split("arrays", "test", path)


def test_arrays_that_are_none(tmp_path):
    with pytest.raises(FileNotFoundError, match="directory expected an .npz file .* found none at None; pass"):
        open_split("arrays", "train")
    with pytest.raises(ValueError, match="expected the arrays x_train.* found no y_test"):
        open_split("arrays", "train", arrays(tmp_path / "less.npz", y_test=None))
    with pytest.raises(ValueError, match="images expected uint8"):
        open_split("arrays", "train", arrays(tmp_path / "float.npz", x_train=np.zeros((20, 6, 5))))
