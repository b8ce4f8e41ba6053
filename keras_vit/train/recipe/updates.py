"""The parts of a recipe about updates: loss, optimizer, learning-rate schedule, first phase and moving average."""

from dataclasses import dataclass

from keras_vit.checks import is_count, is_number, is_positive, require

REGRESSIONS = ("mse", "l1", "huber")
KINDS = ("softmax", "sigmoid", "ordinal", *REGRESSIONS)


@dataclass(frozen=True)
class Loss:
    """The loss. Evaluations report the plain loss of `kind`.

    Args:
        kind: `softmax` cross entropy, or `sigmoid` cross entropy summed over the classes. `ordinal` for ordered
            classes: the cross entropy of CORN's class probabilities (arXiv 2111.08851). For a regression `mse`, `l1` or
            `huber`: the mean over the targets, which are standardised by the training split.
        huber_delta: error in standard deviations up to which `huber` is quadratic.
        label_smoothing: fraction of the target spread evenly over all classes, in [0, 1).
        class_weights: weight of every class, by name; 1 for classes that are not named. `balanced` computes the
            weights from the training labels. With `softmax`, a weight multiplies the term of its class, and `balanced`
            is scikit-learn's: examples / (classes * examples of the class). With `sigmoid`, a weight multiplies the
            term of the images that have the class; `balanced` is images without the class / images with the class.
        focal_gamma: exponent of the focal loss (arXiv 1708.02002), which gives well classified examples less weight; 0
            for none. The paper's is 2.
        logit_adjustment: factor of the log frequencies of the classes, which are added to the logits in training only
            (arXiv 2007.07314); 0 for none. The paper's is 1.
        bootstrap: replaces a part of the target by the model's prediction, against wrong labels (arXiv 1412.6596):
            `soft` by the probabilities, `hard` by the predicted class; None for none.
        bootstrap_beta: remaining part of the target, in [0, 1]. None for the paper's: 0.95 for `soft`, 0.8 for `hard`.
        symmetric: the factors of the cross entropy and of the reverse cross entropy with log 0 = -4, against wrong
            labels (arXiv 1908.06112); None for the cross entropy alone. The paper's are (0.1, 1) for CIFAR-10.
    """

    kind: str = "softmax"
    label_smoothing: float = 0.0
    class_weights: str | dict[str, float] | None = None
    focal_gamma: float = 0.0
    logit_adjustment: float = 0.0
    bootstrap: str | None = None
    bootstrap_beta: float | None = None
    symmetric: tuple[float, float] | None = None
    huber_delta: float = 1.0

    def __post_init__(self):
        require(self.kind in KINDS, "kind", f"one of {', '.join(map(repr, KINDS))}", self.kind)
        require(is_positive(self.huber_delta), "huber_delta", "a positive number", self.huber_delta)
        require(is_number(self.label_smoothing, 0, 1), "label_smoothing", "a share in [0, 1)", self.label_smoothing)
        weights = self.class_weights
        named = isinstance(weights, dict) and weights and all(map(is_positive, weights.values()))
        named = named and all(isinstance(name, str) for name in weights)
        require(weights in (None, "balanced") or named, "class_weights",
                "'balanced', a positive number for each name of a class, or null", weights)  # fmt: skip
        for name in ("focal_gamma", "logit_adjustment"):
            require(is_number(getattr(self, name), 0), name, "a number of at least 0", getattr(self, name))
        require(self.bootstrap in (None, "soft", "hard"), "bootstrap", "'soft', 'hard' or null", self.bootstrap)
        beta, pair = self.bootstrap_beta, self.symmetric
        require(beta is None or is_number(beta, 0) and beta <= 1, "bootstrap_beta", "a share in [0, 1] or null", beta)
        factors = isinstance(pair, tuple) and len(pair) == 2 and all(is_number(factor, 0) for factor in pair)
        require(pair is None or factors, "symmetric", "two numbers of at least 0, or null", pair)

    @property
    def is_plain(self) -> bool:
        """Whether the loss is the cross entropy, perhaps with label smoothing."""
        return self == Loss(self.kind, self.label_smoothing)

    @property
    def is_regression(self) -> bool:
        """Whether the targets are values instead of classes."""
        return self.kind in REGRESSIONS


