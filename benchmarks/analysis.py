"""What looking inside costs: attention of ViT-B/16 captured from 8 images, beside a plain forward pass of the same.

Both go through the model as Keras calls it, eagerly, from images in memory to numbers in memory; capturing ends with
all 12 x 8 x 12 x 197 x 197 weights as one NumPy array. transformers with its attentions beside its own plain pass.
"""

import argparse
import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from benchmarks.harness.arguments import rounds
from benchmarks.harness.machine import in_words
from benchmarks.harness.processes import compare
from benchmarks.harness.tables import table
from benchmarks.harness.torch_peers import declare_vision_operators
from benchmarks.harness.worker import work

BATCH = 8


def images():
    import numpy as np

    return np.random.default_rng(0).uniform(-1, 1, (BATCH, 224, 224, 3)).astype("float32")


def plain():
    import keras_vit

    model, batch = keras_vit.ViT_B16(), images()
    return lambda: model(batch, training=False).numpy()


def capture():
    import keras_vit
    from keras_vit import analysis

    model, batch = keras_vit.ViT_B16(), images()
    return lambda: analysis.capture(model, batch)


def of_transformers(attentions):
    import torch

    declare_vision_operators()
    from transformers import ViTConfig, ViTForImageClassification

    # Its faster attention has no weights to give, so this is what a plain pass of it takes and what one with them does.
    kind = "eager" if attentions else "sdpa"
    model = ViTForImageClassification(ViTConfig(num_labels=1000, attn_implementation=kind)).eval()
    batch = torch.from_numpy(images().transpose(0, 3, 1, 2).copy())

    def call():
        with torch.inference_mode():
            found = model(batch, output_attentions=attentions)
            return [weights.numpy() for weights in found.attentions or ()]

    return call


CONTESTANTS = {
    "keras_vit, captured": capture,
    "keras_vit, plain": plain,
    "transformers, captured": lambda: of_transformers(True),
    "transformers, plain": lambda: of_transformers(False),
}


def main(arguments: list[str] | None = None):
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=rounds, default=11)
    parser.add_argument("--worker")
    options = parser.parse_args(arguments)
    if options.worker:
        work(CONTESTANTS[options.worker])
        return
    print(f"{in_words()}\n")
    found = compare([sys.executable, "-m", "benchmarks.analysis"], list(CONTESTANTS), options.rounds)
    print(table("Attention of ViT-B/16, 8 images", found, "keras_vit, captured", lambda s: 1000 * s, "ms"))


if __name__ == "__main__":
    sys.exit(main())
