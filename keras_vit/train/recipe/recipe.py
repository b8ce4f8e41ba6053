"""A recipe and most of its parts: frozen dataclasses. Importing them needs no TensorFlow."""

import dataclasses
import math
from dataclasses import dataclass, field

from keras_vit.checks import is_count, is_number, is_size, is_text, require, sides
from keras_vit.data.augmentations import Augment
from keras_vit.models.adapt_settings import Adapt
from keras_vit.models.row_checks import require_row
from keras_vit.models.variants import AnyVariant, ConvNet, Variant, find_variant
from keras_vit.train.recipe.inputs import Curriculum, Data
from keras_vit.train.recipe.inputs import check_sizes as check_sizes
from keras_vit.train.recipe.masked import Masked, check_masked
from keras_vit.train.recipe.updates import Average, HeadFirst, Loss, Optimizer, Schedule

PRECISIONS = ("float32", "mixed_bfloat16", "mixed_float16")
METRICS = ("accuracy", "top5", "calibration", "mean_average_precision")


@dataclass(frozen=True)
class Model:
    """The model to train.

    Args:
        variant: name of a variant (`ViT_B16`, `ViT-B/16`, `vit_base_patch16_224`), or a `Variant`,
            `BiTVariant` or `EfficientNetVariant`.
        weights: initial weights: a tag, a file, or the workdir of another run. A new classifier starts at zero.
        image_size: size in pixels, one int or (height, width); the variant's if None.
        channels: channels of the images: 1 for grey, 3 for RGB.
        pooling: `token`, `gap` or `map`.
        patch_size: size of a patch in pixels, one int or (height, width); the variant's if None.
        representation_size: width of a tanh layer before the classifier; None for no such layer.
        dropout_rate: dropout after the position embedding and every dense layer except query, key and value, in [0, 1).
        attention_dropout_rate: dropout of the attention weights, in [0, 1).
        drop_path_rate: stochastic depth of the last block, in [0, 1). It rises linearly from 0 at the first block.
        head_bias: initial bias of the classifier, such as -10 for `sigmoid` with many classes (big_vision).
        freeze: names of frozen layers; `*` matches any part, as in `encoder_block_0*`.
        include_preprocessing: whether the model takes pixels 0..255 instead of [-1, 1].
        keep_head: whether to load the classifier of `weights`, too. Its classes must be those of the data.
    """

    variant: str | AnyVariant
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
    keep_head: bool = False

    def __post_init__(self):
        if isinstance(self.variant, Variant | ConvNet):
            require_row(self.variant)
        else:
            require(isinstance(self.variant, str), "variant", "a model's name or a row", self.variant)
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
        for name in ("include_preprocessing", "keep_head"):
            require(isinstance(getattr(self, name), bool), name, "true or false", getattr(self, name))
        require(is_number(self.head_bias, -math.inf), "head_bias", "a number", self.head_bias)
        patterns = isinstance(self.freeze, tuple) and all(isinstance(pattern, str) for pattern in self.freeze)
        require(patterns, "freeze", "a tuple of names", self.freeze)

    @property
    def row(self) -> AnyVariant:
        """The row of `variant`."""
        return self.variant if not isinstance(self.variant, str) else find_variant(self.variant)[0]

    @property
    def input_shape(self) -> tuple[int, int, int]:
        """(height, width, channels) of the images."""
        return (*sides(self.image_size or self.row.image_size), self.channels)


