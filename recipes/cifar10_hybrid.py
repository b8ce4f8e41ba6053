"""A hybrid on CIFAR-10 from scratch: two residual units see the images first, a small Vision Transformer their map.

Command:  keras-vit train recipes/cifar10_hybrid.py --workdir runs/cifar10_hybrid --data-dir TFDS_FOLDER
Hardware: 2 CPU cores (AMD EPYC, AVX-512 bf16, no AMX), TensorFlow 2.21, bfloat16.
Time:     2,309 s on a machine of family 25, with seven tests on the way and other work beside it; on one of family 26,
          when convolutions moved by AdamW, 1,139 s.
Figure:   87.68 % of the 10,000 test images (seed 0, once; the weights' average); in 6 epochs 82.97 %, at a rate of
          1e-3 79.65 %. With convolutions moved by AdamW, at a rate of 1e-3: 85.48 +- 0.23 % over three seeds (85.62 of
          seed 0), in benchmarks/cifar10.md, 86.56 % in 15 epochs; in 6 epochs 79.52 %, with crops of 60 % and more
          79.89 %; and behind one pooled stage of two units at the images' own size, with 6 blocks, 73.83 % in 6 epochs
          and 83.21 % in 19.
Source:   cifar10_scratch.py behind a ResNet (arXiv 2010.11929, section 3.1, hybrid architecture): a root convolution
          and one bottleneck unit in each of two stages, on images of twice their size, so that a cell is 4 of their
          own pixels wide, as a patch of the plain model is. Two blocks fewer pay for it.
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
    ResNetStem,
    Schedule,
    Stage,
    Variant,
)  # fmt: skip

row = Variant(
    "R_ViT_cifar10",
    width=192,
    depth=4,
    mlp_dim=768,
    num_heads=3,
    positions="sincos2d",
    patch_size=1,
    stem=ResNetStem((1, 1), 1.0),
    image_size=64,
)

recipe = Recipe(
    "cifar10_hybrid",
    Model(row, pooling="gap"),
    Data("tfds:cifar10", batch_size=128),
    Augment(crop="inception", crop_area=0.5, flip=True),
    Optimizer("muon", learning_rate=3e-3, momentum=0.95, weight_decay=0.1, beta_2=0.99, clip_norm=1.0),
    Schedule("cosine", warmup_steps=400),
    Loss(label_smoothing=0.1),
    Average(0.999),
    Evaluate(every=13),
    curriculum=Curriculum((Stage(0.45, image_size=32), Stage(0.75, image_size=48))),
    epochs=13,
    precision="mixed_bfloat16",
)
