"""A short run on 40 pictures of two classes, of which it trains on 32, in 8 steps."""

import json

import keras

from keras_vit.train.recipe import Augment, Average, Checkpoint, Data, Evaluate, Model, Optimizer, Recipe, Variant

ROW = Variant("tiny", width=8, depth=1, mlp_dim=16, num_heads=2, patch_size=4, image_size=8)
RECIPE = Recipe(
    "photos",
    Model(ROW, dropout_rate=0.1),
    Data("folder", batch_size=8),
    Augment(crop="inception", crop_area=0.5, flip=True, mixup=0.2),
    Optimizer(learning_rate=1e-2, weight_decay=0.5, clip_norm=1.0),
    average=Average(0.9),
    evaluate=Evaluate(every=1),
    checkpoint=Checkpoint(seconds=0, keep=3, best=True),
    epochs=2,
)


def lines(workdir):
    rows = [json.loads(line) for line in (workdir / "metrics.jsonl").read_text().splitlines()]
    return [row for row in rows if row["name"] not in ("images_per_second", "seconds")]


def model(path):
    return keras.saving.load_model(path, compile=False)
