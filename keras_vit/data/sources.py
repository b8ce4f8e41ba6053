"""Open the sources of examples: scikit-learn's digits, a folder, a table, arrays, TensorFlow Datasets and VTAB-1k.

A source knows the names of its classes and its splits. A split streams (index, image, label). The image is uint8
pixels (H, W, C) or encoded. The index is the same in every epoch, because seeds depend on it.
"""

import re
from dataclasses import replace

import numpy as np

from keras_vit.data import SOURCES
from keras_vit.data.arrays import from_arrays as from_arrays
from keras_vit.data.arrays import open_arrays
from keras_vit.data.broken import without_absent, without_broken
from keras_vit.data.examples import Examples as Examples
from keras_vit.data.examples import in_memory as in_memory
from keras_vit.data.examples import require_some
from keras_vit.data.folder import HELD_OUT, files_of, open_folder
from keras_vit.data.order import in_order
from keras_vit.data.table import open_table

SHUFFLE = 250_000
_SLICE = re.compile(r"(\w+)(?:\[(?:(\d+)%)?:(?:(\d+)%)?\])?")


def open_data(data, split: str | None = None, directory: str | None = None, left_out: tuple[str, ...] = ()) -> Examples:
    """Open one split of a recipe's `Data`, by default the training split; see `open_split`.

    `directory` replaces the directory in `data`.
    """
    directory, split = directory or data.directory, split or data.train_split
    return open_split(
        data.source, split, directory, data.shuffle, data.on_error, left_out, data.exif, data.targets, data.columns,
        data.classes,
    )  # fmt: skip


def open_split(
    source: str,
    split: str,
    directory: str | None = None,
    shuffle: int = SHUFFLE,
    on_error: str = "stop",
    left_out: tuple[str, ...] = (),
    exif: bool = True,
    targets: str = "classes",
    columns: tuple[str, ...] = (),
    classes: tuple[str, ...] = (),
) -> Examples:
    """Open one split of a source.

    Args:
        source: `digits`, `folder`, `csv`, `arrays`, `tfds:NAME` or `vtab:TASK`.
        split: `train`, `test`, or a part of one such as `train[:90%]`; for VTAB `train800`, `val200`, `vtab1k` or
            `test`.
        directory: the folder of images, the file of a table or of arrays, or the data folder of TensorFlow Datasets.
        shuffle: size of the shuffle buffer in examples, for streamed data.
        on_error: `stop` raises an error when a broken file is read; `skip` leaves broken files out.
        left_out: names of files in a folder that may have been deleted since the run began. The other files keep their
            split, order and seeds.
        exif: whether to apply EXIF orientations.
        targets, columns, classes: as in a recipe's `Data`.

    Raises:
        FileNotFoundError: the data does not exist.
        ValueError: the source or the split is unknown, the split has no examples, or too many files are broken.
    """
    if source == "digits":
        examples = _digits(split)
    elif source == "folder":
        examples = open_folder(split, directory, _part, left_out)
    elif source == "csv":
        examples = open_table(split, directory, _part, left_out, targets, columns)
    elif source == "arrays":
        examples = open_arrays(split, directory, _part)
    elif source.startswith("tfds:"):
        from keras_vit.data.tfds import open_tfds

        examples = open_tfds(source.removeprefix("tfds:"), split, directory, shuffle)
    elif source.startswith("vtab:"):
        from keras_vit.data.vtab import open_task

        examples = open_task(source.removeprefix("vtab:"), split, directory, shuffle)
    else:
        raise ValueError(f"source expected one of {', '.join(SOURCES)}, received {source!r}.")
    examples = replace(examples, exif=exif)
    examples = in_order(examples, classes) if classes else examples
    if on_error == "skip":
        return without_broken(examples, f"{split} of {source}")
    return without_absent(examples, files_of(left_out, directory)) if left_out and examples.files else examples


def _digits(split):
    """Open a split of scikit-learn's digits: 1,797 grey images of 8 x 8 pixels."""
    from sklearn.datasets import load_digits

    bunch = load_digits()
    images = np.round(bunch.images * (255 / 16)).astype("uint8")[..., None]
    rng = np.random.default_rng(0)  # changing this seed changes the split, and every published accuracy
    classes = [rng.permutation(np.flatnonzero(bunch.target == digit)) for digit in range(10)]
    cuts = [round(HELD_OUT * len(members)) for members in classes]
    parts = {
        "test": np.concatenate([members[:cut] for members, cut in zip(classes, cuts, strict=True)]),
        "train": np.concatenate([members[cut:] for members, cut in zip(classes, cuts, strict=True)]),
    }
    name, chosen = _part(split, parts, "digits")
    chosen = rng.permutation(parts[name])[chosen]
    return in_memory(images[chosen], bunch.target[chosen], [str(digit) for digit in range(10)])


def _part(split, parts, source):
    """Parse a split such as `train[:90%]`. Return its name and the slice of its examples."""
    match = _SLICE.fullmatch(split)
    if not match or match[1] not in parts:
        raise ValueError(f"split expected {' or '.join(sorted(parts))} of {source}, or a part as in 'train[:90%]', "
                         f"received {split!r}.")  # fmt: skip
    count = len(parts[match[1]])
    start, stop = (round(count * int(percent) / 100) if percent else None for percent in match.groups()[1:])
    require_some(len(range(count)[start:stop]), split, source)
    return match[1], slice(start, stop)
