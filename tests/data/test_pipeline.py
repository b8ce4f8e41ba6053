"""Batches: the same ones for the same seed, wherever a run goes on."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf
from support import needs_tensorflow

from keras_vit.data.pipeline import evaluation_batches, naming_broken_files, steps_per_epoch, training_batches
from keras_vit.data.sources import in_memory
from keras_vit.train.recipe import Augment

pytestmark = needs_tensorflow

RNG = np.random.default_rng(0)
ARRAYS = in_memory(RNG.integers(0, 256, (21, 8, 8, 1), "uint8"), np.arange(21) % 3, ["a", "b", "c"])
EVERYTHING = Augment("inception", 0.3, flip=True, shift=0.1, rotate=10, zoom=0.1, mixup=0.2)


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


@pytest.mark.parametrize("source", ["arrays", "files"])
def test_a_run_that_goes_on_sees_the_same_batches(source, files):
    examples = ARRAYS if source == "arrays" else files
    whole = batches(examples)
    assert same(whole, batches(examples))
    for start in (1, 5, 7, 14):
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
    augment = dataclasses.replace(EVERYTHING, mixup=0.0)
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


def test_too_few_examples():
    with pytest.raises(ValueError, match="batch_size expected at most the 21 training examples, received 22"):
        steps_per_epoch(ARRAYS, 22)


def test_a_broken_file_is_named(files, tmp_path):
    broken = tmp_path / "broken.png"
    broken.write_bytes(b"no picture")
    paths = (*files.files[:3], str(broken))
    examples = in_memory(np.array(paths), np.arange(4) % 3, ["a", "b", "c"], paths)
    for missing in (False, True):
        with pytest.raises(ValueError, match="data expected an image file .*received .*broken.png"):  # noqa: SIM117
            with naming_broken_files(files, examples):
                batches(examples, batch_size=2)
        broken.unlink(missing_ok=missing)
