"""Find broken, duplicate and unusual files in a folder of images by reading each file once."""

import hashlib
import io
import os
import warnings
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from keras_vit.data.decode import decode
from keras_vit.data.folder import files_of_splits
from keras_vit.data.near_duplicates import thumbnail_of_file
from keras_vit.data.table import rows_to_check
from keras_vit.preprocessing.decode import missing_package
from keras_vit.preprocessing.kinds import kind_of

FEW = 10  # classes with fewer training images are listed
SMALL, LARGE = 32, 50_000_000  # minimum of the shorter side, maximum of the whole image, in pixels
LONG = 4  # maximum ratio of the sides
ORIENTATION = 0x0112  # EXIF's tag
_SUFFIXES = {
    "JPEG": (".jpg", ".jpeg", ".jpe", ".jfif"),
    "PNG": (".png", ".apng"),
    "BMP": (".bmp", ".dib"),
    "TIFF": (".tif", ".tiff"),
    "HEIC": (".heic", ".heif", ".hif"),
}


@dataclass(frozen=True)
class FileFacts:
    """Findings about one file.

    Args:
        path, split, label: where the file lies.
        digest: SHA-256 of its content.
        broken: why it cannot be read, or None.
        odd: its unusual properties.
        thumbnail: the vector (256,) that `near_duplicates.groups` compares; None for a file that cannot be read.
    """

    path: str
    split: str
    label: str
    digest: str
    broken: str | None
    odd: tuple[str, ...]
    thumbnail: np.ndarray | None = None


def files_to_check(directory: str) -> tuple[list[tuple[str, str, str]], list[tuple[str, str]]]:
    """Return (path, split, class) of each file that training would read, and (split, class) of each empty class.

    The class is an empty text for the rows of a CSV file without a column `label`.
    """
    if str(directory).endswith(".csv"):
        return rows_to_check(directory), []
    rows, empty = [], []
    for split, labels in files_of_splits(directory, empty=True).items():
        for label, files in labels.items():
            rows += [(path, split, label) for path in files]
            empty += [] if files else [(split, label)]
    return rows, empty


def check_files(files: list[tuple[str, str, str]]) -> Iterator[FileFacts]:
    """Read the files (path, split, class) in several threads, and yield the findings in order."""
    decoded = tf.function(decode, input_signature=[tf.TensorSpec((), tf.string)], autograph=False)
    with warnings.catch_warnings(), ThreadPoolExecutor(os.cpu_count() or 1) as threads:
        warnings.simplefilter("ignore")  # Pillow's, about metadata
        yield from threads.map(lambda row: _facts(decoded, *row), files)


def _facts(decoded, path, split, label) -> FileFacts:
    try:
        with tf.io.gfile.GFile(path, "rb") as file:
            data = file.read()
    except tf.errors.OpError as error:
        return FileFacts(path, split, label, "", _reason(error), ())
    digest = hashlib.sha256(data).hexdigest()
    kind = kind_of(data)
    try:
        if not data:
            return FileFacts(path, split, label, digest, "the file is empty", ())
        if kind is None:
            return FileFacts(path, split, label, digest, "no image", ())
        if needed := missing_package(kind):
            return FileFacts(path, split, label, digest, f"{kind}, read after {needed}", ())
        decoded(data)
    except tf.errors.OpError as error:
        return FileFacts(path, split, label, digest, f"{kind} that is damaged ({_reason(error)})", ())
    return FileFacts(path, split, label, digest, None, tuple(_oddities(path, data, kind)), thumbnail_of_file(data))


def _reason(error) -> str:
    """Return the sentence of an error of TensorFlow, which stands in front of the name of the operation."""
    lines = [line.strip() for line in str(error.message).split("[[{{")[0].splitlines() if line.strip()]
    return (lines or ["no reason is stated"])[-1].split(" [Op:")[0].removeprefix("ValueError: ").rstrip(".")[:120]


def _oddities(path: str, data: bytes, kind: str) -> Iterator[str]:
    """Yield the unusual properties of a readable image."""
    from PIL import Image

    suffix = os.path.splitext(path)[1].lower()
    if suffix not in _SUFFIXES.get(kind, (f".{kind.lower()}",)):
        yield f"{kind} in a file without a suffix" if not suffix else f"{kind} in a file named {suffix}"
    try:
        with Image.open(io.BytesIO(data)) as image:
            (width, height), mode = image.size, image.mode
            frames, turned = getattr(image, "n_frames", 1), image.getexif().get(ORIENTATION, 1)
    except Exception:  # Pillow raises many types; TensorFlow has decoded the file
        return
    if frames > 1:
        yield "animated: the first picture is used"
    if mode in ("1", "L", "LA") or mode.startswith("I"):
        yield "grey"
    if mode == "CMYK":
        yield "CMYK"
    if turned not in (0, 1):
        yield "turned by its EXIF orientation"
    if min(width, height) < SMALL:
        yield f"a side shorter than {SMALL} pixels"
    if width * height > LARGE:
        yield f"more than {LARGE:,} pixels"
    if max(width, height) > LONG * min(width, height):
        yield f"more than {LONG} times as long as wide"


def findings(facts: list[FileFacts], empty: list[tuple[str, str]]) -> dict:
    """Return all findings as plain lists and dicts. `empty` lists (split, class) of the classes without files."""
    splits, odd, by_content = {}, defaultdict(list), defaultdict(list)
    for split, label in empty:
        splits.setdefault(split, {})[label] = 0
    for fact in facts:
        counts = splits.setdefault(fact.split, {})
        counts[fact.label] = counts.get(fact.label, 0) + (fact.broken is None)
        if fact.digest:
            by_content[fact.digest].append(fact)
        for oddity in fact.odd:
            odd[oddity].append(fact.path)
    alike = [group for group in by_content.values() if len(group) > 1]
    across = [group for group in alike if len({(fact.split, fact.label) for fact in group}) > 1]
    paths = lambda groups: [[fact.path for fact in group] for group in groups]  # noqa: E731
    train = splits.get("train", {})
    report = {
        "files": len(facts),
        "splits": {split: dict(sorted(counts.items())) for split, counts in sorted(splits.items(), reverse=True)},
        "broken": [{"file": fact.path, "reason": fact.broken} for fact in facts if fact.broken],
        "duplicates_across": paths(across),
        "duplicates_within": paths([group for group in alike if group not in across]),
        "empty_classes": [{"split": split, "class": label} for split, label in empty],
        "tiny_classes": [{"class": label, "files": n} for label, n in sorted(train.items()) if label and 0 < n < FEW],
        "odd": dict(sorted(odd.items())),
    }
    care = ("broken", "duplicates_across", "empty_classes", "tiny_classes")
    return report | {"needs_care": any(report[name] for name in care)}
