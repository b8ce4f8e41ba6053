"""A plain Vision Transformer on CIFAR-10 from scratch: no convolution anywhere, no other data.

Command:  keras-vit train recipes/cifar10_scratch.py --workdir runs/cifar10_scratch --data-dir TFDS_FOLDER \
              --strategy cores
          (longer: --set epochs=40 --set evaluate.every=4)
Hardware: 2 CPU cores (AMD EPYC, AVX-512 bf16, no AMX), TensorFlow 2.21, bfloat16.
Time:     Not by cores: 3,197 s for the 19 epochs on a machine of family 25, with ten tests on the way; on one of family
          26, next to nothing else at the machine, 1,624 s: 580 images a second over all, 950 of them at 16 pixels.
Figure:   84.41 % of the 10,000 test images (seed 0; the weights' average), 84.02 (seed 1, on a machine of AVX2; by
          `keras-vit evaluate --flip` 84.25). At a rate of 1e-3 82.20 +- 0.32 % over three seeds, in
          benchmarks/cifar10.md. By AdamW at 5e-4 (--set optimizer.kind=adamw optimizer.learning_rate=5e-4) 73.46 %
          after 21 epochs in 1,867 s, and 80.03 % after 40. In 6 epochs, crops of 60 % and more of an image: 69.5 % by
          Muon at 1e-3, 57.8 % by AdamW at 5e-4, 56.3 % at 1e-3, 52.7 % at 2e-3.
Source:   arXiv 2010.11929 for the model, made small; crops, smoothing and averaging as is usual from scratch on little
          data (arXiv 2012.12877, 2106.10270); images that grow: arXiv 2104.00298; Muon: keras_vit/train/muon.py.
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
    Optimizer("muon", learning_rate=3e-3, momentum=0.95, weight_decay=0.1, beta_2=0.99, clip_norm=1.0),
    Schedule("cosine", warmup_steps=400),
    Loss(label_smoothing=0.1),
    Average(0.999),
    Evaluate(every=19),
    curriculum=Curriculum((Stage(0.45, image_size=16), Stage(0.75, image_size=24))),
    epochs=19,
    precision="mixed_bfloat16",
)
