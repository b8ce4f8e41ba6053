"""Batches: the same ones for the same seed, wherever a run goes on."""

import dataclasses
import os
import re
import sys
import threading

import numpy as np
import pytest
import tensorflow as tf
from support import needs_tensorflow, quick_first

from keras_vit.data import mosaic
from keras_vit.data.broken import naming_broken_files
from keras_vit.data.decode import decode, decode_crop, middle
from keras_vit.data.evaluation import evaluation_batches
from keras_vit.data.pipeline import steps_per_epoch, training_batches
from keras_vit.data.seeds import seed_pair
from keras_vit.data.settings import batches_of_array, untuned
from keras_vit.data.sources import from_arrays, in_memory
from keras_vit.train.recipe import Augment

pytestmark = needs_tensorflow

RNG = np.random.default_rng(0)
ARRAYS = in_memory(RNG.integers(0, 256, (21, 8, 8, 1), "uint8"), np.arange(21) % 3, ["a", "b", "c"])
EVERYTHING = Augment(
    "inception", 0.3, flip=True, shift=0.1, rotate=10, zoom=0.1, randaugment=(2, 9), mixup=0.2, cutmix=0.5, erasing=0.3
)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The same pictures as PNG files."""
    root = tmp_path_factory.mktemp("pictures")
    paths = []
    for index, image, _ in ARRAYS.stream().as_numpy_iterator():
        paths.append(str(root / f"{index}.png"))
        tf.io.write_file(paths[-1], tf.io.encode_png(image))
    return in_memory(np.array(paths), np.arange(21) % 3, ["a", "b", "c"], tuple(paths))


def batches(examples=ARRAYS, augment=EVERYTHING, **options):
    options = {"batch_size": 4, "input_shape": (8, 8, 1), "epochs": 3, "seed": 5, **options}
    return list(training_batches(examples, augment, **options).as_numpy_iterator())


def same(one, other):
    return all(np.array_equal(a, b) for x, y in zip(one, other, strict=True) for a, b in zip(x, y, strict=True))


def test_shapes_are_static_and_the_rest_is_dropped():
    found = batches()
    assert len(found) == 3 * 5  # 21 examples make 5 batches of 4
    assert all(images.shape == (4, 8, 8, 1) and targets.shape == (4, 3) for images, targets in found)
    assert all(images.min() >= -1 and images.max() <= 1 for images, _ in found)
    dataset = training_batches(ARRAYS, Augment(), batch_size=4, input_shape=(8, 8, 1), epochs=1)
    assert [spec.shape.as_list() for spec in dataset.element_spec] == [[4, 8, 8, 1], [4, 3]]


def test_no_pipeline_is_tuned_while_it_runs():
    shape, tuned = {"batch_size": 4, "input_shape": (8, 8, 1)}, lambda dataset: dataset.options().autotune.enabled
    one = training_batches(ARRAYS, EVERYTHING, epochs=1, **shape)
    assert tuned(one) is tuned(evaluation_batches(ARRAYS, **shape)) is False
    assert tuned(batches_of_array(np.zeros((5, 2)), 2)) is tuned(one.rebatch(2)) is False
    assert tuned(tf.data.Dataset.range(3)) is not False


def test_without_tuning_maps_still_use_all_cores():
    together = threading.Barrier(min(2, os.cpu_count()))

    def call(number):
        together.wait(10)
        return number

    calls = tf.data.Dataset.range(8).map(lambda x: tf.numpy_function(call, [x], tf.int64), tf.data.AUTOTUNE)
    assert list(untuned(calls).as_numpy_iterator()) == list(range(8))


def test_arrays_come_whole_and_in_order():
    rows = RNG.normal(size=(5, 3))
    found = list(batches_of_array(rows, 2).as_numpy_iterator())
    assert [len(batch) for batch in found] == [2, 2, 1]
    np.testing.assert_array_equal(np.concatenate(found), rows)


@pytest.mark.broad
@pytest.mark.parametrize("source", quick_first(["arrays", "files"], ["files"]))
def test_a_run_that_goes_on_sees_the_same_batches(source, files):
    examples = ARRAYS if source == "arrays" else files
    whole = batches(examples)
    assert same(whole, batches(examples))
    for start in (5, 7):  # between two epochs, and within one
        assert same(whole[start:], batches(examples, start=start))


def test_another_seed_and_every_epoch_differ():
    whole = batches()
    assert not same(whole, batches(seed=6))
    assert not same(whole[:5], whole[5:10])


def test_an_epoch_has_each_example_once():
    found = batches(augment=Augment(), scale=False)
    originals = {image.tobytes() for _, image, _ in ARRAYS.stream().as_numpy_iterator()}
    for epoch in range(3):
        seen = [image.astype("uint8").tobytes() for images, _ in found[5 * epoch : 5 * epoch + 5] for image in images]
        assert len(set(seen)) == 20 and set(seen) <= originals


def test_an_examples_augmentation_hangs_on_it_alone():
    """The same example, in batches of another size and so at another place, is changed in the same way."""
    augment = dataclasses.replace(EVERYTHING, mixup=0.0, cutmix=0.0)
    small, large = (batches(augment=augment, batch_size=size, epochs=1) for size in (3, 7))
    images = [{image.tobytes() for images, _ in found for image in images} for found in (small, large)]
    assert images[0] == images[1] and len(images[0]) == 21


def test_evaluation_fills_the_last_batch_with_weight_0(files):
    for examples in (ARRAYS, files):
        found = list(evaluation_batches(examples, batch_size=8, input_shape=(8, 8, 3)).as_numpy_iterator())
        assert [images.shape for images, _, _ in found] == [(8, 8, 8, 3)] * 3
        weights = np.concatenate([weights for _, _, weights in found])
        assert weights.tolist() == [1.0] * 21 + [0.0] * 3
        labels = np.concatenate([labels for _, labels, _ in found])
        assert labels[:21].tolist() == (np.arange(21) % 3).tolist()
        first = next(ARRAYS.stream().as_numpy_iterator())[1]
        assert np.allclose(found[0][0][0], np.repeat(first, 3, -1) / 127.5 - 1, atol=1e-6)


@pytest.mark.parametrize("count", [21, 17])  # of 17 the last batch has one example, which is the first worker's
def test_workers_parts_are_the_whole_evaluation(count):
    examples = from_arrays(
        ARRAYS.stream().take(count).batch(count).get_single_element()[1].numpy(), np.arange(count) % 3
    )
    options = {"batch_size": 8, "input_shape": (8, 8, 1)}
    whole = list(evaluation_batches(examples, **options).as_numpy_iterator())
    parts = [list(evaluation_batches(examples, **options, shard=(i, 4)).as_numpy_iterator()) for i in range(4)]
    assert [len(part) for part in parts] == [3] * 4 and all(x.shape == (2, 8, 8, 1) for part in parts for x, *_ in part)
    joined = [tuple(np.concatenate(x) for x in zip(*rows, strict=True)) for rows in zip(*parts, strict=True)]
    for (images, labels, weights), (images_too, labels_too, weights_too) in zip(whole, joined, strict=True):
        real = weights > 0
        assert np.array_equal(weights, weights_too) and np.array_equal(labels[real], labels_too[real])
        assert np.array_equal(images[real], images_too[real])
    with pytest.raises(ValueError, match=r"shard expected a worker of a number that divides 8 .*received \(0, 3\)"):
        evaluation_batches(examples, **options, shard=(0, 3))


def test_too_few_examples():
    with pytest.raises(ValueError, match="batch_size expected at most the 21 training examples, received 22"):
        steps_per_epoch(ARRAYS, 22)


@pytest.mark.broad
def test_a_broken_file_is_named(files, tmp_path):
    broken = tmp_path / "broken.png"
    broken.write_bytes(b"no picture")
    paths = (*files.files[:3], str(broken))
    examples = in_memory(np.array(paths), np.arange(4) % 3, ["a", "b", "c"], paths)
    for message in ("an image file .*received '.*broken.png'", "the image file '.*broken.png', .* found none; put"):
        with pytest.raises(ValueError, match=f"data expected {message}"), naming_broken_files(files, examples):
            batches(examples, batch_size=2)
        broken.unlink(missing_ok=True)


def test_a_file_that_may_not_be_read_is_named(files, monkeypatch):
    """The error is made up: root may read everything."""
    read, kept = tf.io.read_file, files.files[2]

    def refusing(path):
        if path == kept:
            raise tf.errors.PermissionDeniedError(None, None, f"{path}; Permission denied")
        return read(path)

    monkeypatch.setattr(tf.io, "read_file", refusing)
    sentence = f"data expected image files that may be read, received '{kept}', which this user may not read."
    with pytest.raises(ValueError, match=re.escape(sentence)), naming_broken_files(files):
        refusing(kept)


@pytest.mark.broad
@pytest.mark.parametrize(
    "change",
    [
        {},
        pytest.param({"mixup": 0.0, "cutmix": 0.0}, marks=pytest.mark.large),
        {"crop": "none", "randaugment": None, "erasing": 0.0},
    ],
)
def test_workers_parts_are_the_whole_batch_to_the_bit(change):
    augment = dataclasses.replace(EVERYTHING, **change)
    whole = batches(augment=augment, epochs=2)
    parts = [batches(augment=augment, epochs=2, shard=(i, 4)) for i in range(4)]
    joined = [tuple(np.concatenate(x) for x in zip(*rows, strict=True)) for rows in zip(*parts, strict=True)]
    assert same(whole, joined)
    assert same(batches(augment=augment, epochs=2, shard=(1, 2), start=3), parts_of(whole[3:], 1, 2))


@pytest.mark.broad
def test_mosaics_are_the_same_wherever_a_run_goes_on_and_whoever_makes_them():
    """Each has four images, its own first, and its targets share as their areas do; half of the batches are blended."""
    pytest.importorskip("keras_cv", reason="extra `recipes` is not installed")
    flat = np.repeat(10.0 + np.arange(16, dtype="float32"), 64).reshape(16, 8, 8, 1)
    examples = in_memory(flat.astype("uint8"), np.arange(16), [str(i) for i in range(16)])
    options = {"examples": examples, "batch_size": 8, "epochs": 4, "scale": False}
    whole = batches(augment=Augment(mosaic=0.5), **options)
    assert same(whole[3:], batches(augment=Augment(mosaic=0.5), start=3, **options))
    with pytest.raises(ValueError, match="batch_size expected at least 3 with mosaic and 1 workers, received 2"):
        batches(augment=Augment(mosaic=0.5), **{**options, "batch_size": 2})
    for workers in (2, 8):
        parts = [batches(augment=Augment(mosaic=0.5), shard=(i, workers), **options) for i in range(workers)]
        joined = [tuple(np.concatenate(x) for x in zip(*rows, strict=True)) for rows in zip(*parts, strict=True)]
        assert same(whole, joined)
    made = [batch for batch in whole if np.any((batch[1] > 0).sum(1) > 1)]
    assert 0 < len(made) < len(whole)
    for images, targets in made:
        for image, target in zip(images[..., 0], targets, strict=True):
            corners = [image[0, 0], image[0, -1], image[-1, 0], image[-1, -1]]
            classes = np.round(corners).astype(int) - 10
            assert len(set(classes)) == 4 and set(np.flatnonzero(target)) == set(classes)
            assert target.sum() == pytest.approx(1, abs=1e-6) and target[classes[0]] >= 0.25**2 - 1e-6
            # The seams are blends of two images, and a stretch of 8 / 7 is keras-cv's: a column or row of 8, no more.
            across = (np.round(image[0]) == classes[0] + 10).mean()
            down = (np.round(image[:, 0]) == classes[0] + 10).mean()
            assert abs(across * down - target[classes[0]]) < 2.5 / 8


def test_without_keras_cv_a_sentence_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "keras_cv", None)
    mosaic.mosaic_layer.cache_clear()
    with pytest.raises(
        ImportError, match=r"augment.mosaic expected the package keras-cv, found none: pip install .*recipes"
    ):
        batches(augment=Augment(mosaic=0.5))


def parts_of(whole, worker, workers):
    return [tuple(np.split(x, workers)[worker] for x in batch) for batch in whole]


def test_a_batch_that_cannot_be_shared_out():
    with pytest.raises(ValueError, match=r"shard expected a worker of a number that divides 4 .*received \(0, 3\)"):
        batches(shard=(0, 3))


def test_without_end_and_at_another_size():
    """A run of steps, whose images grow, sees the same examples as one of epochs."""
    dataset = training_batches(ARRAYS, Augment(), batch_size=4, input_shape=(8, 8, 1), epochs=None, seed=5)
    found = list(dataset.take(12).as_numpy_iterator())
    assert same(found, batches(augment=Augment())[:12])
    larger = batches(augment=Augment(), input_shape=(16, 16, 1), start=7)
    assert larger[0][0].shape == (4, 16, 16, 1)
    assert all(np.array_equal(a[1], b[1]) for a, b in zip(larger, batches(augment=Augment(), start=7), strict=True))


@pytest.mark.parametrize(("crop", "shape"), [("pad", (8, 8, 1)), ("resize", (8, 8, 1))])
def test_windows_are_parts_of_the_image(crop, shape):
    augment = Augment(crop, crop_resize=10 if crop == "resize" else None, crop_pad=2)
    pictures = from_arrays(
        np.arange(1, 7, dtype="uint8")[:, None, None, None] * np.ones((1, 10, 10, 1), "uint8"), np.arange(6)
    )
    found = batches(pictures, augment, batch_size=6, input_shape=shape, scale=False, epochs=30)
    rows = [(x, t) for images, targets in found for x, t in zip(images, targets, strict=True)]
    for image, target in rows:
        assert set(np.unique(np.round(image))) <= {0, np.argmax(target) + 1}
    black = np.mean([image[0, 0, 0] == 0 for image, _ in rows])
    assert black == 0 if crop == "resize" else 0.4 < black < 0.85  # 1 - (3 / 5) ** 2
    if crop == "resize":
        with pytest.raises(ValueError, match="^crop_resize expected at least the images' .16, 16.*received 10"):
            batches(pictures, augment, batch_size=6, input_shape=(16, 16, 1))


@pytest.mark.parametrize(("size", "slope"), [(10, 1), ((10, 10), 2)])
def test_one_number_keeps_the_shape_and_two_squeeze(size, slope):
    pictures = from_arrays(np.tile(np.arange(20, dtype="uint8")[None, None, :, None], (4, 10, 1, 1)), np.arange(4) % 2)
    found = batches(pictures, Augment("resize", crop_resize=size), batch_size=4, input_shape=(8, 8, 1), scale=False,
                    epochs=10)  # fmt: skip
    for images, _ in found:
        assert np.allclose(np.diff(images[:, :, 1:-1], axis=2), slope, atol=1e-4)


@pytest.fixture(scope="module")
def jpeg():
    picture = np.kron(RNG.integers(0, 256, (12, 15, 3)), np.ones((8, 8, 1))).astype("uint8")
    return tf.io.encode_jpeg(picture, quality=95), picture


def test_a_jpegs_crop_is_the_part_that_would_be_cut_out(jpeg):
    from keras_vit.data.augment import crop_box

    data, picture = jpeg
    whole = tf.io.decode_jpeg(data).numpy()
    for i in range(10):
        seed = seed_pair(0, i)
        top, left, height, width = crop_box(picture.shape, seed, 0.1).numpy()
        found = decode_crop(data, seed, 0.1).numpy()
        part = whole[top : top + height, left : left + width]
        assert found.shape == part.shape and np.mean(np.abs(found.astype(int) - part)) < 1
        png = decode_crop(tf.io.encode_png(picture), seed, 0.1).numpy()
        assert np.array_equal(png, picture[top : top + height, left : left + width])


def test_evaluation_of_the_middle(jpeg):
    data, picture = jpeg
    found = middle(decode(data), 48, (32, 32, 3)).numpy()
    expected = tf.image.resize(decode(data), (48, 60), antialias=True).numpy()[8:40, 14:46]
    assert found.shape == (32, 32, 3) and np.allclose(found, expected, atol=1e-3)
    examples = from_arrays(picture[None], [0])
    images, *_ = next(
        evaluation_batches(examples, batch_size=1, input_shape=(32, 32, 3), scale=False, resize=48).as_numpy_iterator()
    )
    assert np.allclose(images[0], middle(picture, 48, (32, 32, 3)), atol=1e-3)
    with pytest.raises(ValueError, match="resize expected at least the model's 64 pixels, received 48"):
        evaluation_batches(examples, batch_size=1, input_shape=(64, 64, 3), resize=48)


def test_several_classes_an_example():
    lists = [[0, 2], [], [1], [1, 2, 0]]
    stream = lambda seed=None: tf.data.Dataset.range(4).map(  # noqa: E731
        lambda i: (i, tf.zeros((8, 8, 1), tf.uint8), tf.ragged.constant(lists, dtype=tf.int64)[i])
    )
    from keras_vit.data.sources import Examples

    examples = Examples(4, ("a", "b", "c"), stream, encoded=False, shape=(8, 8, 1), multi=True)
    hot = np.array([[1, 0, 1], [0, 0, 0], [0, 1, 0], [1, 1, 1]], "float32")
    _, labels, weights = next(evaluation_batches(examples, batch_size=5, input_shape=(8, 8, 1)).as_numpy_iterator())
    assert np.array_equal(labels[:4], hot) and weights.tolist() == [1, 1, 1, 1, 0]
    options = {"augment": Augment(), "epochs": 1}
    assert np.array_equal(batches(examples, **options, multi_hot=True)[0][1], hot)
    assert np.allclose(batches(examples, **options)[0][1], hot / np.maximum(hot.sum(1, keepdims=True), 1))
