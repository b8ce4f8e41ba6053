"""The defaults of the official fine-tuning code: each of its models on each of its data sets.

Command:  keras-vit train recipes/official_finetune.py:b16-cifar10 --data-dir TFDS_FOLDER --workdir runs/b16_cifar10
          keras-vit train recipes/official_finetune.py:augreg_B_16 --set data.source=tfds:oxford_iiit_pet \
              'data.train_split=train[:90%]' 'evaluate.split=train[90%:]' --workdir runs/pets
Hardware: not run here: the weights need a download.
Time:     not run here.
Figure:   not run here; the official repository's README lists runs of these settings.
Source:   google-research/vision_transformer, vit_jax/configs: learning rate 0.03 (0.01 for b16 on CIFAR-10), SGD with
          bfloat16 momentum 0.9, batch 512 in 8 micro-batches, clipping at 1, cosine decay with 500 steps of warm-up,
          384 pixels; for AugReg's checkpoints 500 steps, 100 of warm-up, and no dropout. L/16, H/14 and R50+B/16 have
          a dropout of 0.1.
"""

from keras_vit.train.recipe import Augment, Data, Evaluate, Loss, Model, Optimizer, Recipe, Schedule

MODELS = {  # name in the official code: weights, dropout
    "b16": ("vit_base_patch16_224.orig_in21k", 0.0),
    "b32": ("vit_base_patch32_224.orig_in21k", 0.0),
    "l16": ("vit_large_patch16_224.orig_in21k", 0.1),
    "l32": ("vit_large_patch32_224.orig_in21k", 0.0),
    "h14": ("vit_huge_patch14_224.orig_in21k", 0.1),
    "r50_b16": ("vit_base_r50_s16_224.orig_in21k", 0.1),
}
AUGREG = {
    "Ti_16": "vit_tiny_patch16_224.augreg_in21k",
    "S_32": "vit_small_patch32_224.augreg_in21k",
    "S_16": "vit_small_patch16_224.augreg_in21k",
    "B_32": "vit_base_patch32_224.augreg_in21k",
    "B_16": "vit_base_patch16_224.augreg_in21k",
    "B_8": "vit_base_patch8_224.augreg_in21k",
    "L_16": "vit_large_patch16_224.augreg_in21k",
    "R_Ti_16": "vit_tiny_r_s16_p8_224.augreg_in21k",
    "R26_S_32": "vit_small_r26_s32_224.augreg_in21k",
    "R50_L_32": "vit_large_r50_s32_224.augreg_in21k",
}
DATA = {  # name in TFDS: percentage to train on, test split, steps
    "cifar10": (98, "test", 10_000),
    "cifar100": (98, "test", 10_000),
    "imagenet2012": (99, "validation", 20_000),
}


def _recipe(row, tag, dropout, data, split, rate, steps, warmup):
    return Recipe(
        f"official_finetune:{row}",
        Model(tag, image_size=384, dropout_rate=dropout),
        data,
        Augment(crop="inception", flip=True),
        Optimizer("sgd", learning_rate=rate, momentum=0.9, clip_norm=1.0, accumulate=8, moment_dtype="bfloat16"),
        Schedule("cosine", warmup_steps=warmup),
        Loss("softmax"),
        evaluate=Evaluate(split=split),
        steps=steps,
    )


recipes = {}
for (model, (tag, dropout)), (name, (percent, test, steps)) in (
    (model, data) for model in MODELS.items() for data in DATA.items()
):
    row, rate = f"{model}-{name}", 0.01 if (model, name) == ("b16", "cifar10") else 0.03
    data = Data(f"tfds:{name}", None, f"train[:{percent}%]", test, 512, shuffle=50_000, exif=False)
    recipes[row] = _recipe(row, tag, dropout, data, f"train[{percent}%:]", rate, steps, 500)
for model, tag in AUGREG.items():
    data = Data("folder", batch_size=512, shuffle=50_000)
    recipes[f"augreg_{model}"] = _recipe(f"augreg_{model}", tag, 0.0, data, None, 0.03, 500, 100)
