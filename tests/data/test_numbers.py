"""Columns of numbers in a table: probabilities of classes and targets of a regression; the order of classes."""

import numpy as np
import pytest
import tensorflow as tf
from support import needs_tensorflow

from keras_vit.data.balance import class_counts
from keras_vit.data.order import in_order
from keras_vit.data.sources import open_split

pytestmark = needs_tensorflow
NAMES = ("a.png", "b.png", "c.png", "d.png")


@pytest.fixture
def table(tmp_path):
    """A function that writes a table of four pictures with some columns, and returns its path."""
    for i, name in enumerate(NAMES):
        tf.io.write_file(str(tmp_path / name), tf.io.encode_png(np.full((4, 4, 3), i * 40, "uint8")))

    def write(header, *rows):
        lines = [f"path,split,{header}", *(f"{name},train,{row}" for name, row in zip(NAMES, rows, strict=True))]
        (tmp_path / "table.csv").write_text("\n".join(lines) + "\n")
        return str(tmp_path / "table.csv")

    return write


def by_file(examples):
    rows = examples.stream().as_numpy_iterator()
    return {path.decode().rsplit("/", 1)[1]: label.tolist() for _, path, label in rows}


def test_numbers_are_read_by_name_or_all_and_other_columns_may_be_empty(table):
    file = table("age,note,weight", "1.5,,-2", "2,x,1e3", "3,,0", "4,y,5")
    found = open_split("csv", "train", file, targets="numbers", columns=("weight", "age"))
    assert found.labels == ("weight", "age") and found.kind == "numbers" and not found.multi and found.counts is None
    assert by_file(found) == {"a.png": [-2, 1.5], "b.png": [1000, 2], "c.png": [0, 3], "d.png": [5, 4]}
    assert found.listing() == "4 images with values of weight, age"
    assert open_split("csv", "train", table("age", *"1234"), targets="numbers").labels == ("age",)


def test_probabilities_are_divided_by_their_rounded_sum(table):
    third = "0.33,0.33,0.33"
    found = open_split(
        "csv", "train", table("cat,dog,owl", third, "1,0,0", "0,0.5,0.5", third), targets="probabilities"
    )
    assert found.kind == "probabilities" and found.labels == ("cat", "dog", "owl")
    np.testing.assert_allclose(by_file(found)["a.png"], [1 / 3] * 3, rtol=1e-6)
    np.testing.assert_allclose(class_counts(found, "x"), [5 / 3, 7 / 6, 7 / 6], rtol=1e-6)


@pytest.mark.parametrize(
    ("targets", "columns", "rows", "sentence"),
    [
        ("probabilities", (), ("0.5,0.5", "0.5,0.4", "1,0", "1,0"), "sum to 1 in .* 0.5, 0.4 with the sum 0.9"),
        ("probabilities", (), ("1.5,-0.5", "1,0", "1,0", "1,0"), r"in \[0, 1\] that sum to 1 .* row 1; targets"),
        ("probabilities", ("x",), ("1,0", "1,0", "1,0", "1,0"), "expected a column for each of 2 classes or more"),
        ("numbers", (), ("1,2", "1,two", "1,0", "1,0"), "column 'y' of .* expected a number in .*, received 'two'"),
        ("numbers", (), ("1,2", "1,nan", "1,0", "1,0"), "expected a number in each row, received 'nan' in row 2"),
        ("numbers", ("z",), ("1,2", "1,3", "1,0", "1,0"), "the columns path, z, received .* with the columns path"),
        ("classes", (), ("1,2", "1,3", "1,0", "1,0"), "expected 0 or 1 .*, received '2'; targets 'numbers' or 'prob"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_with_the_row(targets, columns, rows, sentence, table):
    with pytest.raises(ValueError, match=sentence):
        open_split("csv", "train", table("x,y", *rows), targets=targets, columns=columns)


def test_a_table_without_targets_or_with_one_column_says_what_fits(table):
    with pytest.raises(ValueError, match="columns expected columns of .* without columns beside path, received none"):
        open_split("csv", "train", table("sha256", *"abcd"), targets="numbers")
    with pytest.raises(ValueError, match="at least 2 labels in .*, found 1; a column `label` with two classes fits"):
        open_split("csv", "train", table("cat", *"1010"))


@pytest.mark.parametrize("form", ["label", "labels"])
def test_classes_come_in_the_order_of_the_recipe(form, table):
    file = table(form, "low", "high", "middle", "low")
    plain, ordered = (open_split("csv", "train", file, classes=classes) for classes in ((), ("low", "middle", "high")))
    assert plain.labels == ("high", "low", "middle") and ordered.labels == ("low", "middle", "high")
    assert ordered.counts == (2, 1, 1)
    names = [
        {name: [each.labels[i] for i in np.atleast_1d(label)] for name, label in by_file(each).items()}
        for each in (plain, ordered)
    ]
    assert names[0] == names[1]
    rows = ordered.select(np.array([2, 0])).as_numpy_iterator()
    own = ordered.targets.argmax(1) if form == "labels" else ordered.targets
    assert [int(np.atleast_1d(label)[0]) for _, _, label in rows] == [own[2], own[0]]
    with pytest.raises(
        ValueError, match="classes expected the names of all classes of the data, received low, high; it"
    ):
        in_order(plain, ("low", "high"))