@dataclass(frozen=True)
class Evaluate:
    """The evaluations of a run. The last weights are the result, unless `Checkpoint.use_best` is set.

    Args:
        every: epochs between two evaluations; 0 for one at the end only.
        interval: steps between two reports of the training loss; 0 for one per epoch. With an interval, `every` counts
            intervals instead of epochs. It is for epochs that take days, or a single step.
        split: split of the evaluations during training and of one at the end, such as `train[98%:]`; the test split if
            None. The last evaluation is always on the test split.
        metrics: any of `accuracy`, `top5` (the label is among the five best classes), `calibration` (expected
            calibration error over 15 bins, arXiv 1706.04599) and `mean_average_precision`. The last is for several
            labels per image: it also reports F1, and chooses the threshold of each label by F1 on `split`.
        few_shot: data source of few-shot evaluations, as in `Data`; None for none. At every evaluation, a linear head
            is fitted by least squares to a few examples per class (section 4.1).
        few_shot_splits: the splits of that source to fit to and to test on.
        few_shot_directory: directory of that source; the directory of the run's data if None.
        shots: numbers of examples per class of the few-shot evaluations.
        pictures: steps between two pictures in TensorBoard of the layer outputs of a test image; 0 for none.
        patience: number of evaluations of `split` without a higher accuracy after which the run stops early; 0 never
            stops early.
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
    patience: int = 0

    def __post_init__(self):
        for name in ("every", "interval", "pictures", "patience"):
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
    """The checkpoints of a run, from which a stopped run resumes.

    Args:
        seconds: minimum time between two checkpoints.
        keep: number of the newest checkpoints to keep.
        best: whether to also save the model of the highest accuracy as `best.keras`.
        use_best: whether the weights of `best.keras` are the result of the run: they are evaluated on the test split,
            once, and saved as `model.keras`. Needs `best`, and a split in `Evaluate` that selects them.
    """

    seconds: float = 60.0
    keep: int = 2
    best: bool = False
    use_best: bool = False

    def __post_init__(self):
        require(is_number(self.seconds, 0), "seconds", "a number of at least 0", self.seconds)
        require(is_count(self.keep), "keep", "a positive int", self.keep)
        for name in ("best", "use_best"):
            require(isinstance(getattr(self, name), bool), name, "true or false", getattr(self, name))


@dataclass(frozen=True)
class Recipe:
    """The complete description of a training run.

    Args:
        name: name of the recipe.
        model: the model to train.
        data: the data.
        augment: augmentation of the images.
        optimizer: the optimizer.
        schedule: the learning-rate schedule.
        loss: the loss.
        average: moving average of the weights.
        evaluate: the evaluations.
        checkpoint: the checkpoints.
        curriculum: image and patch sizes over the run.
        head_first: a first phase that trains the head alone; None for none.
        masked: masked patch prediction, which ignores the labels; None for classification.
        adapt: parameter-efficient fine-tuning; None trains all weights. `Model.freeze` then names blocks without new
            variables.
        epochs: number of epochs; ignored if `steps` is set.
        steps: number of updates; None for whole epochs.
        seed: seed of the initial weights, the order of the examples, augmentation and dropout.
        precision: `float32`, `mixed_bfloat16` (float32 weights, bfloat16 computation) or `mixed_float16` (with loss
            scaling).
        recompute: whether the backward pass recomputes the activations of each block instead of saving them. It takes
            a third more computation and a fraction of the memory.
        nonfinite: whether to `stop` at an update whose loss or gradient is not finite, or to `skip` and count it.

    Raises:
        ValueError: a field is out of range; the message says what was expected and what was received.
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
    head_first: HeadFirst | None = None
    masked: Masked | None = None
    adapt: Adapt | None = None
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
        first = self.head_first
        require(first is None or isinstance(first, HeadFirst), "head_first", "HeadFirst(...) or null", first)
        require(isinstance(self.name, str) and self.name, "name", "a name", self.name)
        require(is_count(self.epochs), "epochs", "a positive int", self.epochs)
        require(self.steps is None or is_count(self.steps), "steps", "a positive int or null", self.steps)
        require(is_count(self.seed, 0) and self.seed < 2**32, "seed", "an int of 0 to 2**32 - 1", self.seed)
        require(self.precision in PRECISIONS, "precision", f"one of {PRECISIONS}", self.precision)
        require(isinstance(self.recompute, bool), "recompute", "true or false", self.recompute)
        require(self.nonfinite in ("stop", "skip"), "nonfinite", "'stop' or 'skip'", self.nonfinite)
        require(self.adapt is None or isinstance(self.adapt, Adapt), "adapt", "Adapt(...) or null", self.adapt)
        if self.masked is not None:
            check_masked(self)
