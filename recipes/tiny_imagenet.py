"""Fine-tune the CIFAR-10 hybrid on 100 classes of Tiny ImageNet in two phases, the head first, on two CPU cores.

Command:  keras-vit train recipes/tiny_imagenet.py --data-dir IMAGES --workdir runs/tiny_imagenet \
              --set model.weights=runs/cifar10_hybrid/model.keras --strategy cores
          keras-vit train recipes/tiny_imagenet.py:scratch --data-dir IMAGES --workdir runs/tiny_imagenet_scratch \
              --strategy cores
          IMAGES/train/CLASS/*.JPEG and IMAGES/test/CLASS/*.JPEG: the first 100 of the 200 classes by their names, with
          the published training and validation images (500 and 50 per class). The weights are those of
          recipes/cifar10.py:hybrid.
Hardware: 2 CPU cores (AMD EPYC, AVX-512 bf16, no AMX), TensorFlow 2.21, bfloat16.
Time:     644 s, and 608 s from scratch, with --strategy cores, on a processor of family 25. Short tests ran meanwhile.
Figure:   Test accuracy on 5,000 images, of the moving average, seed 0, one run each: 46.84 % in two phases from a
          hybrid of 88.69 % on CIFAR-10, and 35.74 % from scratch in as many steps.
Source:   arXiv 2010.11929 for the model. The head first, then all weights: arXiv 2202.10054. Tiny ImageNet: 64 x 64
          pixels, Stanford's course CS231n.
"""

from dataclasses import replace

from keras_vit.train.recipe import (
    Augment,
    Average,
    Data,
    HeadFirst,
    Loss,
    Model,
    Optimizer,
    Recipe,
    ResNetStem,
    Schedule,
    Variant,
)  # fmt: skip

row = Variant(
    "R_ViT_cifar10", width=192, depth=1, mlp_dim=768, num_heads=3, positions="sincos2d", patch_size=1,
    stem=ResNetStem((3, 3), 1.0), image_size=64,
)  # fmt: skip

recipe = Recipe(
    "tiny_imagenet",
    Model(row, pooling="gap"),
    Data("folder", batch_size=128),
    Augment(crop="inception", crop_area=0.5, flip=True),
    Optimizer("muon", learning_rate=3e-3, momentum=0.95, weight_decay=0.1, beta_2=0.99, clip_norm=1.0),
    Schedule("cosine", warmup_steps=100),
    Loss(label_smoothing=0.1),
    Average(0.99),
    head_first=HeadFirst(until=0.1, learning_rate=3e-3),
    epochs=3,
    precision="mixed_bfloat16",
)
recipes = {"scratch": replace(recipe, name="tiny_imagenet:scratch", head_first=None)}
