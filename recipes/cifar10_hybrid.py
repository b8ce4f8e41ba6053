"""A hybrid on CIFAR-10 from scratch: six residual units see the images first, a Transformer block their map.

Command:  keras-vit train recipes/cifar10_hybrid.py --workdir runs/cifar10_hybrid --data-dir TFDS_FOLDER \
              --strategy cores
          (longer: --set epochs=15 evaluate.every=15)
Hardware: 2 CPU cores (AMD EPYC of family 25, AVX-512 bf16, no AMX), TensorFlow 2.21, bfloat16.
Time:     1,936 s on one device, 1,796 s by cores, the first third of them beside other work; six tests on the way.
Figure:   88.57 +- 0.17 % of the 10,000 test images over three seeds (the weights' average), in benchmarks/cifar10.md.
          In 15 epochs 89.39 % (seed 0, once), in 2,104 s by cores with eight tests on the way; in float32 89.85 %
          (seed 0, once; 4,374 s on a machine of AVX2), by `keras-vit evaluate --flip` 90.45. With crops of 70 % and
          more (--set augment.crop_area=0.7) 89.61 and 90.40 there; in 4 epochs 83.89 in place of 82.39 %. With two
          units a stage and two blocks, as fast: in 6 epochs 85.01 %, with crops of 30 % and more 83.24, with black
          borders in place of crops (crop="pad") 83.08. With one unit a stage and four blocks: 87.68 % in 13 epochs,
          82.97 in 6; at a rate of 1e-3 79.65, and on a machine of family 26, with convolutions moved by AdamW, 85.48 +-
          0.23 % over three seeds in 13 epochs. Behind one pooled stage of two units at the images' own size, with 6
          blocks, 83.21 % in 19.
Source:   cifar10_scratch.py behind a ResNet (arXiv 2010.11929, section 3.1, hybrid architecture): a root convolution
          and three bottleneck units in each of two stages, on images of twice their size, so that a cell is 4 of their
          own pixels wide, as a patch of the plain model is. Five blocks fewer pay for it.
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
    depth=1,
    mlp_dim=768,
    num_heads=3,
    positions="sincos2d",
    patch_size=1,
    stem=ResNetStem((3, 3), 1.0),
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
    Evaluate(every=12),
    curriculum=Curriculum((Stage(0.45, image_size=32), Stage(0.75, image_size=48))),
    epochs=12,
    precision="mixed_bfloat16",
)
