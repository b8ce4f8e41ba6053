"""What a recipe is made of: frozen dataclasses that say all that a training run will do, and need no TensorFlow."""

import dataclasses
from dataclasses import dataclass, field

from keras_vit.models.variants import Variant as Variant
from keras_vit.models.variants import find_variant
from keras_vit.train.checks import is_count, is_number, is_positive, is_size, require

SOURCES = ("digits", "folder", "tfds:NAME")
PRECISIONS = ("float32", "mixed_bfloat16")


@dataclass(frozen=True)
class Model:
    """The model to train.

    Args:
        variant: name of a row of the table (`ViT_B16`, `ViT-B/16`, `vit_base_patch16_224`), or your own `Variant`.
        weights: file of weights to start from; its classifier is left out and the new one starts at zero.
        image_size: pixels, one int or (height, width); the row's where None.
        channels: of the images: 1 for grey, 3 for RGB.
        pooling: `token`, `gap` or `map`.
        patch_size: pixels of a patch in place of the row's, one int or (height, width).
        representation_size: width of a tanh layer before the classifier.
        dropout_rate: after the position embedding and every dense layer but query, key and value, in [0, 1).
        attention_dropout_rate: on the attention weights, in [0, 1).
        drop_path_rate: stochastic depth of the last block, rising linearly from 0 at the first, in [0, 1).
        include_preprocessing: True makes a model that takes pixels 0..255 in place of [-1, 1].
    """

    variant: str | Variant
    weights: str | None = None
    image_size: int | tuple[int, int] | None = None
    channels: int = 3
    pooling: str = "token"
    patch_size: int | tuple[int, int] | None = None
    representation_size: int | None = None
    dropout_rate: float = 0.0
    attention_dropout_rate: float = 0.0
    drop_path_rate: float = 0.0
    include_preprocessing: bool = False

    def __post_init__(self):
        if not isinstance(self.variant, Variant):
            require(isinstance(self.variant, str), "variant", "a model's name or a Variant", self.variant)
            find_variant(self.variant)
        for name in ("image_size", "patch_size"):
            require(is_size(getattr(self, name)), name, "a positive int or (height, width)", getattr(self, name))
        require(self.channels in (1, 3), "channels", "1 or 3", self.channels)
        require(self.pooling in ("token", "gap", "map"), "pooling", "one of 'token', 'gap', 'map'", self.pooling)
        for name in ("dropout_rate", "attention_dropout_rate", "drop_path_rate"):
            require(is_number(getattr(self, name), 0, 1), name, "a rate in [0, 1)", getattr(self, name))

    @property
    def row(self) -> Variant:
        """The row that `variant` means."""
        return self.variant if isinstance(self.variant, Variant) else find_variant(self.variant)[0]

    @property
    def input_shape(self) -> tuple[int, int, int]:
        """(height, width, channels) of the images."""
        size = self.image_size or self.row.image_size
        return (*((size, size) if isinstance(size, int) else size), self.channels)


@dataclass(frozen=True)
class Data:
    """Where the examples come from, and how many make a batch.

    Args:
        source: `digits` (scikit-learn's handwritten digits), `folder` (one's own images) or `tfds:NAME`.
        directory: the folder of images, or the folder that TensorFlow Datasets keeps its data in.
        train_split: examples to train on, `train` or a part of it, `train[:90%]`.
        test_split: examples to evaluate on.
        batch_size: examples of one update over all replicas; what is left of an epoch is dropped.
    """

    source: str = "digits"
    directory: str | None = None
    train_split: str = "train"
    test_split: str = "test"
    batch_size: int = 128

    def __post_init__(self):
        known = self.source in SOURCES[:2] or (isinstance(self.source, str) and self.source.startswith("tfds:"))
        require(known, "source", f"one of {', '.join(SOURCES)}", self.source)
        require(is_count(self.batch_size), "batch_size", "a positive int", self.batch_size)


@dataclass(frozen=True)
class Augment:
    """Random changes to the training images.

    Args:
        crop: `none` (the whole image), or `inception` (a random part of random aspect ratio, 3/4 to 4/3).
        crop_area: the smallest share of the image that `inception` crops to, in (0, 1].
        flip: whether to mirror half of the images, left to right.
        shift: largest move along each axis as a share of the side, in [0, 1).
        rotate: largest turn in degrees, either way.
        zoom: largest change of size as a share, in [0, 1).
        mixup: p of Beta(p, p), from which the share of a second image is drawn (arXiv 1710.09412); 0 for none.
    """

    crop: str = "none"
    crop_area: float = 0.05
    flip: bool = False
    shift: float = 0.0
    rotate: float = 0.0
    zoom: float = 0.0
    mixup: float = 0.0

    def __post_init__(self):
        require(self.crop in ("none", "inception"), "crop", "'none' or 'inception'", self.crop)
        require(self.crop_area == 1 or is_number(self.crop_area, 1e-9, 1), "crop_area", "a share in (0, 1]",
                 self.crop_area)  # fmt: skip
        require(isinstance(self.flip, bool), "flip", "true or false", self.flip)
        require(is_number(self.rotate, 0, 181), "rotate", "degrees in [0, 180]", self.rotate)
        for name in ("shift", "zoom"):
            require(is_number(getattr(self, name), 0, 1), name, "a share in [0, 1)", getattr(self, name))
        require(is_number(self.mixup, 0), "mixup", "a number of at least 0", self.mixup)


