"""Choose batch, epochs, learning rate and regularisation by the size of a data set."""

from dataclasses import dataclass

from keras_vit.cli.new_data import DataFacts
from keras_vit.models.adapt_settings import Adapt

LARGEST_BATCH = 32
SMALL = 1_000  # training images below which a model is fine-tuned in smaller steps
UPDATES = 500  # of fine-tuning, at most; more only where 5 epochs take more
FEWEST_EPOCHS, MOST_EPOCHS = 5, 50
IMBALANCE = 5  # ratio of the most frequent class to the rarest one, above which rare classes count more


@dataclass(frozen=True)
class Adapted:
    """What a plan says about a kind of `Adapt`.

    Args:
        rate: its learning rate. Few variables take larger steps than all weights.
        trained: what is trained beside the head, with the rank as `{size}`; empty for nothing.
        source: its paper.
    """

    rate: float
    trained: str
    source: str


ADAPTED = {
    "lora": Adapted(1e-3, "matrices of rank {size} for query and value of each block", "LoRA (arXiv 2106.09685)"),
    "adapter": Adapted(1e-3, "a bottleneck of width {size} beside each MLP", "AdaptFormer (arXiv 2205.13535)"),
    "vpt": Adapted(2e-3, "{size} tokens in the input of each block", "visual prompt tuning (arXiv 2203.12119)"),
    "ssf": Adapted(
        1e-3, "a factor for each output of the dense layers, all biases, the norms", "SSF (arXiv 2210.08823)"
    ),
    "bitfit": Adapted(1e-3, "the biases", "BitFit (arXiv 2106.10199)"),
    "probe": Adapted(2e-3, "", "a linear classifier on frozen features"),
}


@dataclass(frozen=True)
class Plan:
    """The numbers of a recipe.

    Args:
        batch: images per update.
        epochs: number of epochs.
        updates: updates per epoch.
        warmup: updates over which the learning rate rises.
        learning_rate: the base learning rate.
        crop_area: smallest fraction of the image that a random crop shows.
        every: epochs between evaluations.
        patience: evaluations without a better one after which training stops; 0 for never.
        adjusts: whether the loss makes rare classes count more, by logit adjustment.
        adapt: which few variables are trained; None trains all weights.
        cached: whether the input of the head is computed once per image, which excludes random changes of the images.
    """

    batch: int
    epochs: int
    updates: int
    warmup: int
    learning_rate: float = 1e-3
    crop_area: float = 0.3
    every: int = 1
    patience: int = 0
    adjusts: bool = False
    adapt: Adapt | None = None
    cached: bool = False


def fixed_plan(data: DataFacts, fine_tuned: bool) -> Plan:
    """Return the plan of `keras-vit new`: a fixed number of epochs."""
    epochs = 10 if fine_tuned else 20 if data.source == "digits" else 100
    batch, updates, warmup = _updates(data, epochs)
    return Plan(batch, epochs, updates, warmup, crop_area=0.3 if fine_tuned else 0.2, every=1 if fine_tuned else 10)


def finetuning_plan(data: DataFacts, adapt: Adapt | None = None) -> Plan:
    """Return the plan of `keras-vit finetune`, for all weights or for the few variables of `adapt`.

    Few images are seen more often, in smaller steps, and are cropped less, since a crop may miss their subject. The
    validation split ends the training early. Rare classes count more if the most frequent class has over five times as
    many images: of logit adjustment and balanced sampling, the first repeats no image. `probe` trains on cached
    features where the images are files.
    """
    _, updates, _ = _updates(data, 1)
    epochs = min(max(-(-UPDATES // updates), FEWEST_EPOCHS), MOST_EPOCHS)
    batch, updates, warmup = _updates(data, epochs)
    small = data.train < SMALL
    rate, area = (2e-4, 0.5) if small else (5e-4, 0.3)
    adjusts = data.imbalance > IMBALANCE
    rate = rate if adapt is None else ADAPTED[adapt.kind].rate
    cached = adapt is not None and adapt.kind == "probe" and not data.source.startswith("tfds:")
    return Plan(batch, epochs, updates, warmup, rate, area, patience=max(3, epochs // 5), adjusts=adjusts, adapt=adapt,
                cached=cached)  # fmt: skip


def _updates(data: DataFacts, epochs: int) -> tuple[int, int, int]:
    """Return the batch size, the updates of an epoch, and the updates of the warm-up.

    The batch size is a power of two that leaves at least four updates in an epoch.
    """
    batch = LARGEST_BATCH
    while batch > 1 and batch * 4 > data.train:
        batch //= 2
    updates = data.train // batch
    return batch, updates, max(1, min(500, updates * epochs // 10))
