"""Data sets of TensorFlow Datasets, read from a small one that is prepared here."""

import shutil

import numpy as np
import pytest
from support import needs_tensorflow

from keras_vit import cli
from keras_vit.data.broken import naming_broken_files
from keras_vit.data.evaluation import evaluation_batches, held_out
from keras_vit.data.pipeline import training_batches
from keras_vit.data.sources import open_split
from keras_vit.train.recipe import Augment, Data
from keras_vit.train.recipe.file import load_recipe

pytestmark = needs_tensorflow
tfds = pytest.importorskip("tensorflow_datasets", reason="tensorflow-datasets is not installed")


class TinyShapes(tfds.core.GeneratorBasedBuilder):
    """Twelve pictures of two classes."""

    VERSION = tfds.core.Version("1.0.0")

    def _info(self):
        features = {"image": tfds.features.Image(shape=(8, 8, 3)), "label": tfds.features.ClassLabel(names=["o", "x"])}
        return tfds.core.DatasetInfo(builder=self, features=tfds.features.FeaturesDict(features))

    def _split_generators(self, dl_manager):
        return {"train": self._generate_examples(0), "test": self._generate_examples(12)}

    def _generate_examples(self, start):
        for i in range(start, start + 12):
            yield i, {"image": np.full((8, 8, 3), 10 * i, "uint8"), "label": i % 2}


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    root = tmp_path_factory.mktemp("tfds")
    TinyShapes(data_dir=root).download_and_prepare()
    return str(root)


def test_examples_and_classes(directory):
    examples = open_split("tfds:tiny_shapes", "test[:50%]", directory)
    assert (examples.count, examples.labels) == (6, ("o", "x"))
    images, labels, names = held_out(Data("tfds:tiny_shapes"), (8, 8, 3), directory)
    assert names == ["o", "x"] and len(images) == 12
    assert np.array_equal(images[:, 0, 0, 0] % 20 // 10, labels)
    batches = evaluation_batches(examples, batch_size=4, input_shape=(8, 8, 3))
    assert sum(weights.sum() for _, _, weights in batches.as_numpy_iterator()) == 6


@pytest.mark.broad
def test_a_new_recipe_reads_its_facts_from_the_data_set(directory, tmp_path, capsys):
    command = ["new", str(tmp_path / "shapes.py"), "--data", "tfds:tiny_shapes", "--data-dir", directory]
    assert cli.main([*command, "--model", "ViT_Ti16"]) == 0
    assert "2 classes, 12 training and 12 test images\n" in capsys.readouterr().out
    recipe = load_recipe(tmp_path / "shapes.py")
    assert recipe.data == Data("tfds:tiny_shapes", directory, batch_size=2)
    assert (recipe.model.image_size, recipe.model.patch_size) == (8, 2)
    assert "(o, x)" in (tmp_path / "shapes.py").read_text()


@pytest.mark.broad
def test_order_hangs_on_seed_and_epoch(directory):
    examples = open_split("tfds:tiny_shapes", "train", directory)

    def seen(**options):
        batches = training_batches(
            examples, Augment(), batch_size=4, input_shape=(8, 8, 3), epochs=2, scale=False, **options
        )
        return [images[:, 0, 0, 0].tolist() for images, _ in batches.as_numpy_iterator()]

    whole = seen(seed=1)
    assert [sorted(sum(whole[i : i + 3], [])) for i in (0, 3)] == [[10.0 * i for i in range(12)]] * 2
    assert whole[:3] != whole[3:] and whole != seen(seed=2)
    assert seen(seed=1, start=4) == whole[4:]


def test_unknown_split_and_absent_set(directory):
    with pytest.raises(ValueError, match="split expected one of train, test, received 'validation'|received 'valid"):
        open_split("tfds:tiny_shapes", "validation", directory)
    with pytest.raises(ValueError, match=r"received 'test\[:1%\]' of tiny_shapes/1.0.0, which has none"):
        open_split("tfds:tiny_shapes", "test[:1%]", directory)
    with pytest.raises(FileNotFoundError, match="'cifar10' prepared in .*run `tfds build cifar10`.*--data-dir"):
        open_split("tfds:cifar10", "train", directory)


@pytest.mark.parametrize("damage", ["flipped", "cut", "gone"])
def test_a_damaged_record_is_told_of(damage, directory, tmp_path):
    shutil.copytree(directory, tmp_path / "tfds")
    examples = open_split("tfds:tiny_shapes", "train", str(tmp_path / "tfds"))
    (record,) = (tmp_path / "tfds").glob("*/*/*train.tfrecord*")
    data = bytearray(record.read_bytes())
    data[len(data) // 2] ^= 1
    if damage == "gone":
        record.unlink()
    else:
        record.write_bytes(data if damage == "flipped" else data[:-9])
    with (
        pytest.raises(ValueError, match="data expected examples that can be read, received one that cannot: ") as error,
        naming_broken_files(examples),
    ):
        list(evaluation_batches(examples, batch_size=4, input_shape=(8, 8, 3)))
    assert "\n" not in str(error.value)
