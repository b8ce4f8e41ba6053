"""A Vision Transformer with locality on CIFAR-10 from scratch: its MLPs see their neighbours, its images grow.

Command:  keras-vit train recipes/cifar10_local.py --workdir runs/cifar10_local --data-dir DIR
"""

from keras_vit.train.recipe import (
    Augment,
    Average,
    Curriculum,
    Data,
    Evaluate,
    Loss,
    Model,
    Optimizer,
    Recipe,
    Schedule,
    Stage,
    Variant,
)  # fmt: skip

row = Variant(
    "ViT_cifar10_local", width=192, depth=6, mlp_dim=768, num_heads=3, patch_size=4, image_size=32, mlp_kernel_size=3
)

recipe = Recipe(
    "cifar10_local",
    Model(row, pooling="gap"),
    Data("tfds:cifar10", batch_size=128),
    Augment(crop="inception", crop_area=0.3, flip=True),
    Optimizer("adamw", learning_rate=1e-3, weight_decay=0.1, beta_2=0.99, clip_norm=1.0),
    Schedule("cosine", warmup_steps=400),
    Loss(label_smoothing=0.1),
    Average(0.999),
    Evaluate(every=9),
    curriculum=Curriculum((Stage(0.45, image_size=16), Stage(0.75, image_size=24))),
    epochs=18,
    precision="mixed_bfloat16",
)