@dataclass(frozen=True)
class Optimizer:
    """The optimizer.

    Args:
        kind: `adamw`, `sgd` with momentum, `lamb` (arXiv 1904.00962), `adafactor` (arXiv 1804.04235, as in arXiv
            2106.04560: with momentum, not scaled by the weights) or `muon` (arXiv 2502.16982: the matrices and
            convolutions of blocks and units; `adamw` at the same rate for all other variables).
        learning_rate: the base learning rate, which the schedule multiplies.
        weight_decay: decoupled weight decay, on kernels only: kernel -= rate * weight_decay * kernel.
        momentum: momentum of `sgd` and `muon`, in [0, 1). Muon's authors use 0.95.
        beta_1: decay of the first moment of all optimizers except `sgd`, in [0, 1).
        beta_2: decay of the second moment of all optimizers except `sgd`, in [0, 1).
        epsilon: added to the square root of the second moment.
        clip_norm: maximum global norm of the gradients, which are scaled down to it; None for no limit.
        layer_decay: factor between the learning rates of a block and the next one, in (0, 1] (arXiv 2106.08254).
        sam: radius of sharpness-aware minimisation (arXiv 2010.01412), which computes the gradient twice; 0 for none.
        accumulate: number of micro-batches of a batch, whose gradients are accumulated to save memory.
        moment_dtype: dtype of the first moment, `float32` or `bfloat16` (big_vision's choice).
    """

    kind: str = "adamw"
    learning_rate: float = 1e-3
    weight_decay: float = 0.0
    momentum: float = 0.9
    beta_1: float = 0.9
    beta_2: float = 0.999
    epsilon: float = 1e-8
    clip_norm: float | None = None
    layer_decay: float = 1.0
    sam: float = 0.0
    accumulate: int = 1
    moment_dtype: str = "float32"

    def __post_init__(self):
        kinds = ("adamw", "sgd", "lamb", "adafactor", "muon")
        require(self.kind in kinds, "kind", "one of 'adamw', 'sgd', 'lamb', 'adafactor', 'muon'", self.kind)
        require(is_positive(self.learning_rate), "learning_rate", "a positive number", self.learning_rate)
        require(is_number(self.weight_decay, 0), "weight_decay", "a number of at least 0", self.weight_decay)
        for name in ("momentum", "beta_1", "beta_2"):
            require(is_number(getattr(self, name), 0, 1), name, "a number in [0, 1)", getattr(self, name))
        require(is_positive(self.epsilon), "epsilon", "a positive number", self.epsilon)
        require(self.clip_norm is None or is_positive(self.clip_norm), "clip_norm", "a positive number or null",
                 self.clip_norm)  # fmt: skip
        share = is_positive(self.layer_decay) and self.layer_decay <= 1
        require(share, "layer_decay", "a factor in (0, 1]", self.layer_decay)
        require(is_number(self.sam, 0), "sam", "a number of at least 0", self.sam)
        require(is_count(self.accumulate), "accumulate", "a positive int", self.accumulate)
        types = ("float32", "bfloat16")
        require(self.moment_dtype in types, "moment_dtype", "'float32' or 'bfloat16'", self.moment_dtype)


@dataclass(frozen=True)
class Schedule:
    """The learning-rate schedule (section 4.1, appendix B.1).

    Args:
        decay: `cosine`, `linear`, `constant`, or `rsqrt`, the reciprocal square root (arXiv 2106.04560).
        warmup_steps: steps over which the rate rises linearly from 0. If the run is not longer, a tenth of the run.
        end: final rate of `linear`.
        timescale: steps after the warm-up in which `rsqrt` falls to 1 / sqrt(2).
        cooldown_steps: last steps, over which the rate falls linearly to 0; at most those after the warm-up.
    """

    decay: str = "cosine"
    warmup_steps: int = 0
    end: float = 0.0
    timescale: int = 10_000
    cooldown_steps: int = 0

    def __post_init__(self):
        kinds = ("cosine", "linear", "constant", "rsqrt")
        require(self.decay in kinds, "decay", "one of 'cosine', 'linear', 'constant', 'rsqrt'", self.decay)
        for name in ("warmup_steps", "cooldown_steps"):
            require(is_count(getattr(self, name), 0), name, "an int of at least 0", getattr(self, name))
        require(is_count(self.timescale), "timescale", "a positive int", self.timescale)
        require(is_number(self.end, 0), "end", "a number of at least 0", self.end)


@dataclass(frozen=True)
class HeadFirst:
    """A first phase that trains the head alone, so that a new head does not disturb pre-trained weights.

    The head are the layers `head` and `pre_logits`. All other weights, batch norms included, stay as they are. Then the
    optimizer starts anew, and its rate, `layer_decay` and the schedule apply to all weights for the rest of the run.

    Args:
        until: fraction of the run's steps at which the phase ends, in (0, 1).
        learning_rate: the learning rate of the phase, which is constant.
    """

    until: float = 0.2
    learning_rate: float = 1e-3

    def __post_init__(self):
        require(is_positive(self.until) and self.until < 1, "until", "a share in (0, 1)", self.until)
        require(is_positive(self.learning_rate), "learning_rate", "a positive number", self.learning_rate)

    def steps_of(self, total: int) -> int:
        """Return the number of updates of the phase in a run of `total` updates, at least one if there are two."""
        return min(max(round(self.until * total), 1), total - 1)


def head_steps(recipe, total: int) -> int:
    """Return the number of updates that a recipe makes to the head alone in a run of `total` updates."""
    return recipe.head_first.steps_of(total) if recipe.head_first else 0


@dataclass(frozen=True)
class Average:
    """The moving average of the weights, which is evaluated and saved instead of the weights.

    Args:
        decay: weight of the old average at each step, in [0, 1); 0 for no average. Step t uses at most
            (1 + t) / (10 + t), so that the initial weights are forgotten.
    """

    decay: float = 0.0

    def __post_init__(self):
        require(is_number(self.decay, 0, 1), "decay", "a number in [0, 1)", self.decay)
