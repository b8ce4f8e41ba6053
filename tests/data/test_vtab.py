"""VTAB-1k's rows against the published table and splits, and read from small data sets in TFDS's own format.

The public data itself is not here: label maps run on examples made by hand, splits on published numbers.
"""

import numpy as np
import pytest
import tensorflow as tf
from support import needs_tensorflow

from keras_vit.data import vtab
from keras_vit.data.evaluation import held_out
from keras_vit.data.sources import open_split
from keras_vit.train.recipe import Data

pytestmark = needs_tensorflow
tfds = pytest.importorskip("tensorflow_datasets", reason="tensorflow-datasets is not installed")

# Group, classes, examples of TFDS's `train`, then the validation of 200 and the test split of the benchmark's code.
PUBLISHED = {
    "caltech101": ("natural", 102, 3057, "train[2751:2951]", "test"),
    "cifar100": ("natural", 100, 50000, "train[45000:45200]", "test"),
    "dtd": ("natural", 47, 1880, "validation[:200]", "test"),
    "flowers102": ("natural", 102, 1020, "validation[:200]", "test"),
    "pets": ("natural", 37, 3680, "train[2944:3144]", "test"),
    "sun397": ("natural", 397, 76128, "validation[:200]", "test"),
    "svhn": ("natural", 10, 73257, "train[65931:66131]", "test"),
    "camelyon": ("specialized", 2, 262144, "validation[:200]", "test"),
    "eurosat": ("specialized", 10, 27000, "train[16200:16400]", "train[21600:]"),
    "resisc45": ("specialized", 45, 31500, "train[18900:19100]", "train[25200:]"),
    "retinopathy": ("specialized", 5, 35126, "validation[:200]", "test"),
    "clevr_count": ("structured", 8, 70000, "train[63000:63200]", "validation"),
    "clevr_dist": ("structured", 6, 70000, "train[63000:63200]", "validation"),
    "dmlab": ("structured", 6, 65550, "validation[:200]", "test"),
    "dsprites_loc": ("structured", 16, 737280, "train[589824:590024]", "train[663552:]"),
    "dsprites_ori": ("structured", 16, 737280, "train[589824:590024]", "train[663552:]"),
    "kitti_dist": ("structured", 4, 6347, "validation[:200]", "test"),
    "smallnorb_azim": ("structured", 18, 24300, "test[:200]", "test[50%:]"),
    "smallnorb_elev": ("structured", 9, 24300, "test[:200]", "test[50%:]"),
}


def test_the_rows_are_the_published_ones():
    assert [task.name for task in vtab.TASKS] == list(PUBLISHED)
    for task in vtab.TASKS:
        group, classes, train, held, test = PUBLISHED[task.name]
        assert (task.group, task.classes) == (group, classes)
        found = [task.split(name, train) for name in vtab.SPLITS]
        assert found == ["train[:800]", held, f"train[:800]+{held}", test], task.name


def test_label_maps_on_examples_made_by_hand():
    def depths(*z):
        return {"objects": {"pixel_coords": tf.constant([[1.0, 2.0, x] for x in z]), "size": tf.zeros(len(z))}}

    assert [int(vtab.nearest_object(depths(z, 50.0))) for z in (7.9, 8.2, 8.7, 9.4, 9.9, 30.0)] == [0, 1, 2, 3, 4, 5]
    assert [int(vtab.object_count(depths(*[9.0] * n))) for n in (3, 10)] == [0, 7]

    def street(*objects):
        kinds, z = zip(*objects, strict=True) if objects else ((), ())
        place = tf.reshape(tf.constant([[0.0, 0.0, x] for x in z]), (-1, 3))
        return {"objects": {"type": tf.constant(kinds, tf.int64), "location": place}}

    cases = [street((0, 7.0), (1, 90.0)), street((2, 19.0)), street((1, 20.5), (3, 1.0)), street((3, 5.0)), street()]
    assert [int(vtab.nearest_vehicle(case)) for case in cases] == [0, 1, 2, 3, 3]
    place, turn = (vtab.find_task(f"dsprites_{name}") for name in ("loc", "ori"))
    assert [int(place.label({"label_x_position": tf.constant(i)})) for i in (0, 1, 2, 31)] == [0, 0, 1, 15]
    assert [int(turn.label({"label_orientation": tf.constant(i)})) for i in (0, 2, 3, 4, 5, 39)] == [0, 0, 1, 1, 2, 15]


