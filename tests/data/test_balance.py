"""Balanced sampling: each class equally often, and the same examples wherever a run goes on."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf
from support import needs_tensorflow

from keras_vit.data.balance import balanced, class_counts
from keras_vit.data.broken import without_broken
from keras_vit.data.examples import in_memory
from keras_vit.data.pipeline import training_batches
from keras_vit.train.recipe import Augment

pytestmark = needs_tensorflow
TARGETS = np.repeat([0, 1, 2], [20, 9, 1])
TARGETS = TARGETS[np.random.default_rng(1).permutation(30)]
PIXELS = np.random.default_rng(0).integers(0, 256, (30, 8, 8, 1), "uint8")
ARRAYS = in_memory(PIXELS, TARGETS, ("a", "b", "c"))


def batches(examples, augment=None, **options):
    options = {"batch_size": 6, "input_shape": (8, 8, 1), "epochs": 3, "seed": 5, **options}
    return list(training_batches(examples, augment or Augment(), **options).as_numpy_iterator())


def drawn(seed):
    rows = balanced(ARRAYS, "arrays").stream(tf.constant(seed, tf.int64)).as_numpy_iterator()
    return [np.array(column) for column in zip(*rows, strict=True)]


def test_each_class_is_drawn_equally_often_and_every_image_of_a_rare_class():
    index, images, labels = drawn(3)
    assert len(index) == 30 and np.bincount(labels).tolist() == [10, 10, 10]
    assert all(sorted(labels[i : i + 3]) == [0, 1, 2] for i in range(0, 30, 3))
    assert np.array_equal(images, PIXELS[index % 30]) and np.array_equal(labels, TARGETS[index % 30])
    assert len(set(index.tolist())) == 30  # so that no repetition has the augmentation of another
    assert sorted(index[labels == 2] // 30) == list(range(10))  # the one image ten times
    assert np.bincount(index[labels == 1] // 30).tolist() == [9, 1]  # all nine, then one again
    assert (index[labels == 0] < 30).all()  # ten of the twenty


@pytest.mark.broad
def test_an_order_depends_on_its_seed_alone():
    assert all(np.array_equal(a, b) for a, b in zip(drawn(3), drawn(3), strict=True))
    assert not np.array_equal(drawn(3)[0], drawn(4)[0])
    shares = np.bincount(np.concatenate([drawn(seed)[0] for seed in range(60)]) % 30, minlength=30)
    common = shares[TARGETS == 0]  # 600 draws of 20 images: none is preferred
    assert common.min() > 15 and common.max() < 45
    places = np.array([drawn(seed)[2][:3].tolist() for seed in range(40)])
    assert all(set(column) == {0, 1, 2} for column in places.T)


def test_without_a_seed_the_split_is_as_it_was():
    before, after = (list(e.stream().as_numpy_iterator()) for e in (ARRAYS, balanced(ARRAYS, "arrays")))
    assert all(np.array_equal(a, b) for x, y in zip(before, after, strict=True) for a, b in zip(x, y, strict=True))


@pytest.mark.parametrize("start", [3, 5, 11])
def test_a_run_that_goes_on_sees_the_same_batches(start):
    examples = balanced(ARRAYS, "arrays")
    whole, rest = batches(examples, Augment(shift=0.2, flip=True)), batches(examples, Augment(shift=0.2, flip=True),
                                                                           start=start)  # fmt: skip
    assert len(rest) == 15 - start
    assert all(
        np.array_equal(a, b) for x, y in zip(whole[start:], rest, strict=True) for a, b in zip(x, y, strict=True)
    )
    assert all(np.array_equal(targets.sum(axis=0), [2, 2, 2]) for _, targets in whole)


def test_workers_parts_are_the_whole_batch():
    examples = balanced(ARRAYS, "arrays")
    whole, parts = batches(examples), [batches(examples, shard=(worker, 2)) for worker in range(2)]
    for both, first, second in zip(whole, *parts, strict=True):
        assert all(np.array_equal(a, np.concatenate([b, c])) for a, b, c in zip(both, first, second, strict=True))


def test_repetitions_are_augmented_differently():
    (images, targets), *_ = batches(balanced(ARRAYS, "arrays"), Augment(shift=0.4, rotate=30), batch_size=30)
    rare = images[targets[:, 2] == 1]
    assert len(rare) == 10 and len(np.unique(rare.reshape(10, -1), axis=0)) == 10


def test_broken_files_are_never_drawn(tmp_path):
    paths = [str(tmp_path / f"{i}.png") for i in range(30)]
    for i, path in enumerate(paths):
        tf.io.write_file(path, b"no picture" if i in (4, 17) else tf.io.encode_png(PIXELS[i]))
    files = in_memory(np.array(paths), TARGETS, ("a", "b", "c"), tuple(paths))
    with pytest.warns(UserWarning, match="left out"):
        good = without_broken(files, "train of folder")
    rows = list(balanced(good, "folder").stream(tf.constant(3, tf.int64)).as_numpy_iterator())
    assert len(rows) == 28 and not {4, 17} & {int(index) % 30 for index, *_ in rows}
    assert all(name.decode() == paths[index % 30] and TARGETS[index % 30] == label for index, name, label in rows)
    assert np.array_equal(class_counts(good, "x"), np.bincount(TARGETS))  # a resumed run may leave out more files


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"multi": True}, "sampling expected 'uniform' with several classes per image, received 'balanced'; the loss "
                          "'sigmoid' with class_weights 'balanced' fits"),
        ({"select": None}, "sampling expected 'uniform' with tfds:x, which is read as a stream, received 'balanced'; "
                           "class_weights 'balanced' or logit_adjustment of the loss fit"),
        ({"labels": ("a", "b", "c", "d"), "counts": (20, 9, 1, 0)}, "sampling 'balanced' expected training images of "
                                                                    "each class, found none of d"),
    ],
)  # fmt: skip
def test_what_cannot_be_balanced_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        balanced(dataclasses.replace(ARRAYS, **changes), "tfds:x")
