"""The paper's pre-training on ImageNet-21k (Table 3): 14 million images of 21,843 classes.

Command:  keras-vit train recipes/paper_imagenet21k.py:ViT_B16 --data-dir FOLDER --workdir runs/in21k_b16
          (FOLDER/train/WORDNET_ID/*.jpg and FOLDER/test/...: TFDS has no public builder for it)
Hardware: not run here. The paper used TPUv3: 230 core-days for ViT-L/16 (Table 2).
Time:     not run here; 90 epochs are 312,000 steps.
Figure:   not run here; after fine-tuning, ImageNet top-1 of Table 5: ViT-B/16 83.97 %, ViT-L/16 85.15 %.
Source:   arXiv 2010.11929, Table 3 and appendix B.1: batch 4096, learning rate 1e-3, 10,000 steps of warm-up, linear
          decay, weight decay 0.03, dropout 0.1. ViT-L was trained for 30 and for 90 epochs. The sigmoid loss and the
          head bias of -10 are big_vision's.
"""

from keras_vit.train.recipe import Augment, Data, Loss, Model, Optimizer, Recipe, Schedule

TABLE = {  # name: variant, representation_size, epochs
    "ViT_B32": ("ViT_B32", 768, 90),
    "ViT_B16": ("ViT_B16", 768, 90),
    "ViT_L32": ("ViT_L32", 1024, 90),
    "ViT_L32_30ep": ("ViT_L32", 1024, 30),
    "ViT_L16": ("ViT_L16", 1024, 90),
    "ViT_L16_30ep": ("ViT_L16", 1024, 30),
}

recipes = {
    row: Recipe(
        f"paper_imagenet21k:{row}",
        Model(variant, representation_size=width, dropout_rate=0.1, head_bias=-10.0),
        Data("folder", batch_size=4096),
        Augment(crop="inception", flip=True),
        Optimizer("adamw", learning_rate=1e-3, weight_decay=0.03),
        Schedule("linear", warmup_steps=10_000),
        Loss("sigmoid"),
        epochs=epochs,
    )
    for row, (variant, width, epochs) in TABLE.items()
}
