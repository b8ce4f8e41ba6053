"""Define the nineteen tasks of VTAB-1k (arXiv 1910.04867), with 1,000 training examples each, as rows.

The rows follow the benchmark's published code. The score is the mean of the nineteen top-1 accuracies.
"""

from collections.abc import Callable
from dataclasses import dataclass

import tensorflow as tf

from keras_vit.data.examples import Examples
from keras_vit.data.tfds import prepared, streamed

SPLITS = ("train800", "val200", "vtab1k", "test")


@dataclass(frozen=True)
class Task:
    """One task.

    Args:
        name: NAME in `vtab:NAME`.
        paper: name in the paper.
        group: `natural`, `specialized` or `structured`.
        dataset: name in TensorFlow Datasets.
        classes: number of classes.
        features: features from which the label is computed.
        label: a function of a dict of features that returns the class; None if the feature is the class.
        held_out: split with the validation examples; in `train`, they follow the first `percent`.
        percent: percentage of `train` before the validation examples; None if they are in another split.
        test: split with the test examples; None for the last `test_percent` of `train`.
        test_percent: see `test`.
        levels: value of the brightest pixel, which is scaled to 255.
    """

    name: str
    paper: str
    group: str
    dataset: str
    classes: int
    features: tuple[str, ...] = ("label",)
    label: Callable | None = None
    held_out: str = "validation"
    percent: int | None = None
    test: str | None = "test"
    test_percent: int | None = None
    levels: int = 255

    def split(self, name: str, train_count: int) -> str:
        """Return one of `SPLITS` in the syntax of TensorFlow Datasets, from the size of its `train` split."""
        begin = 0 if self.percent is None else self.percent * train_count // 100
        test = self.test
        if test is None:  # the benchmark rounds the training and validation parts separately
            test = f"train[{begin + (100 - self.percent - self.test_percent) * train_count // 100}:]"
        held_out = f"{self.held_out}[{begin or ''}:{begin + 200}]"
        return {"train800": "train[:800]", "val200": held_out, "vtab1k": f"train[:800]+{held_out}", "test": test}[name]


def nearest_object(row):
    """Return Clevr-Dist's class: the binned depth of the nearest object."""
    return _between(tf.reduce_min(row["objects"]["pixel_coords"][:, 2]), (0.0, 8.0, 8.5, 9.0, 9.5, 10.0, 100.0))


def nearest_vehicle(row):
    """Return KITTI-Dist's class: the binned distance in metres to the nearest car, van or truck; 3 if none."""
    depths = tf.where(row["objects"]["type"] < 3, row["objects"]["location"][:, 2], 1000.0)
    return _between(tf.minimum(tf.reduce_min(depths), 1000.0), (-100.0, 8.0, 20.0, 999.0))


def object_count(row):
    """Return Clevr-Count's class: 3 to 10 objects."""
    return tf.size(row["objects"]["size"]) - 3


def _between(value, thresholds):
    """Return the index of the last threshold below a value."""
    return tf.reduce_max(tf.where(tf.constant(thresholds) < value))


def _grouped(feature: str, size: float):
    """Return a function that bins a feature: its value divided by `size`, rounded down."""
    return lambda row: tf.math.floordiv(tf.cast(row[feature], tf.float32), size)


_TRAIN = {"held_out": "train"}
_CLEVR = {"dataset": "clevr:3.*.*", "features": ("objects",), **_TRAIN, "percent": 90, "test": "validation"}
_DSPRITES = {"dataset": "dsprites:2.*.*", "classes": 16, **_TRAIN, "percent": 80, "test": None, "test_percent": 10,
             "levels": 1}  # fmt: skip
_FIFTHS = {**_TRAIN, "percent": 60, "test": None, "test_percent": 20}
_NORB = {"dataset": "smallnorb:2.*.*", "held_out": "test", "test": "test[50%:]"}

