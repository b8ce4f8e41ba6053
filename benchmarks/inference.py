"""How fast is a forward pass, beside keras-hub and timm? Prints one table a question.

    python benchmarks/inference.py [--rounds 15]

Needs the extra `parity`. ViT-B/16 at 224 pixels is 35.1 GFLOP an image; the machine's matmul rate is the limit.
"""

import argparse
import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import harness

SIZES = {"B16": (768, 12, 12, 3072), "Ti16": (192, 12, 3, 768)}  # width, blocks, heads, MLP


def tensorflow_call(model, batch):
    import tensorflow as tf

    images = tf.random.normal((batch, 224, 224, 3))
    call = tf.function(lambda x: model(x, training=False))
    return lambda: call(images).numpy()


def ours(size, dtype, batch):
    import keras_vit

    return tensorflow_call(keras_vit.create_model(f"ViT_{size}", dtype=dtype), batch)


def keras_hub(size, dtype, batch):
    import keras
    import keras_hub

    keras.config.set_dtype_policy(dtype)
    width, blocks, heads, mlp = SIZES[size]
    backbone = keras_hub.models.ViTBackbone(
        image_shape=(224, 224, 3),
        patch_size=(16, 16),
        num_layers=blocks,
        num_heads=heads,
        hidden_dim=width,
        mlp_dim=mlp,
    )
    return tensorflow_call(keras_hub.models.ViTImageClassifier(backbone, num_classes=1000, preprocessor=None), batch)


def timm(size, dtype, batch):
    import torch

    harness.declare_vision_operators()
    import timm as timm_library

    name = {"B16": "vit_base_patch16_224", "Ti16": "vit_tiny_patch16_224"}[size]
    model = timm_library.create_model(name).eval()
    images = torch.randn(batch, 3, 224, 224)

    def call():
        with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16, enabled=dtype == "autocast"):
            model(images)

    return call


CONTESTANTS = {"keras_vit": ours, "keras-hub": keras_hub, "timm": timm}
QUESTIONS = (
    ("ViT-B/16, batch 8, float32", "B16", 8, ["keras_vit:float32", "keras-hub:float32", "timm:float32"]),
    (
        "ViT-B/16, batch 8, bfloat16 (ours: weights stored in it)",
        "B16",
        8,
        ["keras_vit:bfloat16", "keras_vit:mixed_bfloat16", "keras-hub:bfloat16", "keras-hub:mixed_bfloat16",
         "timm:autocast"],
    ),
    (
        "ViT-Ti/16, batch 1, float32: latency of calls back to back",
        "Ti16",
        1,
        ["keras_vit:float32", "keras-hub:float32", "timm:float32"],
    ),
)  # fmt: skip


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--worker")
    options = parser.parse_args()
    if options.worker:
        library, dtype, size, batch = options.worker.split(":")
        harness.work(lambda: CONTESTANTS[library](size, dtype, int(batch)))
        return
    print(f"{harness.machine()}\n")
    for title, size, batch, contestants in QUESTIONS:
        calls = 20 if batch == 1 else 1
        found = harness.compare(__file__, [f"{name}:{size}:{batch}" for name in contestants], options.rounds, calls)
        seconds = {name.rsplit(":", 2)[0].replace(":", " "): values for name, values in found.items()}
        first = contestants[0].replace(":", " ")
        if batch == 1:
            print(harness.table(title, seconds, first, lambda s: 1000 * s, "ms"))
        else:
            print(harness.table(title, seconds, first, lambda s, n=batch: n / s, "images/s"))


if __name__ == "__main__":
    sys.exit(main())
