"""What a recipe is made of: frozen dataclasses that say all that a training run will do, and need no TensorFlow."""

import dataclasses
import math
from dataclasses import dataclass, field

from keras_vit.checks import is_count, is_number, is_size, is_text, require, sides
from keras_vit.data.augmentations import Augment
from keras_vit.models.row_checks import require_row
from keras_vit.models.variants import BiTVariant, Variant, find_variant
from keras_vit.train.recipe.inputs import Curriculum, Data
from keras_vit.train.recipe.inputs import check_sizes as check_sizes
from keras_vit.train.recipe.masked import Masked, check_masked
from keras_vit.train.recipe.updates import Average, Loss, Optimizer, Schedule

PRECISIONS = ("float32", "mixed_bfloat16", "mixed_float16")
METRICS = ("accuracy", "top5", "calibration")


@dataclass(frozen=True)
class Model:
    """The model to train.

    Args:
        variant: name of a row of the table (`ViT_B16`, `ViT-B/16`, `vit_base_patch16_224`), or your own
            `Variant` or `BiTVariant`.
        weights: file of weights to start from; its classifier is left out and the new one starts at zero.
        image_size: pixels, one int or (height, width); the row's where None.
        channels: of the images: 1 for grey, 3 for RGB.
        pooling: `token`, `gap` or `map`.
        patch_size: pixels of a patch in place of the row's, one int or (height, width).
        representation_size: width of a tanh layer before the classifier.
        dropout_rate: after the position embedding and every dense layer but query, key and value, in [0, 1).
        attention_dropout_rate: on the attention weights, in [0, 1).
        drop_path_rate: stochastic depth of the last block, rising linearly from 0 at the first, in [0, 1).
        head_bias: that the new classifier starts with; -10 where `sigmoid` sees many classes (big_vision).
        freeze: names of layers, with `*` for any part (`encoder_block_0*`), whose weights stay as they are.
        include_preprocessing: True makes a model that takes pixels 0..255 in place of [-1, 1].
    """

    variant: str | Variant | BiTVariant
    weights: str | None = None
    image_size: int | tuple[int, int] | None = None
    channels: int = 3
    pooling: str = "token"
    patch_size: int | tuple[int, int] | None = None
    representation_size: int | None = None
    dropout_rate: float = 0.0
    attention_dropout_rate: float = 0.0
    drop_path_rate: float = 0.0
    head_bias: float = 0.0
    freeze: tuple[str, ...] = ()
    include_preprocessing: bool = False

    def __post_init__(self):
        if isinstance(self.variant, Variant | BiTVariant):
            require_row(self.variant)
        else:
            require(isinstance(self.variant, str), "variant", "a model's name, a Variant or a BiTVariant", self.variant)
            find_variant(self.variant)
        require(is_text(self.weights), "weights", "a file's name or null", self.weights)
        for name in ("image_size", "patch_size"):
            require(is_size(getattr(self, name)), name, "a positive int or (height, width)", getattr(self, name))
        require(self.channels in (1, 3), "channels", "1 or 3", self.channels)
        require(self.pooling in ("token", "gap", "map"), "pooling", "one of 'token', 'gap', 'map'", self.pooling)
        width = self.representation_size
        require(width is None or is_count(width), "representation_size", "a positive int or null", width)
        for name in ("dropout_rate", "attention_dropout_rate", "drop_path_rate"):
            require(is_number(getattr(self, name), 0, 1), name, "a rate in [0, 1)", getattr(self, name))
        require(isinstance(self.include_preprocessing, bool), "include_preprocessing", "true or false",
                self.include_preprocessing)  # fmt: skip
        require(is_number(self.head_bias, -math.inf), "head_bias", "a number", self.head_bias)
        patterns = isinstance(self.freeze, tuple) and all(isinstance(pattern, str) for pattern in self.freeze)
        require(patterns, "freeze", "a tuple of names", self.freeze)

    @property
    def row(self) -> Variant | BiTVariant:
        """The row that `variant` means."""
        return self.variant if not isinstance(self.variant, str) else find_variant(self.variant)[0]

    @property
    def input_shape(self) -> tuple[int, int, int]:
        """(height, width, channels) of the images."""
        return (*sides(self.image_size or self.row.image_size), self.channels)


