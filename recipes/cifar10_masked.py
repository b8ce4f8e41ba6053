"""Self-supervised on CIFAR-10: masked patches of all images without labels, then a tenth of the labels.

Command:  keras-vit train recipes/cifar10_masked.py --workdir runs/cifar10_masked --data-dir TFDS_FOLDER
          keras-vit train recipes/cifar10_masked.py:finetune --workdir runs/cifar10_masked_finetune \
              --set model.weights=runs/cifar10_masked/model.keras --data-dir TFDS_FOLDER
          keras-vit train recipes/cifar10_masked.py:scratch --workdir runs/cifar10_tenth --data-dir TFDS_FOLDER
Hardware: 2 CPU cores (AMD EPYC, AVX-512 bf16, no AMX), TensorFlow 2.21, bfloat16.
Time:     768 s, 724 s and 1,364 s, with tests and another training at lower priority on the same two cores; their
          numbers of steps are made for ten, ten and twenty minutes.
Figure:   59.56 % of the 10,000 test images after pre-training and fine-tuning, 54.33 % from scratch in as many steps
          (seed 0, once each; the weights' average). Pre-training itself gets 48.1 % of the hidden patches' colours
          right, cross entropy 1.63; whoever knows how common each of the 512 colours is, and nothing of the image,
          comes to 5.7 % and 4.21.
Source:   arXiv 2010.11929, appendix B.1.2, made small; the model and the growing images are cifar10_scratch.py's.
"""

from dataclasses import replace

from keras_vit.train.recipe import (
    Augment,
    Average,
    Curriculum,
    Data,
    Loss,
    Masked,
    Model,
    Optimizer,
    Recipe,
    Schedule,
    Stage,
    Variant,
)  # fmt: skip

row = Variant(
    "ViT_cifar10", width=192, depth=6, mlp_dim=768, num_heads=3, positions="sincos2d", patch_size=4, image_size=32
)
STEPS = 2_560  # of 128 images: ten minutes of this curriculum, at 1,170, 550 and 280 images a second

recipe = Recipe(
    "cifar10_masked",
    Model(row, pooling="gap"),
    Data("tfds:cifar10", batch_size=128),
    Augment(crop="inception", crop_area=0.5, flip=True),
    Optimizer("muon", learning_rate=1e-3, momentum=0.95, weight_decay=0.05, beta_2=0.99, clip_norm=1.0),
    Schedule("cosine", warmup_steps=200),
    average=Average(0.99),
    curriculum=Curriculum((Stage(0.45, image_size=16), Stage(0.75, image_size=24))),
    masked=Masked(),
    steps=STEPS,
    precision="mixed_bfloat16",
)
finetune = replace(
    recipe,
    name="cifar10_masked:finetune",
    data=replace(recipe.data, train_split="train[:10%]"),
    optimizer=replace(recipe.optimizer, learning_rate=5e-4, weight_decay=0.1),
    loss=Loss(label_smoothing=0.1),
    average=Average(0.999),
    masked=None,
)
recipes = {
    "finetune": finetune,
    "scratch": replace(
        finetune,
        name="cifar10_masked:scratch",
        optimizer=replace(finetune.optimizer, learning_rate=1e-3),
        steps=2 * STEPS,
    ),
}
