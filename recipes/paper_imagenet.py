"""The paper's training on ImageNet-1k from scratch (Table 3), one recipe per model.

Command:  keras-vit train recipes/paper_imagenet.py:ViT_B16 --data-dir TFDS_FOLDER --workdir runs/in1k_b16
Hardware: not run here.
Time:     not run here; 300 epochs of 99 % of its images are 92,700 steps.
Figure:   not run here; after fine-tuning at 384 pixels, ImageNet top-1 of Table 5: ViT-B/16 77.91 %, ViT-B/32
          73.38 %, ViT-L/16 76.53 %, ViT-L/32 71.16 %.
Source:   arXiv 2010.11929, Table 3 and appendix B.1: batch 4096, learning rate 3e-3, 10,000 steps of warm-up, cosine
          decay, weight decay 0.3, dropout 0.1, gradients clipped at a global norm of 1. Not in the paper: the
          shuffle buffer of 50,000 images, which takes 5.5 GB in every process.
"""

from keras_vit.train.recipe import Augment, Data, Evaluate, Model, Optimizer, Recipe, Schedule

WIDTH = {"ViT_B32": 768, "ViT_B16": 768, "ViT_L32": 1024, "ViT_L16": 1024}  # representation_size

recipes = {
    variant: Recipe(
        f"paper_imagenet:{variant}",
        Model(variant, representation_size=width, dropout_rate=0.1),
        Data("tfds:imagenet2012", None, "train[:99%]", "validation", 4096, shuffle=50_000, exif=False),
        Augment(crop="inception", flip=True),
        Optimizer("adamw", learning_rate=3e-3, weight_decay=0.3, clip_norm=1.0),
        Schedule("cosine", warmup_steps=10_000),
        evaluate=Evaluate(every=10, split="train[99%:]"),
        epochs=300,
    )
    for variant, width in WIDTH.items()
}
