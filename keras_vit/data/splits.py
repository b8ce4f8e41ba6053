"""Divide images into train, validation and test, or into folds.

The split of a file depends on its content, not on its name, and is stratified by class. Near-duplicates stay together.
A table that was written before is respected: its files keep their splits when more images are added.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from keras_vit.data.near_duplicates import groups

SPLITS = ("train", "validation", "test")
HELD_OUT = {"test": 0.15, "validation": 0.15}  # shares of every class
FIFTHS = 5  # groups of values, each of which is divided
UNLABELLED = "no label"  # stands for the class of an image without labels


@dataclass(frozen=True)
class File:
    """A readable image: its path, its class, its given split or None, its SHA-256, and the vector of its thumbnail."""

    path: str
    label: str
    split: str | None
    digest: str
    thumbnail: np.ndarray


def divide(files: Iterable[File], before: dict[str, str] | None = None) -> dict[str, str]:
    """Return the split of each file: path -> `train`, `validation` or `test`.

    Groups of near-duplicates are taken in the order of the smallest SHA-256 among them. In each class, the first groups
    fill the test split to 15 %, the next ones validation, and the rest is for training. A class of three or more
    images has at least one image in each split.

    Args:
        files: the images. A file of a given `test` or `validation` keeps its split; a given `train` is divided into
            training and, if none is given, validation.
        before: SHA-256 -> split, as an earlier table has it. Such files keep their splits, and new near-duplicates of
            them join them.
    """
    files, before = list(files), before or {}
    given = {file.split for file in files}
    free = [split for split in HELD_OUT if split not in given]
    have, splits, groups_to_choose = Counter(), {}, []
    for group in _groups(files):
        fixed = {file.path: _fixed(file, before) for file in group}
        known = [split for split in SPLITS[::-1] if split in fixed.values()]
        movable = [file for file in group if fixed[file.path] is None]
        _assign([file for file in group if fixed[file.path]], fixed, splits, have)
        if movable and known and None in given:
            _assign(movable, dict.fromkeys(fixed, known[0]), splits, have)
        elif movable:
            groups_to_choose.append(movable)
    wanted = _wanted(files, free)
    for group in groups_to_choose:
        label = Counter(file.label for file in group).most_common(1)[0][0]
        split = next((split for split in free if have[label, split] < wanted[label, split]), "train")
        _assign(group, dict.fromkeys((file.path for file in group), split), splits, have)
    return splits


def fold_of(files: Iterable[File], count: int) -> dict[str, int]:
    """Return the fold of each file: path -> 0 to `count` - 1.

    Near-duplicates are in one fold. The largest groups are taken first, then those with the smallest SHA-256. Each goes
    to the fold with the fewest images of its class, and among these to the smallest fold.
    """
    have, sizes, folds = Counter(), Counter(), {}
    for group in sorted(_groups(list(files)), key=len, reverse=True):
        label = Counter(file.label for file in group).most_common(1)[0][0]
        fold = min(range(count), key=lambda fold: (have[label, fold], sizes[fold]))
        for file in group:
            folds[file.path] = fold
            have[file.label, fold] += 1
        sizes[fold] += len(group)
    return folds


def class_of_values(values: np.ndarray) -> list[str]:
    """Return what stands for the class of each image in a regression: the fifth of its first value. (N, T) -> N."""
    ranks = values[:, 0].argsort(kind="stable").argsort()
    return [f"fifth {1 + FIFTHS * rank // len(values)}" for rank in ranks]


def class_of_labels(names: Sequence[str], hot: np.ndarray) -> list[str]:
    """Return what stands for the class of each image with several labels: its rarest label. 0 or 1 (N, K) -> N."""
    counts = hot.sum(axis=0)
    rarest = np.where(hot > 0, counts, counts.max(initial=0) + 1).argmin(axis=1)
    return [names[i] if own.any() else UNLABELLED for i, own in zip(rarest, hot, strict=True)]


def across(files: Iterable[File], splits: dict[str, str]) -> list[list[str]]:
    """Return the paths of the near-duplicates that lie in different splits, which given splits can cause."""
    found = ([file.path for file in group] for group in _groups(list(files)))
    return [paths for paths in found if len({splits[path] for path in paths}) > 1]


def _groups(files: list[File]) -> list[list[File]]:
    """Return the groups of near-duplicates, in the order of the smallest SHA-256 of each."""
    members, by_content = defaultdict(list), {}
    for file, number in zip(files, groups([file.thumbnail for file in files]), strict=True):
        members[by_content.setdefault(file.digest, number)].append(file)
    return sorted(members.values(), key=lambda group: min(file.digest for file in group))


def _fixed(file: File, before: dict[str, str]) -> str | None:
    """Return the split that a file must have; None if it can be chosen."""
    return file.split if file.split in HELD_OUT else before.get(file.digest)


def _wanted(files, splits) -> Counter:
    """Return the number of images of each (class, split)."""
    wanted = Counter()
    for label, count in Counter(file.label for file in files if file.split not in HELD_OUT).items():
        for split in splits:
            wanted[label, split] = max(1, round(HELD_OUT[split] * count)) if count >= len(SPLITS) else 0
    return wanted


def _assign(files, split_of: dict, splits: dict, have: Counter) -> None:
    for file in files:
        splits[file.path] = split_of[file.path]
        have[file.label, split_of[file.path]] += 1
