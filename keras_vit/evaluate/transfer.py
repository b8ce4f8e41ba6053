"""List the data sets of transfer learning, and make the paper's fine-tuning recipe (arXiv 2010.11929, Table 4)."""

from dataclasses import dataclass

from keras_vit.data.vtab import TASKS as VTAB
from keras_vit.train.recipe import Augment, Data, Evaluate, Loss, Model, Optimizer, Recipe, Schedule

CROPS = Augment(crop="inception", flip=True)


@dataclass(frozen=True)
class Transfer:
    """A task of transfer learning.

    Args:
        name: name of the task.
        title: name in the paper.
        group: `natural`, `specialized` or `structured` for VTAB's tasks; empty for others.
        source: source of the data, as in `Data`.
        train: training split while the learning rate is chosen.
        validation: split that the learning rate is chosen on.
        whole: training split of the final run, which includes `validation`.
        test: test split.
        steps: steps of fine-tuning.
        warmup: warmup steps.
        rates: learning rates to choose from.
        augment: augmentation of the training images.
        resize: shorter side of a test image in pixels before the center crop; None resizes without a crop.
        test_source: source of the test split, if it differs from `source`.
        trained_as: name of the task whose trained model is used, if it differs from `name`.
    """

    name: str
    title: str
    group: str
    source: str
    train: str
    validation: str
    whole: str
    test: str = "test"
    steps: int = 2_500
    warmup: int = 500
    rates: tuple[float, ...] = (0.01,)
    augment: Augment = CROPS
    resize: int | None = 448
    test_source: str | None = None
    trained_as: str | None = None


def _with_validation(name, title, tfds_name, percent, test, steps, warmup, rates, **more):
    """Return a task whose validation split is the end of the training split, after `percent`."""
    splits = (f"train[:{percent}%]", f"train[{percent}%:]", "train")
    return Transfer(name, title, "", f"tfds:{tfds_name}", *splits, test, steps, warmup, rates, **more)


_IMAGENET = ("imagenet2012", 99, "validation", 20_000, 500, (0.003, 0.01, 0.03, 0.06))
_SMALL = (0.001, 0.003, 0.01, 0.03)
PAPER = (
    _with_validation("imagenet", "ImageNet", *_IMAGENET),
    _with_validation("real", "ImageNet ReaL", *_IMAGENET, test_source="tfds:imagenet2012_real", trained_as="imagenet"),
    _with_validation("cifar10", "CIFAR-10", "cifar10", 98, "test", 10_000, 500, _SMALL),
    _with_validation("cifar100", "CIFAR-100", "cifar100", 98, "test", 10_000, 500, _SMALL),
    _with_validation("pets", "Oxford-IIIT Pets", "oxford_iiit_pet", 90, "test", 500, 100, _SMALL),
    _with_validation("flowers", "Oxford Flowers-102", "oxford_flowers102", 90, "test", 500, 100, _SMALL),
)
# VTAB uses whole images: a crop can lose the object that a structured task counts or locates.
VTAB1K = tuple(
    Transfer(task.name, task.paper, task.group, f"vtab:{task.name}", "train800", "val200", "vtab1k", "test",
             augment=Augment(), resize=None)
    for task in VTAB
)  # fmt: skip
FEW_SHOT = tuple(  # name, source, training split, test split
    (name, f"tfds:{source}", train, test)
    for name, source, train, test in (
        ("caltech101", "caltech101:3.*.*", "train", "test"),
        ("cars196", "cars196", "train", "test"),
        ("cifar100", "cifar100", "train", "test"),
        ("dtd", "dtd:3.*.*", "train", "test"),
        ("pets", "oxford_iiit_pet:3.*.*", "train", "test"),
        ("uc_merced", "uc_merced", "train[:1000]", "train[1000:]"),
        ("imagenet", "imagenet2012", "train[:65000]", "validation"),
    )
)
IMAGENETS = (  # name, title, source, split, whether it has only a subset of ImageNet's classes
    ("imagenet", "ImageNet", "tfds:imagenet2012", "validation", False),
    ("real", "ImageNet ReaL", "tfds:imagenet2012_real", "validation", False),
    ("v2", "ImageNet-V2", "tfds:imagenet_v2/matched-frequency", "test", False),
    ("r", "ImageNet-R", "tfds:imagenet_r", "test", True),
    ("a", "ImageNet-A", "tfds:imagenet_a", "test", True),
)


def fine_tuning(task: Transfer, start: Model, rate: float, choosing: bool = False) -> Recipe:
    """Return the paper's recipe: SGD with momentum 0.9, batches of 512, cosine decay, no weight decay, clipping at 1.

    Args:
        task: the task.
        start: the model, its weights and its image size.
        rate: learning rate.
        choosing: whether to hold out the validation split, and to evaluate on it.
    """
    splits = (task.train, task.validation) if choosing else (task.whole, task.test)
    return Recipe(
        f"{task.trained_as or task.name}_lr{rate:g}",
        start,
        Data(
            task.source, None, *splits, 512, shuffle=50_000, resize=task.resize, exif=False
        ),  # EXIF orientation is ignored, as in the paper
        task.augment,
        Optimizer("sgd", learning_rate=rate, momentum=0.9, clip_norm=1.0, moment_dtype="bfloat16"),
        Schedule("cosine", warmup_steps=task.warmup),
        Loss("softmax"),
        evaluate=Evaluate(interval=100),
        steps=task.steps,
    )
