"""The paper's pre-training on JFT-300M (Table 3), one recipe per model. JFT is not public: use any large data set.

Command:  keras-vit train recipes/paper_jft.py:ViT_B16 --data-dir FOLDER --workdir runs/jft_b16
          (FOLDER/train/CLASS/*.jpg and FOLDER/test/CLASS/*.jpg; or --set data.source=tfds:NAME)
Hardware: not run here. The paper used TPUv3: 2,500 core-days for ViT-H/14, 680 for ViT-L/16 (Table 2).
Time:     not run here; 7 epochs of JFT's 303 million images are 518,000 steps.
Figure:   not run here; after fine-tuning, ImageNet top-1: ViT-B/16 84.15 % at 384 pixels (Table 5), ViT-L/16
          87.76 % at 512 and ViT-H/14 88.55 % at 518 pixels with averaging (Table 2).
Source:   arXiv 2010.11929, Table 3 and appendix B.1: batch 4096, 10,000 steps of warm-up, linear decay, weight decay
          0.1, no dropout, 224 pixels, Adam's 0.9 and 0.999. The paper does not name the loss; the sigmoid loss and the
          head bias of -10 are big_vision's choice for many labels. Decay ends at 0, as in big_vision.
"""

from keras_vit.train.recipe import Augment, Data, Evaluate, Loss, Model, Optimizer, Recipe, Schedule

TABLE = {  # name: variant, epochs, learning rate
    "ViT_B32": ("ViT_B32", 7, 8e-4),
    "ViT_B16": ("ViT_B16", 7, 8e-4),
    "ViT_L32": ("ViT_L32", 7, 6e-4),
    "ViT_L16_7ep": ("ViT_L16", 7, 4e-4),
    "ViT_L16": ("ViT_L16", 14, 4e-4),
    "ViT_H14": ("ViT_H14", 14, 3e-4),
    "BiT_R50x1": ("BiT_R50x1", 7, 1e-3),
    "BiT_R50x2": ("BiT_R50x2", 7, 1e-3),
    "BiT_R101x1": ("BiT_R101x1", 7, 8e-4),
    "BiT_R152x1": ("BiT_R152x1", 7, 6e-4),
    "BiT_R152x2": ("BiT_R152x2", 7, 6e-4),
    "R50_ViT_B32": ("R50_ViT_B32", 7, 8e-4),
    "R50_ViT_B16": ("R50_ViT_B16", 7, 8e-4),
    "R50_ViT_L32": ("R50_ViT_L32", 7, 2e-4),
    "R50_ViT_L16_7ep": ("R50_ViT_L16", 7, 4e-4),
    "R50_ViT_L16": ("R50_ViT_L16", 14, 4e-4),
}
WIDTH = {"B": 768, "L": 1024, "H": 1280}  # representation_size


def _recipe(row, variant, epochs, rate):
    width = None if variant.startswith("BiT") else WIDTH[variant.rpartition("_")[2][0]]
    return Recipe(
        f"paper_jft:{row}",
        Model(variant, representation_size=width, head_bias=-10.0),
        Data("folder", batch_size=4096),
        Augment(crop="inception", flip=True),
        Optimizer("adamw", learning_rate=rate, weight_decay=0.1),
        Schedule("linear", warmup_steps=10_000),
        Loss("sigmoid"),
        evaluate=Evaluate(interval=1_000),
        epochs=epochs,
    )


recipes = {row: _recipe(row, *settings) for row, settings in TABLE.items()}
