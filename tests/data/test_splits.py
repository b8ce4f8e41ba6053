"""A folder is divided into three splits, and a table states them."""

import hashlib
import io
from collections import Counter

import keras
import numpy as np
import pytest
from PIL import Image

from keras_vit.data.near_duplicates import SIDE, groups, thumbnail_of_file
from keras_vit.data.splits import UNLABELLED, File, across, class_of_labels, class_of_values, divide
from keras_vit.data.table import COLUMNS, read_table, write_table

pytestmark = pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="tf.data reads the files")

NOTHING = np.zeros(SIDE * SIDE, "float32")  # of a picture that is not compared


def encoded(picture, kind="JPEG", **options):
    stream = io.BytesIO()
    picture.save(stream, kind, **options)
    return stream.getvalue()


def picture(seed, size=(96, 64)):
    """Blots of colour, as smooth as a photograph."""
    cells = np.random.default_rng(seed).integers(0, 256, (6, 8, 3), "uint8")
    return Image.fromarray(cells).resize(size, Image.Resampling.BICUBIC)


def test_copies_in_another_size_or_quality_are_near_duplicates_and_other_pictures_are_not():
    one = picture(0)
    same = [one.resize((48, 32)), one.resize((200, 133)), one.convert("L").convert("RGB")]
    again = [encoded(one, quality=95), encoded(one, quality=40), encoded(one, "PNG"), *map(encoded, same)]
    others = [encoded(picture(seed)) for seed in range(1, 40)]
    numbers = groups(list(map(thumbnail_of_file, [*again, *others])))
    assert numbers == [0] * len(again) + list(range(len(again), len(again) + len(others)))


def test_a_turned_photograph_is_seen_upright_and_what_shows_nothing_is_not_compared():
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned by a quarter
    turned = encoded(picture(0).transpose(Image.Transpose.ROTATE_90), exif=exif, quality=95)
    assert groups(list(map(thumbnail_of_file, [encoded(picture(0), quality=95), turned]))) == [0, 0]
    plain = encoded(Image.new("RGB", (40, 40), "white"))
    nothing = [thumbnail_of_file(data) for data in (plain, b"no image")]
    assert not np.any(nothing) and groups(nothing) == [0, 1]


def files(counts, split=None, start=0):
    """Pictures without near-duplicates: {label: number}."""
    return [
        File(f"{label}/{i}.jpg", label, split, hashlib.sha256(f"{label}{i}".encode()).hexdigest(), NOTHING)
        for label, count in counts.items()
        for i in range(start, start + count)
    ]


def test_every_class_is_divided_alike_and_by_content():
    some = files({"cat": 100, "dog": 20, "emu": 3, "fox": 2})
    splits = divide(some)
    counts = Counter((file.label, splits[file.path]) for file in some)
    assert [counts["cat", name] for name in ("train", "validation", "test")] == [70, 15, 15]
    assert [counts["dog", name] for name in ("train", "validation", "test")] == [14, 3, 3]
    assert [counts["emu", name] for name in ("train", "validation", "test")] == [1, 1, 1]
    assert counts["fox", "train"] == 2
    renamed = [File(f"else/{file.path}", file.label, None, file.digest, NOTHING) for file in reversed(some)]
    assert {path.removeprefix("else/"): split for path, split in divide(renamed).items()} == splits


def test_more_images_change_no_files_split():
    some, more = files({"cat": 40, "dog": 40}), files({"cat": 200, "dog": 60}, start=40)
    first = divide(some)
    splits = divide([*more, *some], {file.digest: first[file.path] for file in some})
    assert all(splits[file.path] == first[file.path] for file in some)
    counts = Counter((file.label, splits[file.path]) for file in [*some, *more])
    assert (counts["cat", "test"], counts["dog", "validation"]) == (36, 15)


def test_near_duplicates_stay_together_and_a_new_one_joins_them():
    grey = np.full(SIDE * SIDE, 1 / SIDE, "float32")
    some = files({"cat": 30})
    alike = [File(f"cat/copy{i}.jpg", "cat", None, hashlib.sha256(bytes([i])).hexdigest(), grey) for i in range(6)]
    splits = divide([*some, *alike])
    assert len({splits[file.path] for file in alike}) == 1 and across([*some, *alike], splits) == []
    later = divide([*some, *alike], {alike[3].digest: "validation"})
    assert {later[file.path] for file in alike} == {"validation"}


def test_given_splits_are_kept_and_near_duplicates_across_them_are_found():
    grey = np.full(SIDE * SIDE, 1 / SIDE, "float32")
    train, test = files({"cat": 40, "dog": 40}, "train"), files({"cat": 5, "dog": 5}, "test", start=40)
    leak = [File(f"{split}.jpg", "cat", split, split, grey) for split in ("train", "test")]
    splits = divide([*train, *test, *leak])
    assert {splits[file.path] for file in test} == {"test"} and splits["test.jpg"] == "test"
    assert Counter(splits[file.path] for file in train) == {"train": 68, "validation": 12}
    assert across([*train, *test, *leak], splits) == [["train.jpg", "test.jpg"]]
    validated = files({"cat": 4, "dog": 4}, "validation", start=50)
    splits = divide([*train, *test, *validated])
    assert Counter(splits.values()) == {"train": 80, "test": 10, "validation": 8}


def test_a_table_is_written_whole_or_not_at_all(tmp_path):
    (tmp_path / "table.csv.partial").mkdir()
    with pytest.raises(OSError, match="table.csv"):
        write_table(tmp_path / "table.csv", [dict.fromkeys(COLUMNS, "a")])
    (tmp_path / "table.csv.partial").rmdir()
    write_table(tmp_path / "table.csv", [dict.fromkeys(COLUMNS, 'a "b", c')])
    assert read_table(tmp_path / "table.csv")[1] == [dict.fromkeys(COLUMNS, 'a "b", c')]


def test_what_stands_for_the_class_of_values_and_of_several_labels():
    values = np.array([[5.0], [1.0], [9.0], [3.0], [7.0]])
    assert class_of_values(values) == ["fifth 3", "fifth 1", "fifth 5", "fifth 2", "fifth 4"]
    hot = np.array([[1, 0, 1], [1, 1, 0], [1, 0, 0], [0, 0, 0], [1, 1, 0]])
    assert class_of_labels(("a", "b", "c"), hot) == ["c", "b", "a", UNLABELLED, "b"]
