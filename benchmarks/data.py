"""How many images a second the training pipeline makes of JPEG files, beside decoding and resizing alone.

Command: python benchmarks/data.py ../shared/data/imagenet_sample
"""

import os
import sys
from pathlib import Path

from keras_vit.bench.machine import in_words
from keras_vit.bench.processes import compare
from keras_vit.bench.tables import table
from keras_vit.bench.worker import work

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


def main():
    folder = next((word for word in sys.argv[1:] if Path(word).is_dir()), None) or os.environ.get("DATA_BENCHMARK")
    files = sorted(str(path) for path in Path(folder or "../shared/data/imagenet_sample").glob("*.jpg"))
    if not files:
        sys.exit(f"benchmarks/data.py expected a folder of JPEG files, found none in {folder!r}.")
    if "--worker" in sys.argv:
        work(lambda: prepare(sys.argv[sys.argv.index("--worker") + 1], files))
        return
    os.environ["DATA_BENCHMARK"] = str(Path(files[0]).parent)  # for the workers
    images = len(files) // BATCH * BATCH * REPEATED
    print(in_words())
    seconds = compare(__file__, [ALONE, f"{ALONE}, antialias", *OURS], rounds=10)
    for ours in OURS:
        print(table(f"{ours}, {SIZE} pixels", seconds, ours, lambda value: images / value, "images/s"))


if __name__ == "__main__":
    main()
