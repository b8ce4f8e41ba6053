"""How many images a second the training pipeline makes of JPEG files, beside decoding and resizing alone.

    python -m benchmarks.data [FOLDER OF JPEG FILES]

Whole batches of its files are taken, 50 at least; everyone gets the same.
"""

import argparse
import os
import sys
from pathlib import Path

from benchmarks.harness.machine import in_words
from benchmarks.harness.processes import compare
from benchmarks.harness.tables import table
from benchmarks.harness.worker import work

REPEATED = 5  # times that the files are gone through in a call
SIZE, BATCH = 224, 50
ALONE = "decode + resize alone"
OURS = {
    "inception crop + flip": {},
    "inception crop + flip + RandAugment(2, 15)": {"randaugment": (2, 15)},
}


def prepare(name: str, files: list[str]):
    """A function that makes all batches of one pass over the files, repeated."""
    import tensorflow as tf

    from keras_vit.data.settings import BATCHES_AHEAD, untuned

    if name.startswith(ALONE):
        antialias = "antialias" in name

        def image(path):
            pixels = tf.io.decode_jpeg(tf.io.read_file(path), channels=3)
            return tf.image.resize(pixels, (SIZE, SIZE), antialias=antialias)

        dataset = tf.data.Dataset.from_tensor_slices(files).repeat(REPEATED).map(image, tf.data.AUTOTUNE)
        dataset = untuned(dataset.batch(BATCH, drop_remainder=True).prefetch(BATCHES_AHEAD))
    else:
        import numpy as np

        from keras_vit.data.pipeline import training_batches
        from keras_vit.data.sources import in_memory
        from keras_vit.train.recipe import Augment

        examples = in_memory(np.array(files), np.arange(len(files)) % 2, ("a", "b"), tuple(files))
        augment = Augment("inception", flip=True, **OURS[name])
        options = {"batch_size": BATCH, "input_shape": (SIZE, SIZE, 3)}
        dataset = training_batches(examples, augment, epochs=REPEATED, **options)

    def call():
        for _ in dataset:
            pass

    return call


def whole_batches(folder: str) -> list[str]:
    """The folder's JPEG files, but for the last ones that make no batch."""
    found = sorted(str(path) for path in Path(folder).glob("*.jpg"))
    return found[: len(found) // BATCH * BATCH]


def main(arguments: list[str] | None = None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", default="../shared/data/imagenet_sample")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.worker:
        return work(lambda: prepare(options.worker, whole_batches(os.environ["DATA_BENCHMARK"])))
    files = whole_batches(options.folder)
    if not files:
        parser.error(f"folder expected one of at least {BATCH} JPEG files, received {options.folder!r}")
    os.environ["DATA_BENCHMARK"] = options.folder  # for the workers
    images = len(files) * REPEATED
    print(f"{in_words()}\n")
    seconds = compare([sys.executable, "-m", "benchmarks.data"], [ALONE, f"{ALONE}, antialias", *OURS], rounds=10)
    for ours in OURS:
        print(table(f"{ours}, {SIZE} pixels", seconds, ours, lambda value: images / value, "images/s"))
    return None


if __name__ == "__main__":
    sys.exit(main())
