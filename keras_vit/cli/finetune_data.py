"""Read the images that `keras-vit finetune` learns from, and write the table of their splits."""

from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

from keras_vit.cli.new_data import DataFacts, median_side, tfds_facts
from keras_vit.cli.table_options import CLASSES, TableTargets

COLUMNS = ("path", "split", "sha256")  # of an earlier table, beside the labels


@dataclass(frozen=True)
class Findings:
    """What is worth a word: files that are left out, near-duplicates across given splits, and images of each class."""

    broken: tuple[tuple[str, str], ...] = ()  # (path, reason)
    across: tuple[tuple[str, ...], ...] = ()
    counts: tuple[tuple[str, int], ...] = ()


def facts_of(
    source: str, table: Path, earlier: str | None, targets: TableTargets = CLASSES
) -> tuple[DataFacts, Findings]:
    """Return the facts about a folder, a CSV file or `tfds:NAME`, and write the table of a folder or a CSV file.

    Args:
        source: the images.
        table: the table to write.
        earlier: a table whose files keep their splits; None without one.
        targets: what a CSV file states, and the order of the classes.

    Raises:
        FileNotFoundError: the source does not exist.
        ValueError: the source has fewer than two classes or labels, or too few readable images for three splits.
    """
    if source.startswith("tfds:"):
        if earlier:
            raise ValueError(
                f"--splits expected a folder or a CSV file of images, received {source!r}, which has its own."
            )
        return _in_order(_of_tfds(source), targets.order), Findings()
    from keras_vit.data.splits import File, across, divide
    from keras_vit.data.table import read_table, write_table

    if targets.kind != "classes":
        stated = _stated(source, targets)
        rows, note = stated.rows, stated.note
    else:
        stated = None
        rows, note = _rows_of_table(source) if source.endswith(".csv") else _rows_of_folder(source)
    facts = _checked(rows)
    readable = [fact for fact in facts if fact.broken is None]
    before = {row["sha256"]: row["split"] for row in read_table(earlier, COLUMNS, "--splits")[1]} if earlier else {}
    files = [File(fact.path, fact.label, fact.split or None, fact.digest, fact.thumbnail) for fact in readable]
    splits = divide(files, before)
    labels = tuple(sorted({label for _, _, label in rows}))
    _require_splits(source, labels if stated is None else (), files, splits)
    # The SHA-256 of each file lets a later call keep its split.
    columns = targets.columns or ("label",)
    own = lambda file: {"label": file.label} if stated is None else stated.cells[file.path]  # noqa: E731
    write_table(table, ({"path": str(Path(file.path).absolute()), **own(file), "split": splits[file.path],
                         "sha256": file.digest} for file in files), ("path", *columns, "split", "sha256"))  # fmt: skip
    grey, counts = all("grey" in fact.odd for fact in readable), Counter(splits.values())
    trained = [file for file in files if splits[file.path] == "train"]
    data = DataFacts(
        "csv", str(table), labels if stated is None else stated.names, counts["train"], counts["test"],
        split_note=note, grey=grey, side=median_side([file.path for file in files]), validation=counts["validation"],
        validation_split="validation", targets=targets,
    )  # fmt: skip
    of_labels = ()
    if stated is None:
        data = replace(data, train_counts=tuple(Counter(file.label for file in trained).most_common()))
        of_labels = Counter(file.label for file in files).most_common()
    elif stated.hot is not None:
        data = replace(data, multi=True, label_share=_label_share(source, stated, trained))
        of_labels = zip(stated.names, sum(stated.hot[file.path] for file in files).tolist(), strict=True)
    data = _in_order(data, targets.order)
    broken = tuple((fact.path, fact.broken) for fact in facts if fact.broken)
    leaks = tuple(tuple(paths) for paths in across(files, splits))
    return data, Findings(broken, leaks, tuple(of_labels))


def _require_splits(source: str, labels, files: list, splits: dict[str, str]) -> None:
    """Raise a ValueError unless each class has images to train on, and all three splits have images."""
    lacking = sorted(set(labels) - {file.label for file in files if splits[file.path] == "train"})
    if lacking or not {"train", "validation", "test"} <= set(splits.values()):
        what = f"readable images of every class to train on, found none of {', '.join(lacking)}"
        of_classes = f" of {len(labels)} classes" * bool(labels)
        few = f"at least 3 readable images in a class, for three splits, found {len(files)}{of_classes}"
        raise ValueError(f"FOLDER expected {what if lacking else few} in {source!r}.")


def _label_share(source: str, stated: "_Stated", trained: list) -> float:
    """Return the mean share of the training images that have a label, in (0, 1).

    Raises:
        ValueError: a label has no image to train on.
    """
    counts = sum(stated.hot[file.path] for file in trained)
    if lacking := [name for name, count in zip(stated.names, counts, strict=True) if not count]:
        raise ValueError(f"FOLDER expected readable images of every label to train on, found none of "
                         f"{', '.join(lacking)} in {source!r}.")  # fmt: skip
    return min(float(counts.sum() / (len(trained) * len(counts))), 0.99)


def _in_order(data: DataFacts, order: tuple[str, ...]) -> DataFacts:
    """Return the facts with the classes in an order, if one is given."""
    if order and set(order) != set(data.labels):
        raise ValueError(f"--order expected the names of all classes ({', '.join(data.labels)}), received "
                         f"{', '.join(order)}.")  # fmt: skip
    return replace(data, labels=order, targets=TableTargets(order=order)) if order else data


