"""The paper's self-supervised pre-training: predict the mean colours of corrupted patches.

Command:  keras-vit train recipes/paper_masked.py --data-dir FOLDER --workdir runs/masked_b16
          (FOLDER/train/CLASS/*.jpg and FOLDER/test/CLASS/*.jpg; the classes are ignored)
          then recipes/paper_finetune.py with --set model.weights=runs/masked_b16/model.keras
Hardware: not run here.
Time:     not run here; the paper's one million steps of 4,096 images are 14 epochs of JFT. It reports most of the gain
          after 100,000 steps.
Figure:   not run here; the paper's ViT-B/16 reaches 79.9 % on ImageNet after fine-tuning, 2 % above training from
          scratch and 4 % below supervised pre-training (section 4.6).
Source:   arXiv 2010.11929, appendix B.1.2: Adam, learning rate 2e-4, 10,000 steps of warm-up, cosine decay. The paper's
          two other targets, and corrupting 15 %, are recipes too. Not in the paper: weight decay (none here);
          augmentation (the crops and flips of the other pre-training); where embeddings are corrupted (before the
          positions are added); which other patch replaces a corrupted one (one of the same image).
"""

from keras_vit.train.recipe import Augment, Data, Masked, Model, Optimizer, Recipe, Schedule

TABLE = {
    "colours": Masked("colours"),
    "pixels": Masked("pixels"),
    "mean_colour_15": Masked("mean_colour", share=0.15),
}


def _recipe(row, masked):
    return Recipe(
        f"paper_masked:{row}" if row else "paper_masked",
        Model("ViT_B16"),
        Data("folder", batch_size=4096),
        Augment(crop="inception", flip=True),
        Optimizer("adamw", learning_rate=2e-4),
        Schedule("cosine", warmup_steps=10_000),
        masked=masked,
        steps=1_000_000,
    )


recipes = {row: _recipe(row, masked) for row, masked in TABLE.items()}
recipe = _recipe("", Masked("mean_colour"))
