"""A Vision Transformer with locality on CIFAR-10 from scratch: its MLPs see their neighbours, its images grow.

Command:  keras-vit train recipes/cifar10_local.py --workdir runs/cifar10_local --data-dir TFDS_FOLDER
          (longer: --set epochs=40)
Hardware: 2 CPU cores (AMD EPYC, AVX-512 bf16, no AMX), TensorFlow 2.21, bfloat16.
Time:     3,018 s for the 18 epochs, with tests and benchmarks running on the same two cores all the while; the same
          steps with the values tried below took 1,587 s with other work at the lowest priority.
Figure:   77.56 % of the 10,000 test images (seed 0, once; the weights' average). With half the rate, crops of 50 % and
          more of an image and fixed positions, which serve cifar10_scratch.py, 72.42 %. 40 epochs: not run to the end.
Source:   cifar10_scratch.py with LocalViT's depth-wise 3 x 3 convolution between the MLP's dense layers
          (arXiv 2104.05707).
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
