"""A plain Vision Transformer on CIFAR-10 from scratch: no convolution anywhere, no other data.

Command:  keras-vit train recipes/cifar10_scratch.py --workdir runs/cifar10_scratch --data-dir TFDS_FOLDER
          (longer: --set epochs=40 --set evaluate.every=4)
Hardware: 2 CPU cores (AMD EPYC, AVX-512 bf16, no AMX), TensorFlow 2.21, bfloat16.
Time:     1,867 s for the 21 epochs, and 15 s for their three tests, with other work at the lowest priority on the same
          cores; 1,200 images a second at 16 pixels, 550 at 24, 330 at 32. 40 epochs: 5,946 s beside other work.
Figure:   73.46 % of the 10,000 test images, 80.03 % after 40 epochs (seed 0, once each; the weights' average). With
          learned positions, crops of 30 % and more of an image and a rate of 1e-3, 22 epochs gave 69.99 %. In 6 epochs:
          57.8 % at a rate of 5e-4, 56.3 % at 1e-3, 52.7 % at 2e-3; 69.5 % in 561 s by Muon (crops of 60 % and more,
          --set optimizer.kind=muon --set optimizer.momentum=0.95 --set optimizer.learning_rate=1e-3), whose step takes
          a tenth to a sixth longer.
Source:   arXiv 2010.11929 for the model, made small; AdamW, crops, smoothing and averaging as is usual from scratch on
          little data (arXiv 2012.12877, 2106.10270); images that grow: arXiv 2104.00298.
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
    "ViT_cifar10", width=192, depth=6, mlp_dim=768, num_heads=3, positions="sincos2d", patch_size=4, image_size=32
)

recipe = Recipe(
    "cifar10_scratch",
    Model(row, pooling="gap"),
    Data("tfds:cifar10", batch_size=128),
    Augment(crop="inception", crop_area=0.5, flip=True),
    Optimizer("adamw", learning_rate=5e-4, weight_decay=0.1, beta_2=0.99, clip_norm=1.0),
    Schedule("cosine", warmup_steps=400),
    Loss(label_smoothing=0.1),
    Average(0.999),
    Evaluate(every=7),
    curriculum=Curriculum((Stage(0.45, image_size=16), Stage(0.75, image_size=24))),
    epochs=21,
    precision="mixed_bfloat16",
)
