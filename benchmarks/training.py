"""How fast is training ViT-B/16, beside keras-hub's `fit`, and in how much memory? Prints one table a question.

    python benchmarks/training.py [--rounds 5] [--batch 8] [--precision mixed_bfloat16]

Needs the extra `parity`. AdamW with weight decay, cross entropy, 224 pixels, the same batch again and again, so that no
data pipeline counts. A training step of ViT-B/16 is 105 GFLOP an image; the machine's matmul rate is the limit.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import harness

STEPS = 2  # of a call
OURS, RECOMPUTED, HUB = "keras_vit", "keras_vit, recompute", "keras-hub fit"


def batches(batch, labels):
    import tensorflow as tf

    images = tf.random.stateless_uniform((batch, 224, 224, 3), (0, 0), -1.0, 1.0)
    return tf.data.Dataset.from_tensors((images, labels)).repeat()


def ours(batch, precision, recompute):
    import tensorflow as tf

    from keras_vit.train.recipe import Data, Model, Optimizer, Recipe
    from keras_vit.train.stages import spans_of
    from keras_vit.train.state import first_state
    from keras_vit.train.step import compiled_steps

    recipe = Recipe(
        "benchmark", Model("ViT_B16"), Data(batch_size=batch), optimizer=Optimizer("adamw", 1e-4, weight_decay=0.1),
        precision=precision, steps=1_000_000, recompute=recompute,
    )  # fmt: skip
    strategy = tf.distribute.get_strategy()
    state = first_state(recipe, tuple(map(str, range(1000))), recipe.steps, strategy)
    run = compiled_steps(recipe, state, strategy, spans_of(recipe, recipe.steps)[0])
    iterator = iter(batches(batch, tf.one_hot(tf.range(batch), 1000)))
    return lambda: run(iterator, tf.constant(STEPS))


def keras_hub(batch, precision):
    import keras
    import keras_hub
    import tensorflow as tf

    keras.config.set_dtype_policy(precision)
    backbone = keras_hub.models.ViTBackbone(
        image_shape=(224, 224, 3), patch_size=(16, 16), num_layers=12, num_heads=12, hidden_dim=768, mlp_dim=3072
    )
    model = keras_hub.models.ViTImageClassifier(backbone, num_classes=1000, preprocessor=None)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.AdamW(1e-4, weight_decay=0.1), loss)
    dataset = batches(batch, tf.range(batch))
    return lambda: model.fit(dataset, steps_per_epoch=STEPS, epochs=1, verbose=0)


def prepare(name, options):
    if name == HUB:
        return keras_hub(options.batch, options.precision)
    return ours(options.batch, options.precision, name == RECOMPUTED)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batch", type=int, default=int(os.environ.get("TRAINING_BATCH", 8)))
    parser.add_argument("--precision", default=os.environ.get("TRAINING_PRECISION", "mixed_bfloat16"))
    parser.add_argument("--worker")
    parser.add_argument("--memory")
    options = parser.parse_args()
    if options.worker:
        harness.work(lambda: prepare(options.worker, options))
        return
    if options.memory:
        call = prepare(options.memory, options)
        call()
        call()
        print(json.dumps(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024))
        return
    os.environ |= {"TRAINING_BATCH": str(options.batch), "TRAINING_PRECISION": options.precision}  # for the workers
    print(harness.machine() + "\n")
    seconds = harness.compare(__file__, [OURS, RECOMPUTED, HUB], options.rounds)
    title = f"Training ViT-B/16, batch {options.batch}, {options.precision}"
    print(harness.table(title, seconds, OURS, lambda value: STEPS * options.batch / value, "images/s"))
    print("| | peak memory of the process, GB | ours / it |\n|---|---:|---:|")
    peaks = {}
    for name in seconds:
        found = [
            json.loads(
                subprocess.check_output([sys.executable, __file__, "--memory", name], text=True).splitlines()[-1]
            )
            for _ in range(2)
        ]
        peaks[name] = statistics.median(found)
        print(f"| {name} | {peaks[name] / 1e9:.2f} | {peaks[OURS] / peaks[name]:.2f} |")


if __name__ == "__main__":
    main()
