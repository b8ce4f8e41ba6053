"""Files that are no images: left out and counted, and the run still exact."""

import re
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from support import needs_tensorflow

from keras_vit.data.broken import naming_broken_files, without_broken
from keras_vit.data.check import check_files
from keras_vit.data.examples import in_memory
from keras_vit.data.pipeline import training_batches
from keras_vit.data.sources import open_data, open_split
from keras_vit.train.recipe import Augment, Data

pytestmark = needs_tensorflow


@pytest.fixture
def folder(tmp_path):
    """240 pictures of two classes, each of its own shade."""
    for i in range(240):
        place = tmp_path / ("cat", "dog")[i % 2]
        place.mkdir(exist_ok=True)
        Image.fromarray(np.full((16, 16, 3), i, "uint8")).save(place / f"{i}.{('png', 'jpg')[i % 4 // 2]}")
    return tmp_path


def shades(examples, **options):
    options = {"batch_size": 8, "input_shape": (16, 16, 3), "epochs": 2, "scale": False, **options}
    return [
        x[:, 0, 0, 0].round().tolist() for x, _ in training_batches(examples, Augment(), **options).as_numpy_iterator()
    ]


def test_broken_files_are_left_out_and_counted(folder):
    whole = open_split("folder", "train", str(folder), on_error="skip")  # no warning, for warnings are errors
    assert whole.count == 192
    path = next(path for path in whole.files if path.endswith(".jpg"))
    picture = Path(path)
    picture.write_bytes(picture.read_bytes()[: picture.stat().st_size // 2])  # a truncated file has a good header
    with pytest.warns(
        UserWarning, match="left out, because they cannot be decoded: 1 of the 192 files of train of folder"
    ) as warned:
        examples = open_data(Data("folder", directory=str(folder), on_error="skip"))
    assert len(warned) == 1 and path in str(warned[0].message)
    assert examples.count == 191 == sum(examples.counts) == len(examples.files)
    assert examples.listing().startswith("191 images of 2 classes: cat ")
    found = shades(examples)
    assert len(found) == 2 * (191 // 8) and shades(examples, start=30) == found[30:]
    seen = [shade for batch in found for shade in batch]
    broken = float(path.rpartition("/")[2].split(".")[0])
    assert broken not in seen and len(set(seen)) == 191


@pytest.mark.broad
@pytest.mark.parametrize("kind", ["BMP", "TIFF"])
def test_a_damaged_file_that_pillow_decodes_is_named_or_skipped(kind, tmp_path):
    path = tmp_path / "a.bmp"
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (7, 5), "uint8")).save(path, kind)
    path.write_bytes(path.read_bytes()[:-20])
    examples = in_memory(np.array([str(path)]), [0], ["a"], (str(path),))
    for crop in ("none", "inception"):
        with pytest.raises(ValueError, match=f"data expected .* received '{path}'"), naming_broken_files(examples):
            list(training_batches(examples, Augment(crop), batch_size=1, input_shape=(8, 8, 3), epochs=1))
    with pytest.raises(ValueError, match="found 1 of the 1 files"):
        without_broken(examples, "a test")


def test_an_image_whose_package_is_missing_names_the_package_whatever_its_file_is_called(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pillow_heif", None)  # not installed
    path = tmp_path / "IMG_1.jpg"
    path.write_bytes(b"\0\0\0\x18ftypheic\0\0\0\0mif1heic")
    examples = in_memory(np.array([str(path)]), [0], ["a"], (str(path),))
    sentence = f"received HEIC in '{path}': pip install 'keras-vit-zoo[heic]'."
    with pytest.raises(ValueError, match=re.escape(sentence)), naming_broken_files(examples):
        list(training_batches(examples, Augment("none"), batch_size=1, input_shape=(8, 8, 3), epochs=1))
    (facts,) = check_files([(str(path), "train", "a")])
    assert facts.broken == "HEIC, read after pip install 'keras-vit-zoo[heic]'"


@pytest.mark.broad
def test_three_are_left_out_whatever_their_share_and_more_than_one_in_a_hundred_are_an_error(folder):
    files = open_split("folder", "train", str(folder)).files
    for path in files[:3]:
        Path(path).write_bytes(b"no picture")
    with pytest.warns(UserWarning, match="left out, because they cannot be decoded: 3 of the 192 files"):
        assert open_split("folder", "train", str(folder), on_error="skip").count == 189
    Path(files[3]).write_bytes(b"no picture")
    with pytest.raises(ValueError, match=f"at most 3 files, or 1%, to be unreadable, found 4 of the 192 .*{files[0]}"):
        open_split("folder", "train", str(folder), on_error="skip")


@pytest.mark.broad
def test_a_file_that_was_named_broken_may_be_gone_and_leaves_the_splits_as_they_were(folder):
    """Without that, one file less shuffles the parts of a split anew: a validation on pictures trained on."""
    parts = ("train[:75%]", "train[75%:]", "test")
    before = [open_split("folder", part, str(folder)) for part in parts]
    victim = before[0].files[7]
    found = shades(before[0], epochs=1)
    Path(victim).unlink()
    name = str(Path(victim).relative_to(folder))
    after = [open_split("folder", part, str(folder), left_out=(name,)) for part in parts]
    assert after[0].files == tuple(path for path in before[0].files if path != victim)
    assert [split.files for split in after[1:]] == [split.files for split in before[1:]]
    assert after[0].whole.files == before[0].files and after[1].whole is None
    shade = float(Path(victim).stem)
    ours, theirs = (sum(batches, []) for batches in (shades(after[0], epochs=1), found))
    assert ours[:120] == [x for x in theirs if x != shade][:120]