def made(root, name, features, examples, version="2.0.0"):
    """A data set in TFDS's format."""
    tfds.dataset_builders.store_as_tfds_dataset(
        name=name,
        version=version,
        data_dir=str(root),
        features=tfds.features.FeaturesDict(features),
        split_datasets={split: tf.data.Dataset.from_tensor_slices(rows) for split, rows in examples.items()},
        disable_shuffling=True,
    )


def test_dsprites_are_white_on_black(tmp_path):
    count = 2000
    rows = {
        "image": np.ones((count, 6, 6, 1), "uint8") * (np.arange(count) % 2).astype("uint8")[:, None, None, None],
        "label_x_position": np.arange(count) % 32,
        "label_orientation": np.arange(count) % 40,
    }
    features = {
        "image": tfds.features.Image(shape=(6, 6, 1)),
        "label_x_position": tfds.features.ClassLabel(num_classes=32),
        "label_orientation": tfds.features.ClassLabel(num_classes=40),
    }
    made(tmp_path, "dsprites", features, {"train": rows})
    counts = {s: open_split("vtab:dsprites_loc", s, str(tmp_path)).count for s in vtab.SPLITS}
    assert counts == {"train800": 800, "val200": 200, "vtab1k": 1000, "test": 200}
    data = Data("vtab:dsprites_ori", str(tmp_path), "vtab1k", "test")
    images, labels, names = held_out(data, (6, 6, 3), limit=40)
    assert images.shape == (40, 6, 6, 3) and images[1].min() == 255 and images[0].max() == 0
    assert labels.tolist() == [int(i % 40 // 2.5) for i in range(1800, 1840)] and names == [str(i) for i in range(16)]


def test_grey_images_are_tiled(tmp_path):
    def rows(count):
        shades = np.arange(count, dtype="uint8")[:, None, None, None] * np.ones((1, 6, 6, 1), "uint8")
        return {
            "image": shades,
            "image2": shades,
            "label_azimuth": np.arange(count) % 18,
            "label_elevation": np.arange(count) % 9,
        }

    features = {
        "image": tfds.features.Image(shape=(6, 6, 1)),
        "image2": tfds.features.Image(shape=(6, 6, 1)),
        "label_azimuth": tfds.features.ClassLabel(num_classes=18),
        "label_elevation": tfds.features.ClassLabel(num_classes=9),
    }
    made(tmp_path, "smallnorb", features, {"train": rows(30), "test": rows(40)})
    images, labels, _ = held_out(Data("vtab:smallnorb_azim", str(tmp_path), "vtab1k", "test"), (6, 6, 3))
    assert labels.tolist() == [i % 18 for i in range(20, 40)]
    assert np.array_equal(images, np.arange(20, 40)[:, None, None, None] * np.ones((1, 6, 6, 3)))


def test_bad_names_get_one_sentence(tmp_path):
    with pytest.raises(ValueError, match="source expected vtab: and one of caltech101, .* received 'cifar10'"):
        open_split("vtab:cifar10", "test", str(tmp_path))
    with pytest.raises(ValueError, match="split expected one of train800, val200, vtab1k, test .* received 'train'"):
        open_split("vtab:dtd", "train", str(tmp_path))
    with pytest.raises(FileNotFoundError, match="'dtd:3.*' prepared in .*run `tfds build dtd"):
        open_split("vtab:dtd", "vtab1k", str(tmp_path))
