"""The paper's ablations of the model (appendix D), pre-trained as the paper's ViT-B/16 on JFT.

Command:  keras-vit train recipes/paper_ablations.py:positions_2d --data-dir FOLDER --workdir runs/positions_2d
          (FOLDER/train/CLASS/*.jpg and FOLDER/test/CLASS/*.jpg; or --set data.source=tfds:NAME)
Hardware: not run here.
Time:     not run here.
Figure:   not run here; the paper's 5-shot accuracy on ImageNet (Table 8): positions_none 0.61382; positions_1d 0.64206,
          in every block 0.63964, shared by all 0.64292; positions_2d 0.64001, 0.64046, 0.64022; positions_relative
          0.64032. Mean pooling matches the class token, but at its own learning rate: 3e-4 (`gap`), where the class
          token has 8e-4 (`token`). At 8e-4 (`gap_8e4`) mean pooling is far worse (figure 9).
Source:   arXiv 2010.11929, appendices D.3 (head and learning rate), D.4 (positions), D.6 (axial attention). The paper
          does not say where axial attention has its class token, so these models have none. It gives neither the heads
          nor the strides of the axial ResNet; those of `AxialResNet_R50x1` come from Axial-DeepLab.
"""

from dataclasses import replace

from keras_vit.train.recipe import Augment, Data, Loss, Model, Optimizer, Recipe, Schedule, Variant

B16 = Variant("ViT_B16", width=768, depth=12, mlp_dim=3072, num_heads=12, patch_size=16)
TOKEN, GAP = 8e-4, 3e-4  # learning rates with a class token and with mean pooling


def _at(positions, at="stem"):
    return replace(B16, positions=positions, positions_at=at)


TABLE = {  # name: variant, pooling, learning rate
    "positions_none": (_at("none"), "token", TOKEN),
    "positions_1d": (_at("1d"), "token", TOKEN),
    "positions_1d_layers": (_at("1d", "layers"), "token", TOKEN),
    "positions_1d_shared": (_at("1d", "shared"), "token", TOKEN),
    "positions_2d": (_at("2d"), "token", TOKEN),
    "positions_2d_layers": (_at("2d", "layers"), "token", TOKEN),
    "positions_2d_shared": (_at("2d", "shared"), "token", TOKEN),
    "positions_relative": (_at("relative"), "token", TOKEN),
    "token": (B16, "token", TOKEN),
    "gap": (B16, "gap", GAP),
    "gap_8e4": (B16, "gap", TOKEN),
    "axial_b16": ("AxialViT_B16", "gap", GAP),
    "axial_b32": ("AxialViT_B32", "gap", GAP),
    "axial_r50": ("AxialResNet_R50x1", "gap", GAP),
}


def _recipe(row, variant, pooling, rate):
    return Recipe(
        f"paper_ablations:{row}",
        # A ResNet has no layer between its pooling and its head.
        Model(variant, pooling=pooling, representation_size=None if row == "axial_r50" else 768, head_bias=-10.0),
        Data("folder", batch_size=4096),
        Augment(crop="inception", flip=True),
        Optimizer("adamw", learning_rate=rate, weight_decay=0.1),
        Schedule("linear", warmup_steps=10_000),
        Loss("sigmoid"),
        epochs=7,
    )


recipes = {row: _recipe(row, *settings) for row, settings in TABLE.items()}