@dataclass(frozen=True)
class _Stated:
    """What a table states beside one class per image.

    Args:
        rows: (path, given split or an empty text, what stands for the class in the division) of each image.
        note: a sentence about the splits.
        names: names of the labels or targets.
        cells: path -> cells of the table by column.
        hot: path -> 0 or 1 for each of several labels (K,); None for probabilities and numbers.
    """

    rows: list[tuple[str, str, str]]
    note: str
    names: tuple[str, ...]
    cells: dict[str, dict[str, str]]
    hot: dict | None = None


def _stated(file: str, targets: TableTargets) -> _Stated:
    """Return what a table of several labels, probabilities or numbers states."""
    from keras_vit.data.numbers import numbers_of, probabilities_of
    from keras_vit.data.splits import class_of_labels, class_of_values
    from keras_vit.data.table import file_of, read_table, several_of

    names, rows = read_table(file, ("path", *targets.columns) if targets.kind != "several" else (), "FOLDER")
    own, files = targets.columns, [file_of(row["path"], file) for row in rows]
    cells = {path: {name: row[name] for name in targets.columns} for path, row in zip(files, rows, strict=True)}
    if targets.kind == "several":
        own, values = several_of(names, rows, file)
        if len(own) < 2:
            raise ValueError(f"FOLDER expected at least 2 labels in {file!r}, found {len(own)}.")
        groups = class_of_labels(own, values)
    elif targets.kind == "probabilities":
        values = probabilities_of(rows, own, file)
        groups = [own[i] for i in values.argmax(axis=1)]
    else:
        groups = class_of_values(numbers_of(rows, own, file))
    splits, note = _splits_of(names, rows, file)
    hot = dict(zip(files, values, strict=True)) if targets.kind == "several" else None
    return _Stated(list(zip(files, splits, groups, strict=True)), note, tuple(own), cells, hot)


def _rows_of_folder(folder: str) -> tuple[list[tuple[str, str, str]], str]:
    """Return (path, given split or an empty text, class) of each file, and a note about the splits."""
    from keras_vit.data.folder import files_of_splits, given_splits

    if not Path(folder).is_dir() and "://" not in folder:
        raise FileNotFoundError(
            "FOLDER expected a folder of images (CLASS/*.jpg or train/CLASS/*.jpg), a CSV file with the columns path "
            f"and label, or tfds:NAME, found none at {folder!r}."
        )
    given = given_splits(folder.rstrip("/"))
    rows = [
        (path, split if given else "", label)
        for split, classes in files_of_splits(folder, empty=True).items()
        for label, paths in classes.items()
        for path in paths
    ]
    return rows, _note(given)


def _rows_of_table(file: str) -> tuple[list[tuple[str, str, str]], str]:
    """Return the same of a CSV file. Its column `split` may be missing."""
    from keras_vit.data.table import file_of, read_table

    columns, rows = read_table(file, ("path", "label"), "FOLDER")
    splits, note = _splits_of(columns, rows, file)
    return [(file_of(row["path"], file), split, row["label"]) for row, split in zip(rows, splits, strict=True)], note


def _splits_of(columns, rows, file: str) -> tuple[list[str], str]:
    """Return the given split of each row, or empty texts, and a note about the splits."""
    from keras_vit.data.splits import SPLITS

    given = {row["split"] for row in rows} if "split" in columns else set()
    if given and not {"train"} <= given <= set(SPLITS):
        raise ValueError(f"split expected 'train', and 'validation' or 'test', in {file!r}, found {sorted(given)}.")
    return [row["split"] if given else "" for row in rows], _note(given)


def _note(given) -> str:
    if not given:
        return ("Every class was divided by the content of its files: 70 % to train on, 15 % for validation and 15 % "
                "to test. Near-duplicates stay together.")  # fmt: skip
    kept = " and ".join(split for split in ("test", "validation") if split in given)
    return f"The given {kept or 'train'} split is kept; what is missing was divided from train by content."


def _checked(rows) -> list:
    """Read every file once, as `keras-vit check` does."""
    from keras_vit.data.check import check_files
    from keras_vit.predict.progress import Progress
    from keras_vit.terminal import hide_stderr

    with hide_stderr(Exception), Progress(len(rows), unit="files") as progress:  # the decoders print, too
        return [fact for fact in check_files(rows) if progress.add()]


def _of_tfds(source: str) -> DataFacts:
    """Return the facts about a prepared data set. A tenth of `train` selects the weights if it has no validation."""
    from keras_vit.data.tfds import prepared

    data = tfds_facts(source, None)
    splits = prepared(source.removeprefix("tfds:"), None).info.splits
    if "validation" in splits and data.test_split != "validation":
        return replace(data, validation=splits["validation"].num_examples, validation_split="validation")
    last = 100 if data.train_split == "train" else 90  # the last tenth is the test split where there is no other
    tenth = round(splits["train"].num_examples / 10)
    names = {"train_split": f"train[:{last - 10}%]", "validation_split": f"train[{last - 10}%:{last}%]"}
    return replace(data, train=data.train - tenth, validation=tenth, **names)