@dataclass(frozen=True)
class Optimizer:
    """How a gradient becomes an update.

    Args:
        kind: `adamw`, or `sgd` (with momentum).
        learning_rate: the base rate, which the schedule multiplies.
        weight_decay: decoupled, on kernels only: kernel -= rate * weight_decay * kernel.
        momentum: of `sgd`, in [0, 1).
        beta_1: decay of `adamw`'s mean of gradients, in [0, 1).
        beta_2: decay of `adamw`'s mean of squared gradients, in [0, 1).
        epsilon: added to `adamw`'s root of the mean square.
        clip_norm: largest norm of all gradients together, scaled down to it; None for no limit.
    """

    kind: str = "adamw"
    learning_rate: float = 1e-3
    weight_decay: float = 0.0
    momentum: float = 0.9
    beta_1: float = 0.9
    beta_2: float = 0.999
    epsilon: float = 1e-8
    clip_norm: float | None = None

    def __post_init__(self):
        require(self.kind in ("adamw", "sgd"), "kind", "'adamw' or 'sgd'", self.kind)
        require(is_positive(self.learning_rate), "learning_rate", "a positive number", self.learning_rate)
        require(is_number(self.weight_decay, 0), "weight_decay", "a number of at least 0", self.weight_decay)
        for name in ("momentum", "beta_1", "beta_2"):
            require(is_number(getattr(self, name), 0, 1), name, "a number in [0, 1)", getattr(self, name))
        require(is_positive(self.epsilon), "epsilon", "a positive number", self.epsilon)
        require(self.clip_norm is None or is_positive(self.clip_norm), "clip_norm", "a positive number or null",
                 self.clip_norm)  # fmt: skip


@dataclass(frozen=True)
class Schedule:
    """The learning rate over the steps (section 4.1, appendix B.1).

    Args:
        decay: `cosine`, `linear` or `constant`.
        warmup_steps: steps over which the rate rises linearly from 0.
        end: the rate that `linear` ends at.
    """

    decay: str = "cosine"
    warmup_steps: int = 0
    end: float = 0.0

    def __post_init__(self):
        kinds = ("cosine", "linear", "constant")
        require(self.decay in kinds, "decay", "one of 'cosine', 'linear', 'constant'", self.decay)
        require(is_count(self.warmup_steps, 0), "warmup_steps", "an int of at least 0", self.warmup_steps)
        require(is_number(self.end, 0), "end", "a number of at least 0", self.end)


@dataclass(frozen=True)
class Loss:
    """What is made small.

    Args:
        kind: `softmax` cross entropy, or `sigmoid` cross entropy summed over the classes.
        label_smoothing: share of the target spread evenly over all classes, in [0, 1).
    """

    kind: str = "softmax"
    label_smoothing: float = 0.0

    def __post_init__(self):
        require(self.kind in ("softmax", "sigmoid"), "kind", "'softmax' or 'sigmoid'", self.kind)
        require(is_number(self.label_smoothing, 0, 1), "label_smoothing", "a share in [0, 1)", self.label_smoothing)


@dataclass(frozen=True)
class Average:
    """A moving average of the weights, which is then what is evaluated and saved.

    Args:
        decay: share of the old average that each step keeps, in [0, 1); 0 for no average. Early steps keep
            (1 + step) / (10 + step) at most, so that the start is forgotten.
    """

    decay: float = 0.0

    def __post_init__(self):
        require(is_number(self.decay, 0, 1), "decay", "a number in [0, 1)", self.decay)


@dataclass(frozen=True)
class Evaluate:
    """When to evaluate on the test split. Nothing is chosen by it: the last weights are the result.

    Args:
        every: epochs between two evaluations, for the curve; 0 for one at the end alone.
    """

    every: int = 0

    def __post_init__(self):
        require(is_count(self.every, 0), "every", "an int of at least 0", self.every)


@dataclass(frozen=True)
class Checkpoint:
    """When to save the state of training, which a killed run goes on from.

    Args:
        seconds: least time between two checkpoints.
        keep: how many to keep, the newest ones.
    """

    seconds: float = 60.0
    keep: int = 2

    def __post_init__(self):
        require(is_number(self.seconds, 0), "seconds", "a number of at least 0", self.seconds)
        require(is_count(self.keep), "keep", "a positive int", self.keep)


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
        epochs: times that the training examples are gone through.
        seed: of the first weights, the order of the examples, their augmentation and dropout.
        precision: `float32`, or `mixed_bfloat16` (float32 weights, bfloat16 arithmetic).

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
    epochs: int = 1
    seed: int = 0
    precision: str = "float32"

    def __post_init__(self):
        for part in dataclasses.fields(self):
            if isinstance(part.type, type) and dataclasses.is_dataclass(part.type):
                value = getattr(self, part.name)
                require(isinstance(value, part.type), part.name, f"{part.type.__name__}(...)", value)
        require(isinstance(self.name, str) and self.name, "name", "a name", self.name)
        require(is_count(self.epochs), "epochs", "a positive int", self.epochs)
        require(is_count(self.seed, 0), "seed", "an int of at least 0", self.seed)
        require(self.precision in PRECISIONS, "precision", f"one of {PRECISIONS}", self.precision)
