"""The parts of a recipe that say what the model sees: examples, their changes, and the sizes over the run."""

from dataclasses import dataclass, replace

from keras_vit.checks import is_count, is_positive, is_size, is_text, require, sides
from keras_vit.data import SOURCES
from keras_vit.data.augmentations import Augment
from keras_vit.models.variants import BiTVariant

PREFIXES = ("tfds:", "vtab:")


@dataclass(frozen=True)
class Data:
    """Where the examples come from, and how many make a batch.

    Args:
        source: `digits` (scikit-learn's handwritten digits), `folder` (one's own images), `arrays` (an `.npz` file
            of `x_train`, `y_train`, `x_test`, `y_test`), `tfds:NAME`, or `vtab:TASK` (one of the nineteen, whose
            labels and splits `vtab1k` are those of the benchmark).
        directory: the folder of images, the file of arrays, or the folder that TensorFlow Datasets keeps its data in.
        train_split: examples to train on, `train` or a part of it, `train[:90%]`.
        test_split: examples to evaluate on.
        batch_size: examples of one update over all replicas; what is left of an epoch is dropped.
        shuffle: examples of TensorFlow Datasets that the next one is drawn from; a smaller set, and folders and arrays
            of any size, are shuffled whole. Every process holds so many encoded images in memory: of ImageNet, at 110
            KB an image, the default is 27 GB, 50,000 are 5.5 GB.
        resize: pixels that the shorter side of a test image is brought to before its middle is cut out, where
            prediction and exports squeeze the whole image; None
            squeezes the whole image into the model's size, as the official code does.
        on_error: `stop` at a file that is no image, or `skip` it with a warning, up to three files or one in a
            hundred; in the data of the few-shot evaluation, too. A run that stopped goes on with another value.
        exif: whether photographs are turned upright as their EXIF orientation says, in training and in evaluation;
            false takes them as their files store them, as the official code and TensorFlow Datasets do. Prediction and
            exports always turn them.
    """

    source: str = "digits"
    directory: str | None = None
    train_split: str = "train"
    test_split: str = "test"
    batch_size: int = 128
    shuffle: int = 250_000
    resize: int | None = None
    on_error: str = "stop"
    exif: bool = True

    def __post_init__(self):
        known = self.source in SOURCES[:3] or (isinstance(self.source, str) and self.source.startswith(PREFIXES))
        require(known, "source", f"one of {', '.join(SOURCES)}", self.source)
        require(is_text(self.directory), "directory", "a folder's name or null", self.directory)
        for name in ("train_split", "test_split"):
            split = getattr(self, name)
            require(split is not None and is_text(split), name, "a split's name", split)
        for name in ("batch_size", "shuffle"):
            require(is_count(getattr(self, name)), name, "a positive int", getattr(self, name))
        require(self.resize is None or is_count(self.resize), "resize", "a positive int or null", self.resize)
        require(self.on_error in ("stop", "skip"), "on_error", "'stop' or 'skip'", self.on_error)
        require(isinstance(self.exif, bool), "exif", "true or false", self.exif)


def augment_at(augment: Augment, size: tuple[int, int], own: tuple[int, int]) -> Augment:
    """The augmentation of a stage's images, in whose crops there is as much to be seen as at the model's size.

    Args:
        augment: at the model's size.
        size: (height, width) of the stage's images.
        own: (height, width) of the model's. Where only one side differs, what is one number follows the larger share.
    """
    if size == own:
        return augment
    shares = [side / whole for side, whole in zip(size, own, strict=True)]
    crop = augment.crop_resize
    if isinstance(crop, int):
        crop = max(round(crop * max(shares)), *size)
    elif crop is not None:
        crop = tuple(max(round(a * share), side) for a, share, side in zip(crop, shares, size, strict=True))
    return replace(augment, crop_resize=crop, crop_pad=max(round(augment.crop_pad * max(shares)), 1))


@dataclass(frozen=True)
class Stage:
    """A part of the run in which images, or patches, have another size.

    Args:
        until: share of the run's steps at which the stage ends, in (0, 1).
        image_size: pixels, one int or (height, width); the model's own where None.
        patch_size: pixels of a patch, one int or (height, width); the model's own where None. The kernel of the patch
            embedding is resampled from the model's (FlexiViT, arXiv 2212.08013).
    """

    until: float
    image_size: int | tuple[int, int] | None = None
    patch_size: int | tuple[int, int] | None = None

    def __post_init__(self):
        require(is_positive(self.until) and self.until < 1, "until", "a share in (0, 1)", self.until)
        for name in ("image_size", "patch_size"):
            require(is_size(getattr(self, name)), name, "a positive int or (height, width)", getattr(self, name))
        sizes = (self.image_size, self.patch_size)
        require(sizes != (None, None), "stage", "an image_size or a patch_size", sizes)


@dataclass(frozen=True)
class Curriculum:
    """Smaller images, or larger patches, in the first parts of the run: fewer tokens, so more images a second.

    Args:
        stages: in order; after the last one images and patches have the model's own sizes.
    """

    stages: tuple[Stage, ...] = ()

    def __post_init__(self):
        kinds = isinstance(self.stages, tuple) and all(isinstance(stage, Stage) for stage in self.stages)
        require(kinds, "stages", "a tuple of Stage(...)", self.stages)
        ends = [stage.until for stage in self.stages]
        require(ends == sorted(set(ends)), "stages", "rising values of `until`", ends)


def check_sizes(recipe) -> None:
    """Raise a ValueError unless the sizes of a recipe's model, images, crops and stages go together.

    It is asked when a run begins, not for every recipe: `--set` changes one size after the other.
    """
    model, stages = recipe.model, recipe.curriculum.stages
    own, crop, whole = model.input_shape[:2], recipe.augment.crop_resize, recipe.data.resize
    require((recipe.augment.crop == "resize") == (crop is not None), "crop_resize",
            "a size with crop 'resize', and null without", crop)  # fmt: skip
    require(whole is None or whole >= max(own), "resize", f"at least the model's {max(own)} pixels", whole)
    fits = crop is None or all(a >= b for a, b in zip(sides(crop), own, strict=True))
    require(fits, "crop_resize", f"at least the images' {own}", crop)
    row, bit = model.row, isinstance(model.row, BiTVariant)
    for stage in stages:
        require(not bit or stage.patch_size is None, "patch_size",
                f"null in a stage of {row.name}, which has no patches", stage.patch_size)  # fmt: skip
        fixed = row.axial if bit else row.positions == "relative"
        same = stage.patch_size is None and (stage.image_size is None or sides(stage.image_size) == own)
        require(same or not fixed, "stages", f"the model's own sizes with {row.name}, whose relative positions are "
                "stored for them", stage)  # fmt: skip
        if not bit:
            patch = sides(stage.patch_size or model.patch_size or row.patch_size)
            stride = row.stem.stride if row.stem else 1
            cells = [-(-side // stride) for side in (own if stage.image_size is None else sides(stage.image_size))]
            fits = all(a >= b for a, b in zip(cells, patch, strict=True))
            pixels = "x".join(str(side * stride) for side in patch)
            require(fits, "stages", f"images of at least one patch ({pixels} pixels) in each", stage)
