"""Read the facts about a data set that `keras-vit new` writes into a recipe."""

import io
import math
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from keras_vit.cli.table_options import CLASSES, TableTargets

MEASURED = 200  # files whose sizes are read
TESTS = ("test", "validation", "val")  # names of test splits of TensorFlow Datasets


@dataclass(frozen=True)
class DataFacts:
    """Facts about a data set.

    Args:
        source: the data source, as in `Data`.
        directory: the folder, as in `Data`; None for the default.
        labels: names of the classes.
        train: number of training examples.
        test: number of test examples.
        train_split: training split, as in `Data`.
        test_split: test split, as in `Data`.
        split_note: a sentence about the splits.
        side: median of the shorter sides in pixels; None if unknown.
        grey: whether all images are grey.
        broken: number of files that cannot be read.
        too_many: whether training refuses to leave out so many.
        multi: whether an example has a list of classes.
        validation: number of validation examples.
        validation_split: split that selects the weights; None without one.
        targets: what a table states; `labels` are then the names of its classes or columns.
        train_counts: (class, number of training images), the rarest class last; empty if unknown or without classes.
        label_share: mean share of the training images that have one of several labels, in (0, 1); None if unknown.
    """

    source: str
    directory: str | None
    labels: tuple[str, ...]
    train: int
    test: int
    train_split: str = "train"
    test_split: str = "test"
    split_note: str = ""
    side: int | None = None
    grey: bool = False
    broken: int = 0
    too_many: bool = False
    multi: bool = False
    validation: int = 0
    validation_split: str | None = None
    targets: TableTargets = CLASSES
    train_counts: tuple[tuple[str, int], ...] = ()
    label_share: float | None = None

    @property
    def imbalance(self) -> float:
        """The ratio of the most frequent class to the rarest one in training; 1 if it is unknown."""
        return self.train_counts[0][1] / self.train_counts[-1][1] if self.train_counts else 1.0

    @property
    def head_bias(self) -> float:
        """The log odds of a label, from which a head of several labels begins; 0 for one class per image.

        Without the shares of the labels, an image is assumed to have one of them.
        """
        share = self.label_share or 1 / max(len(self.labels), 2)
        return round(math.log(share / (1 - share)), 1) if self.multi else 0.0


def digits_facts() -> DataFacts:
    """Return the facts about scikit-learn's digits."""
    from keras_vit.data.sources import open_split

    try:
        train, test = open_split("digits", "train"), open_split("digits", "test")
    except ImportError:
        raise ImportError(
            "--data expected a folder of images or tfds:NAME, received nothing, and the digits that stand in need "
            "scikit-learn: pip install 'keras-vit-zoo[recipes]'."
        ) from None
    note = "The test split is a fixed fifth of every class."
    return DataFacts("digits", None, tuple(train.labels), train.count, test.count, split_note=note, side=8, grey=True)


def folder_facts(folder: str) -> DataFacts:
    """Read every file of a folder of images, as `keras-vit check` does, and return the facts.

    Raises:
        FileNotFoundError: the folder does not exist.
        ValueError: the folder has fewer than two classes, or no readable images.
    """
    from keras_vit.data.broken import most_left_out
    from keras_vit.data.check import check_files, files_to_check
    from keras_vit.predict.progress import Progress
    from keras_vit.terminal import hide_stderr

    files, empty = files_to_check(folder)
    if without := [label for split, label in empty if split == "train"]:
        raise ValueError(
            f"--data expected images in the folder of each class, found none in {', '.join(without)}; put images "
            "there, or remove the folder."
        )
    with hide_stderr(Exception), Progress(len(files), unit="files") as progress:  # the decoders print, too
        facts = [fact for fact in check_files(files) if progress.add()]
    readable = [fact for fact in facts if fact.broken is None]
    too_many = False
    for split in ("train", "test"):
        of_split = [fact for fact in facts if fact.split == split]
        too_many |= sum(fact.broken is not None for fact in of_split) > most_left_out(len(of_split))
    counts = {split: sum(fact.split == split for fact in readable) for split in ("train", "test")}
    labels = tuple(dict.fromkeys(label for _, _, label in files))
    if not counts["train"]:
        raise ValueError(f"--data expected training images that can be read in {folder!r}, found none.")
    splits = ("train", "test") if counts["test"] else ("train[:80%]", "train[80%:]")
    if not counts["test"]:
        note = (
            "The folder has no test split, so the last fifth of its training images in a fixed order is the test split."
        )
        cut = round(0.8 * counts["train"])
        counts = {"train": cut, "test": counts["train"] - cut}
    elif any(f"/{fact.split}/" not in fact.path.removeprefix(str(folder).rstrip("/")) for fact in readable[:1]):
        note = "The test split is a fixed fifth of every class."
    else:
        note = "The folder has its own test split."
    grey = all("grey" in fact.odd for fact in readable)
    side = median_side([fact.path for fact in readable])
    return DataFacts("folder", str(folder), tuple(sorted(labels)), counts["train"], counts["test"], *splits, note,
                     side, grey, len(facts) - len(readable), too_many)  # fmt: skip