@dataclass(frozen=True)
class Evaluate:
    """What is measured on held-out examples, and when. Nothing is chosen by it: the last weights are the result.

    Args:
        every: epochs between two evaluations, for the curve; 0 for one at the end alone.
        interval: steps between two reports of the training loss, which `every` counts in place of epochs: for data
            whose epoch takes days, or a single step; 0 for epochs.
        split: examples of the evaluations on the way, and of one at the end, `train[98%:]`; the data's test split
            where None. The last evaluation is on the test split.
        metrics: of `accuracy` (the best class is right), `top5` (one of the best five is) and `calibration` (expected
            error over 15 bins of confidence, arXiv 1706.04599).
        few_shot: source, as in `Data`, whose classes a linear head is fitted to, by least squares on a few examples
            each, at every evaluation (section 4.1, "few-shot"); None for none.
        few_shot_splits: of that source: to fit to, and to test on.
        few_shot_directory: where that source lies; where the run's data does if None.
        shots: examples a class of the few-shot evaluation.
        pictures: steps between two pictures, among TensorBoard's events, of how a held-out image travels through the
            model; 0 for none.
    """

    every: int = 0
    interval: int = 0
    split: str | None = None
    metrics: tuple[str, ...] = ("accuracy",)
    few_shot: str | None = None
    few_shot_splits: tuple[str, str] = ("train", "test")
    few_shot_directory: str | None = None
    shots: tuple[int, ...] = (5,)
    pictures: int = 0

    def __post_init__(self):
        for name in ("every", "interval", "pictures"):
            require(is_count(getattr(self, name), 0), name, "an int of at least 0", getattr(self, name))
        known = isinstance(self.metrics, tuple) and "accuracy" in self.metrics and set(self.metrics) <= set(METRICS)
        require(known, "metrics", f"'accuracy' and any of {METRICS[1:]}", self.metrics)
        require(is_text(self.split), "split", "a split's name or null", self.split)
        require(is_text(self.few_shot_directory), "few_shot_directory", "a folder's name or null",
                self.few_shot_directory)  # fmt: skip
        if self.few_shot is not None:
            Data(self.few_shot)
        pair = isinstance(self.few_shot_splits, tuple) and len(self.few_shot_splits) == 2
        require(pair and all(split and is_text(split) for split in self.few_shot_splits), "few_shot_splits",
                "two splits' names", self.few_shot_splits)  # fmt: skip
        counts = isinstance(self.shots, tuple) and self.shots and all(is_count(shot) for shot in self.shots)
        require(counts, "shots", "positive ints", self.shots)


@dataclass(frozen=True)
class Checkpoint:
    """When to save the state of training, which a killed run goes on from.

    Args:
        seconds: least time between two checkpoints.
        keep: how many to keep, the newest ones.
        best: whether to keep the weights of the most accurate evaluation, too, as `best.keras`.
    """

    seconds: float = 60.0
    keep: int = 2
    best: bool = False

    def __post_init__(self):
        require(is_number(self.seconds, 0), "seconds", "a number of at least 0", self.seconds)
        require(is_count(self.keep), "keep", "a positive int", self.keep)
        require(isinstance(self.best, bool), "best", "true or false", self.best)


@dataclass(frozen=True)
class Recipe:
    """All that a training run will do.

    Args:
        name: of the recipe.
        model: what to train.
        data: on what.
        augment: random changes to the images.
        optimizer: how a gradient becomes an update.
        schedule: the learning rate over the steps.
        loss: what is made small.
        average: moving average of the weights.
        evaluate: when to evaluate.
        checkpoint: when to save the state.
        curriculum: sizes of images and patches over the run.
        masked: masked patch prediction in place of classes, for which the labels are not looked at; None for classes.
        epochs: times that the training examples are gone through; not looked at where `steps` are given.
        steps: updates of the whole run; None for whole epochs.
        seed: of the first weights, the order of the examples, their augmentation and dropout.
        precision: `float32`, `mixed_bfloat16` (float32 weights, bfloat16 arithmetic) or `mixed_float16` (with a loss
            scaled so that small gradients survive).
        recompute: whether the backward pass computes each block's insides again in place of keeping them: a third
            more arithmetic for a fraction of the memory.
        nonfinite: `stop` at an update whose loss or gradient is not finite, or `skip` and count it.

    Raises:
        ValueError: a field is out of range; one sentence says which, what was expected and what was received.
    """

    name: str
    model: Model
    data: Data = field(default_factory=Data)
    augment: Augment = field(default_factory=Augment)
    optimizer: Optimizer = field(default_factory=Optimizer)
    schedule: Schedule = field(default_factory=Schedule)
    loss: Loss = field(default_factory=Loss)
    average: Average = field(default_factory=Average)
    evaluate: Evaluate = field(default_factory=Evaluate)
    checkpoint: Checkpoint = field(default_factory=Checkpoint)
    curriculum: Curriculum = field(default_factory=Curriculum)
    masked: Masked | None = None
    epochs: int = 1
    steps: int | None = None
    seed: int = 0
    precision: str = "float32"
    recompute: bool = False
    nonfinite: str = "stop"

    def __post_init__(self):
        for part in dataclasses.fields(self):
            if isinstance(part.type, type) and dataclasses.is_dataclass(part.type):
                value = getattr(self, part.name)
                require(isinstance(value, part.type), part.name, f"{part.type.__name__}(...)", value)
        require(isinstance(self.name, str) and self.name, "name", "a name", self.name)
        require(is_count(self.epochs), "epochs", "a positive int", self.epochs)
        require(self.steps is None or is_count(self.steps), "steps", "a positive int or null", self.steps)
        require(is_count(self.seed, 0) and self.seed < 2**32, "seed", "an int of 0 to 2**32 - 1", self.seed)
        require(self.precision in PRECISIONS, "precision", f"one of {PRECISIONS}", self.precision)
        require(isinstance(self.recompute, bool), "recompute", "true or false", self.recompute)
        require(self.nonfinite in ("stop", "skip"), "nonfinite", "'stop' or 'skip'", self.nonfinite)
        if self.masked is not None:
            check_masked(self)
