"""The paper's fine-tuning (Table 4): one recipe per data set and learning rate of its grid.

Command:  keras-vit train recipes/paper_finetune.py:cifar10_lr0.01 --data-dir TFDS_FOLDER --workdir runs/cifar10_b16
          The paper selected the learning rate on the end of the training set (`validation` in metrics.jsonl), then
          trained on all of it: --set data.train_split=train evaluate.split=null. Another model: --set
          model.variant=TAG. 512 images on one device, 8 at a time: --set optimizer.accumulate=64.
Hardware: not run here: the weights need a download.
Time:     not run here.
Figure:   not run here; with these weights, ViT-B/16 of ImageNet-21k, Table 5 has ImageNet 83.97, CIFAR-10 98.95,
          CIFAR-100 91.67, Pets 94.43, Flowers 99.38 %. With JFT's, ViT-L/16 at 512 pixels has 87.76 and ViT-H/14 at 518
          pixels 88.55 % on ImageNet, 76.28 and 77.63 % on VTAB's nineteen tasks (Table 2).
Source:   arXiv 2010.11929, Table 4 and appendix B.1.1: SGD with momentum 0.9, batch 512, cosine decay, no weight
          decay, clipping at a global norm of 1, 384 pixels, a new head of zeros, no tanh layer; for ImageNet in
          Table 2, 512 or 518 pixels and Polyak averaging of 0.9999, which Average approaches by (1 + t) / (10 + t):
          0.9996 after these 20,000 steps. From the official code: 500 steps of warm-up (100 for the short runs),
          bfloat16 momentum, a shuffle buffer of 50,000 images (5.5 GB for ImageNet). From big_vision: the evaluation
          (shorter side 448, center crop 384).
"""

from keras_vit.train.recipe import Augment, Average, Data, Evaluate, Loss, Model, Optimizer, Recipe, Schedule

START = "vit_base_patch16_224.orig_in21k"
TABLE = {  # name: name in TFDS, percentage to train on, test split, steps, warm-up, learning rates
    "imagenet": ("imagenet2012", 99, "validation", 20_000, 500, (0.003, 0.01, 0.03, 0.06)),
    "cifar100": ("cifar100", 98, "test", 10_000, 500, (0.001, 0.003, 0.01, 0.03)),
    "cifar10": ("cifar10", 98, "test", 10_000, 500, (0.001, 0.003, 0.01, 0.03)),
    "pets": ("oxford_iiit_pet", 90, "test", 500, 100, (0.001, 0.003, 0.01, 0.03)),
    "flowers": ("oxford_flowers102", 90, "test", 500, 100, (0.001, 0.003, 0.01, 0.03)),
}
VTAB = (
    "caltech101", "cifar100", "dtd", "flowers102", "pets", "sun397", "svhn",
    "camelyon", "eurosat", "resisc45", "retinopathy",
    "clevr_count", "clevr_dist", "dmlab", "dsprites_loc", "dsprites_ori", "kitti_dist",
    "smallnorb_azim", "smallnorb_elev",
)  # fmt: skip


def _recipe(row, data, rate, steps, warmup, *, start=START, size=384, average=0.0, split=None, augment=None):
    return Recipe(
        f"paper_finetune:{row}",
        Model(start, image_size=size),
        data,
        augment or Augment(crop="inception", flip=True),
        Optimizer("sgd", learning_rate=rate, momentum=0.9, clip_norm=1.0, moment_dtype="bfloat16"),
        Schedule("cosine", warmup_steps=warmup),
        Loss("softmax"),
        Average(average),
        Evaluate(interval=100, split=split),
        steps=steps,
    )


def _task(name, tfds_name, percent, test_split, steps, warmup, rate, **options):
    data = Data(
        f"tfds:{tfds_name}", None, f"train[:{percent}%]", test_split, 512, shuffle=50_000, resize=448, exif=False
    )
    return _recipe(name, data, rate, steps, warmup, split=f"train[{percent}%:]", **options)


recipes = {
    f"{name}_lr{rate}": _task(f"{name}_lr{rate}", *settings, rate)
    for name, (*settings, rates) in TABLE.items()
    for rate in rates
}
for name, start, size in (
    ("imagenet512_ViT_L16", "vit_large_patch16_224.orig_in21k", 512),
    ("imagenet518_ViT_H14", "vit_huge_patch14_224.orig_in21k", 518),
):
    task = _task(name, *TABLE["imagenet"][:-1], 0.03, start=start, size=size, average=0.9999)
    recipes[name] = Recipe(**{**vars(task), "data": Data(**{**vars(task.data), "resize": size * 7 // 6})})
for task in VTAB:  # whole images: a crop can cut off what the structured tasks ask for
    data = Data(f"vtab:{task}", None, "vtab1k", "test", 512, shuffle=50_000, exif=False)
    recipes[f"vtab_{task}"] = _recipe(f"vtab_{task}", data, 0.01, 2_500, 500, augment=Augment())