def median_side(paths: list[str]) -> int | None:
    """Return the median of the shorter sides of a sample of files, in pixels; None if Pillow reads none."""
    import tensorflow as tf
    from PIL import Image

    sides = []
    for path in paths[:: -(-len(paths) // MEASURED)]:
        try:
            with (
                warnings.catch_warnings(action="ignore"),
                tf.io.gfile.GFile(path, "rb") as file,
                Image.open(io.BytesIO(file.read())) as image,
            ):
                sides.append(min(image.size))
        except Exception:  # Pillow raises many types; the files were decoded before
            continue
    return int(median(sides)) if sides else None


def tfds_facts(source: str, directory: str | None) -> DataFacts:
    """Return the facts about a prepared data set of TensorFlow Datasets.

    Raises:
        FileNotFoundError: the data set has not been prepared.
        ValueError: the data set has no image and label, or no split `train`.
    """
    from keras_vit.data.tfds import open_tfds, prepared

    name = source.removeprefix("tfds:")
    builder = prepared(name, directory)
    splits = ("train", next((split for split in TESTS if split in builder.info.splits), None))
    note = f"The test split is the data set's `{splits[1]}`."
    if splits[1] is None:
        splits = ("train[:90%]", "train[90%:]")
        note = "The data set has no test split, so the last tenth of `train` is the test split."
    train, test = (open_tfds(name, split, directory, 1) for split in splits)
    height, width, channels = builder.info.features["image"].shape
    side = min(height, width) if height and width else None
    return DataFacts(source, directory, tuple(train.labels), train.count, test.count, *splits, note, side,
                     channels == 1, multi=train.multi)  # fmt: skip


def table_facts(file: str, targets: TableTargets) -> DataFacts:
    """Read the images of a CSV file, as `keras-vit check` does, and return the facts.

    Raises:
        FileNotFoundError: the file does not exist.
        ValueError: the file does not state the targets, or has no training or test images.
    """
    from keras_vit.data.broken import most_left_out
    from keras_vit.data.check import check_files, files_to_check
    from keras_vit.data.sources import open_split
    from keras_vit.predict.progress import Progress
    from keras_vit.terminal import hide_stderr

    own = targets if targets.kind != "several" else CLASSES  # as a recipe says it
    stated = {"targets": own.kind, "columns": own.columns, "classes": own.order}
    files, _ = files_to_check(file)
    with hide_stderr(Exception), Progress(len(files), unit="files") as progress:  # the decoders print, too
        facts = [fact for fact in check_files(files) if progress.add()]
    by_split = {name: [fact for fact in facts if fact.split == name] for name in ("train", "test")}
    broken = {name: sum(fact.broken is not None for fact in own) for name, own in by_split.items()}
    splits = ("train", "test") if by_split["test"] else ("train[:80%]", "train[80%:]")
    train, test = (open_split("csv", split, file, **stated) for split in splits)
    readable = [fact for fact in facts if fact.broken is None]
    note = "The table has a column of splits." if by_split["test"] else (
        "The table has no test split, so the last fifth of its training images in a fixed order is the test split."
    )  # fmt: skip
    share = min(float(train.targets.mean()), 0.99) if train.multi else None
    return DataFacts(
        "csv", file, tuple(train.labels), train.count - broken["train"], test.count - broken["test"], *splits, note,
        median_side([fact.path for fact in readable]), all("grey" in fact.odd for fact in readable),
        sum(broken.values()), any(broken[name] > most_left_out(len(by_split[name])) for name in broken),
        train.multi, targets=targets, label_share=share,
    )  # fmt: skip


def facts_of(source: str | None, directory: str | None = None, targets: TableTargets = CLASSES) -> DataFacts:
    """Return the facts about a folder, a CSV file, `tfds:NAME`, or scikit-learn's digits if the source is None."""
    if source is not None and source.endswith(".csv"):
        return table_facts(source, targets)
    if targets.order:
        data = facts_of(source, directory)
        if set(targets.order) != set(data.labels):
            raise ValueError(f"--order expected the names of all classes ({', '.join(data.labels)}), received "
                             f"{', '.join(targets.order)}.")  # fmt: skip
        return replace(data, labels=targets.order, targets=targets)
    if source is None:
        return digits_facts()
    if source.startswith("tfds:"):
        return tfds_facts(source, directory)
    if not Path(source).is_dir() and "://" not in source:
        raise FileNotFoundError(f"--data expected a folder of images (CLASS/*.jpg or train/CLASS/*.jpg), a CSV file "
                                f"or tfds:NAME, found no folder {source!r}.")  # fmt: skip
    return folder_facts(source)
