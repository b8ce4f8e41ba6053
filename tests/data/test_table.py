"""Tables of paths and labels: CSV files in three forms."""

import numpy as np
import pytest
import tensorflow as tf
from support import needs_tensorflow

from keras_vit.data.broken import without_broken
from keras_vit.data.folder import files_of, folder_of, name_of
from keras_vit.data.sources import open_split

pytestmark = needs_tensorflow
LABELS = {"a.png": "cat;dog", "b.png": "", "sub/c.png": "owl", "d.png": "dog; owl;cat", "e.png": "dog"}


@pytest.fixture
def folder(tmp_path):
    for i, name in enumerate(LABELS):
        pixels = np.full((4, 4, 3), i * 40, "uint8")
        tf.io.write_file(str(tmp_path / name), tf.io.encode_png(pixels))
    return tmp_path


def write(folder, text):
    (folder / "labels.csv").write_text(text, encoding="utf-8")
    return str(folder / "labels.csv")


def rows(examples):
    """The set of labels of each file, by the file's name."""
    found = {}
    for _, path, label in examples.stream().as_numpy_iterator():
        own = {examples.labels[i] for i in np.atleast_1d(label)}
        found[path.decode().rsplit("/", 1)[1]] = own
    return found


EXPECTED = {"a.png": {"cat", "dog"}, "b.png": set(), "c.png": {"owl"}, "d.png": {"cat", "dog", "owl"}, "e.png": {"dog"}}


@pytest.mark.parametrize("form", ["list", "matrix"])
def test_several_labels_as_a_list_or_as_columns(folder, form):
    if form == "list":
        text = "\ufeffpath,labels,split\n" + "".join(f"{name},{own},all\n" for name, own in LABELS.items())
    else:
        text = "split,path,cat,dog,owl\n" + "".join(
            f"all,{name}," + ",".join(str(int(label in own)) for label in ("cat", "dog", "owl")) + "\n"
            for name, own in LABELS.items()
        )
    found = open_split("csv", "all", write(folder, text))
    assert found.multi and found.encoded and found.labels == ("cat", "dog", "owl") and found.counts == (2, 3, 2)
    assert rows(found) == EXPECTED
    assert {tuple(row) for row in found.targets.tolist()} == {(1, 1, 0), (0, 0, 0), (0, 0, 1), (1, 1, 1), (0, 1, 0)}


def test_one_class_per_image_and_splits_of_the_table(folder):
    table = write(folder, "path,label,split\na.png,x,train\nb.png,y,train\nsub/c.png,x,test\nd.png,y,validation\n")
    train, test = (open_split("csv", split, table) for split in ("train", "test"))
    assert not train.multi and train.labels == test.labels == ("x", "y") and train.counts == (1, 1)
    assert rows(train) == {"a.png": {"x"}, "b.png": {"y"}} and rows(test) == {"c.png": {"x"}}
    assert open_split("csv", "validation", table).count == 1
    with pytest.raises(ValueError, match="split expected test or train or validation of csv"):
        open_split("csv", "other", table)


def test_without_a_column_a_fifth_is_the_test_split_whatever_else_the_table_holds(folder):
    names = [f"{i}.png" for i in range(200)]
    for name in names:
        (folder / name).write_bytes(b"")
    table = lambda part: write(folder, "path,label\n" + "".join(f"{name},{'xy'[i % 2]}\n" for i, name in part))  # noqa: E731
    whole = [open_split("csv", split, table(list(enumerate(names)))) for split in ("train", "test")]
    assert 20 < whole[1].count < 60 and whole[0].count + whole[1].count == 200
    half = open_split("csv", "test", table(list(enumerate(names))[:100]))
    assert set(half.files) < set(whole[1].files)


def test_broken_files_are_left_out_with_their_labels(folder):
    (folder / "d.png").write_bytes(b"no picture")
    text = "path,labels,split\n" + "".join(f"{name},{own},all\n" for name, own in LABELS.items())
    with pytest.warns(UserWarning, match="left out"):
        good = without_broken(open_split("csv", "all", write(folder, text)), "all of csv")
    assert good.counts == (1, 2, 1) and "d.png" not in rows(good) and good.whole.counts == (2, 3, 2)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "file,label\na.png,x\n",
            "expected a CSV file with the columns path and label, .* with the columns file, label",
        ),
        ("path\na.png\n", "expected a CSV file with the columns .* with the columns path"),
        (
            "path,label,labels\na.png,x,y\n",
            "expected a CSV file with the columns .* path, label, labels",
        ),
        ("path,label\na.png,x\na.png,y\n", "path expected every file once in .*, received 'a.png' again"),
        ("", "expected a CSV file with the columns .* with the columns none"),
        ("path,label\n", "expected a value for each of the 2 columns in each row of .* found no row"),
        ("path,label\na.png,x\nb.png\n", "expected a value for each of the 2 columns .* found another number in row 2"),
        ("path,label\na.png,x,y\n", "expected a value for each of the 2 columns .* found another number in row 1"),
        ("path,cat,dog\na.png,1,0.5\n", "expected 0 or 1 in the columns of labels of .* received '0.5'"),
        ("path,label\na.png,x\n", "expected at least 2 labels in .* found 1"),
        ("path,labels,split\na.png,x;y,all\nz.png,x,all\n", "path expected files that exist, received '.*z.png'"),
    ],
)
def test_a_wrong_table_gets_one_sentence(folder, text, message):
    with pytest.raises((ValueError, FileNotFoundError), match=message) as error:
        open_split("csv", "all", write(folder, text))
    assert "\n" not in str(error.value)
    with pytest.raises(FileNotFoundError, match="directory expected a CSV file with .* pass its path as --data-dir"):
        open_split("csv", "train", str(folder))


def test_files_are_named_from_the_tables_folder(folder):
    table = str(folder / "labels.csv")
    assert folder_of(table) == str(folder) and folder_of("labels.csv") == "."
    assert (
        name_of(f"{folder}/sub/c.png", table) == "sub/c.png"
        and name_of("/elsewhere/c.png", table) == "/elsewhere/c.png"
    )
    assert files_of(("sub/c.png", "/elsewhere/c.png"), table) == {f"{folder}/sub/c.png", "/elsewhere/c.png"}


def test_further_columns_are_ignored_beside_the_label(folder):
    table = write(folder, "path,label,split,sha256\na.png,x,all,1f\nb.png,y,all,2e\n")
    assert rows(open_split("csv", "all", table)) == {"a.png": {"x"}, "b.png": {"y"}}
