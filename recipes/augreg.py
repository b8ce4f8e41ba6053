"""The pre-training grid of "How to train your ViT?": every combination, named as its published checkpoint.

Command:  keras-vit train recipes/augreg.py:B_16-i1k-300ep-lr_0.001-aug_medium2-wd_0.1-do_0.0-sd_0.0 \
              --data-dir TFDS_FOLDER --workdir runs/augreg_b16
          ImageNet-21k (i21k) is read from folders: FOLDER/train/WORDNET_ID/*.jpg, FOLDER/test/...
Hardware: not run here. With ImageNet-1k every process holds a shuffle buffer of 250,000 images (27 GB);
          --set data.shuffle=50000 takes 5.5 GB. Folders need no buffer.
Time:     not run here; 300 epochs are 92,700 steps on 99 % of ImageNet-1k, 1,040,000 on ImageNet-21k.
Figure:   not run here; accuracies of the published files: keras-vit weights find --model B_16
Source:   arXiv 2106.10270, section 3, and big_vision's configurations: batch 4096, learning rate 1e-3, 10,000 steps of
          warm-up, cosine decay, clipping at 1, bfloat16 first moments; weight decay 0.03 or 0.1; dropout and
          stochastic depth both 0.0 or both 0.1; augmentation of Table 1; ImageNet-1k's shuffle buffer of 250,000
          images. ImageNet-21k uses the sigmoid loss with a head bias of -10, ImageNet-1k softmax.
"""

from itertools import product

from keras_vit.train.recipe import Augment, Data, Evaluate, Loss, Model, Optimizer, Recipe, Schedule

MODELS = {  # name in the grid: variant, representation_size
    "Ti_16": ("ViT_Ti16", 192), "S_32": ("ViT_S32", 384), "S_16": ("ViT_S16", 384), "B_32": ("ViT_B32", 768),
    "B_16": ("ViT_B16", 768), "B_8": ("ViT_B8", 768), "L_16": ("ViT_L16", 1024), "R_Ti_16": ("R_ViT_Ti16", 192),
    "R26_S_32": ("R26_ViT_S32", 384), "R50_L_32": ("R50_ViT_L32", 1024),
}  # fmt: skip
AUGMENTS = {  # mixup; RandAugment's operations and magnitude
    "none": (0.0, None), "light1": (0.0, (2, 0)), "light2": (0.2, (2, 10)), "medium1": (0.2, (2, 15)),
    "medium2": (0.5, (2, 15)), "strong1": (0.5, (2, 20)), "strong2": (0.8, (2, 20)),
}  # fmt: skip
DATA = {
    "i1k": Data("tfds:imagenet2012", None, "train[:99%]", "validation", 4096, shuffle=250_000, resize=256, exif=False),
    "i21k": Data("folder", batch_size=4096, resize=256),
}


def _recipe(name, model, data, epochs, augment, decay, rate):
    (variant, width), (mixup, randaugment) = MODELS[model], AUGMENTS[augment]
    many = data == "i21k"
    return Recipe(
        f"augreg:{name}",
        Model(
            variant,
            representation_size=width,
            dropout_rate=rate,
            drop_path_rate=rate,
            head_bias=-10.0 if many else 0.0,
        ),
        DATA[data],
        Augment(crop="inception", flip=True, randaugment=randaugment, mixup=mixup),
        Optimizer("adamw", learning_rate=1e-3, weight_decay=decay, clip_norm=1.0, moment_dtype="bfloat16"),
        Schedule("cosine", warmup_steps=10_000),
        Loss("sigmoid" if many else "softmax"),
        evaluate=Evaluate(split=None if many else "train[99%:]"),
        epochs=epochs,
    )


recipes = {}
for model, (data, epochs), augment, decay, rate in product(
    MODELS, (("i1k", 300), ("i21k", 300), ("i21k", 30)), AUGMENTS, (0.03, 0.1), (0.0, 0.1)
):
    name = f"{model}-{data}-{epochs}ep-lr_0.001-aug_{augment}-wd_{decay}-do_{rate}-sd_{rate}"
    recipes[name] = _recipe(name, model, data, epochs, augment, decay, rate)
