"""ViT-S/16 on ImageNet-1k from scratch: "Better plain ViT baselines for ImageNet-1k".

Command:  keras-vit train recipes/imagenet_s16.py:90ep --data-dir TFDS_FOLDER --workdir runs/s16_90ep
Hardware: not run here; big_vision took 6 to 7 hours for 90 epochs on a TPU v3-8. Every process holds a shuffle buffer
          of 250,000 images (27 GB); --set data.shuffle=50000 takes 5.5 GB.
Time:     not run here; 90 epochs of 99 % of ImageNet are 111,420 steps.
Figure:   not run here; the report's ImageNet top-1: 76.5 % after 90, 78.9 % after 150, 80.0 % after 300 epochs.
Source:   arXiv 2205.01580 and big_vision's configuration: batch 1024, mean pooling, fixed sine and cosine positions, a
          tanh layer before the classifier, RandAugment (2, 10), mixup 0.2, learning rate 1e-3 with 10,000 steps of
          warm-up and cosine decay, weight decay 0.1, clipping at 1, bfloat16 first moments, a shuffle buffer of
          250,000 images.
"""

from keras_vit.train.recipe import Augment, Data, Evaluate, Loss, Model, Optimizer, Recipe, Schedule, Variant

row = Variant("ViT_S16_sincos2d", 384, 12, 1536, 6, 16, positions="sincos2d")

recipes = {
    f"{epochs}ep": Recipe(
        f"imagenet_s16:{epochs}ep",
        Model(row, pooling="gap", representation_size=384),
        Data("tfds:imagenet2012", None, "train[:99%]", "validation", 1024, shuffle=250_000, resize=256, exif=False),
        Augment(crop="inception", flip=True, randaugment=(2, 10), mixup=0.2),
        Optimizer("adamw", learning_rate=1e-3, weight_decay=0.1, clip_norm=1.0, moment_dtype="bfloat16"),
        Schedule("cosine", warmup_steps=10_000),
        Loss("softmax"),
        evaluate=Evaluate(every=2, split="train[99%:]"),
        epochs=epochs,
    )
    for epochs in (90, 150, 300)
}