TASKS = (
    Task("caltech101", "Caltech101", "natural", "caltech101:3.*.*", 102, **_TRAIN, percent=90),
    Task("cifar100", "CIFAR-100", "natural", "cifar100:3.*.*", 100, **_TRAIN, percent=90),
    Task("dtd", "DTD", "natural", "dtd:3.*.*", 47),
    Task("flowers102", "Flowers102", "natural", "oxford_flowers102:2.*.*", 102),
    Task("pets", "Pets", "natural", "oxford_iiit_pet:3.*.*", 37, **_TRAIN, percent=80),
    Task("sun397", "Sun397", "natural", "sun397/tfds:4.*.*", 397),
    Task("svhn", "SVHN", "natural", "svhn_cropped:3.*.*", 10, **_TRAIN, percent=90),
    Task("camelyon", "Camelyon", "specialized", "patch_camelyon:2.*.*", 2),
    Task("eurosat", "EuroSAT", "specialized", "eurosat/rgb:2.*.*", 10, **_FIFTHS),
    Task("resisc45", "Resisc45", "specialized", "resisc45:3.*.*", 45, **_FIFTHS),
    Task("retinopathy", "Retinopathy", "specialized", "diabetic_retinopathy_detection/btgraham-300:3.*.*", 5),
    Task("clevr_count", "Clevr-Count", "structured", classes=8, label=object_count, **_CLEVR),
    Task("clevr_dist", "Clevr-Dist", "structured", classes=6, label=nearest_object, **_CLEVR),
    Task("dmlab", "DMLab", "structured", "dmlab:2.0.1", 6),
    Task("dsprites_loc", "dSpr-Loc", "structured", features=("label_x_position",),
         label=_grouped("label_x_position", 2.0), **_DSPRITES),
    Task("dsprites_ori", "dSpr-Ori", "structured", features=("label_orientation",),
         label=_grouped("label_orientation", 2.5), **_DSPRITES),
    Task("kitti_dist", "KITTI-Dist", "structured", "kitti:3.1.0", 4, ("objects",), nearest_vehicle),
    Task("smallnorb_azim", "sNORB-Azim", "structured", classes=18, features=("label_azimuth",), **_NORB),
    Task("smallnorb_elev", "sNORB-Elev", "structured", classes=9, features=("label_elevation",), **_NORB),
)  # fmt: skip


def find_task(name: str) -> Task:
    """Return the task of a name, or raise a ValueError."""
    task = next((task for task in TASKS if task.name == name), None)
    if task is None:
        raise ValueError(f"source expected vtab: and one of {', '.join(t.name for t in TASKS)}, received {name!r}.")
    return task


def open_task(name: str, split: str, directory: str | None, shuffle: int) -> Examples:
    """Open one split of a task: `train800`, `val200`, `vtab1k` (both, on which the paper trains) or `test`.

    `directory` and `shuffle` are as in `open_tfds`.

    Raises:
        FileNotFoundError: the data set has not been prepared in the folder.
        ValueError: the task or the split is unknown.
    """
    task = find_task(name)
    if split not in SPLITS:
        raise ValueError(f"split expected one of {', '.join(SPLITS)} of vtab:{name}, received {split!r}.")
    builder = prepared(task.dataset, directory)
    feature = builder.info.features[task.features[0]]
    named = task.label is None and feature.num_classes == task.classes
    labels = feature.names if named else [str(i) for i in range(task.classes)]
    label = task.label or (lambda row: row[task.features[0]])
    return streamed(
        builder,
        task.split(split, builder.info.splits["train"].num_examples),
        shuffle,
        labels,
        {"image", *task.features},
        lambda row: tf.cast(label(row), tf.int64),
        read=None
        if task.levels == 255
        else lambda data: tf.io.decode_image(data, 1, expand_animations=False) * (255 // task.levels),
        shape=None if task.levels == 255 else (*builder.info.features["image"].shape[:2], 1),
    )
