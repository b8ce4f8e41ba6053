"""The data sets that models are transferred to, and the paper's recipe for it (Table 4 of arXiv 2010.11929)."""

from dataclasses import dataclass

from keras_vit.data.vtab import TASKS as VTAB
from keras_vit.train.recipe import Augment, Data, Evaluate, Loss, Model, Optimizer, Recipe, Schedule

CROPS = Augment(crop="inception", flip=True)


@dataclass(frozen=True)
class Transfer:
    """A data set to transfer to.

    Args:
        name: of the task.
        title: as the paper has it.
        group: of VTAB's tasks, `natural`, `specialized` or `structured`; "" for others.
        source: as in `Data`.
        train: part to train on while something is to be chosen.
        validation: part to choose on.
        whole: both of them.
        test: split to measure on.
        steps: of fine-tuning.
        warmup: of these.
        rates: learning rates to choose from.
        augment: of the training images.
        resize: pixels of a test image's shorter side before its middle is cut out; None squeezes the whole image.
        test_source: where the test split is of another data set.
        trained_as: name of the task whose training it shares; its own where None.
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


def _held_out(name, title, tfds_name, percent, test, steps, warmup, rates, **more):
    parts = (f"train[:{percent}%]", f"train[{percent}%:]", "train")
    return Transfer(name, title, "", f"tfds:{tfds_name}", *parts, test, steps, warmup, rates, **more)


_IMAGENET = ("imagenet2012", 99, "validation", 20_000, 500, (0.003, 0.01, 0.03, 0.06))
_SMALL = (0.001, 0.003, 0.01, 0.03)
PAPER = (
    _held_out("imagenet", "ImageNet", *_IMAGENET),
    _held_out("real", "ImageNet ReaL", *_IMAGENET, test_source="tfds:imagenet2012_real", trained_as="imagenet"),
    _held_out("cifar10", "CIFAR-10", "cifar10", 98, "test", 10_000, 500, _SMALL),
    _held_out("cifar100", "CIFAR-100", "cifar100", 98, "test", 10_000, 500, _SMALL),
    _held_out("pets", "Oxford-IIIT Pets", "oxford_iiit_pet", 90, "test", 500, 100, _SMALL),
    _held_out("flowers", "Oxford Flowers-102", "oxford_flowers102", 90, "test", 500, 100, _SMALL),
)
# All of VTAB's images whole: a crop can lose what the structured tasks ask for.
VTAB1K = tuple(
    Transfer(task.name, task.paper, task.group, f"vtab:{task.name}", "train800", "val200", "vtab1k", "test",
             augment=Augment(), resize=None)
    for task in VTAB
)  # fmt: skip
FEW_SHOT = tuple(  # name, source, split to draw from, split to measure on
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
IMAGENETS = (  # name, title, source, split, whether it has some of ImageNet's classes alone
    ("imagenet", "ImageNet", "tfds:imagenet2012", "validation", False),
    ("real", "ImageNet ReaL", "tfds:imagenet2012_real", "validation", False),
    ("v2", "ImageNet-V2", "tfds:imagenet_v2/matched-frequency", "test", False),
    ("r", "ImageNet-R", "tfds:imagenet_r", "test", True),
    ("a", "ImageNet-A", "tfds:imagenet_a", "test", True),
)


def fine_tuning(task: Transfer, start: Model, rate: float, choosing: bool = False) -> Recipe:
    """The paper's recipe: SGD with momentum 0.9, batches of 512, cosine decay, no weight decay, clipping at 1.

    Args:
        task: to transfer to.
        start: the model, its weights and its size.
        rate: learning rate.
        choosing: whether the rate is being chosen: then training leaves the validation part out, and measures on it.
    """
    parts = (task.train, task.validation) if choosing else (task.whole, task.test)
    return Recipe(
        f"{task.trained_as or task.name}_lr{rate:g}",
        start,
        Data(
            task.source, None, *parts, 512, shuffle=50_000, resize=task.resize, exif=False
        ),  # as its files store them, as the paper did
        task.augment,
        Optimizer("sgd", learning_rate=rate, momentum=0.9, clip_norm=1.0, moment_dtype="bfloat16"),
        Schedule("cosine", warmup_steps=task.warmup),
        Loss("softmax"),
        evaluate=Evaluate(interval=100),
        steps=task.steps,
    )
