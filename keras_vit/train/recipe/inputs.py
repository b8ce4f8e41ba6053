"""The parts of a recipe about inputs: data, and image and patch sizes over the run."""

from dataclasses import dataclass, replace

from keras_vit.checks import is_count, is_positive, is_size, is_text, require, sides
from keras_vit.data import SOURCES, TARGETS
from keras_vit.data.augmentations import Augment
from keras_vit.models.variants import ConvNet

PREFIXES = ("tfds:", "vtab:")


@dataclass(frozen=True)
class Data:
    """The data and the batch size.

    Args:
        source: `digits` (scikit-learn's handwritten digits), `folder` (a folder of images), `csv` (a table of paths and
            labels), `arrays` (an `.npz` file of `x_train`, `y_train`, `x_test`, `y_test`), `tfds:NAME`, or `vtab:TASK`
            (one of the nineteen tasks of VTAB-1k, with the benchmark's labels and splits).
        directory: the folder of images, the file of a table or of arrays, or the data folder of TensorFlow Datasets.
        train_split: training split: `train`, or a part of it such as `train[:90%]`.
        test_split: test split.
        batch_size: number of examples per update over all replicas; the rest of an epoch is dropped.
        shuffle: size of the shuffle buffer for TensorFlow Datasets. Folders, arrays and smaller data sets are shuffled
            as a whole. Every process holds a buffer of encoded images in memory. With ImageNet's 110 KB per image, the
            default takes 27 GB, and 50,000 take 5.5 GB.
        sampling: `uniform` takes each example once per epoch. `balanced` takes each class equally often: images of rare
            classes several times per epoch, each time with another augmentation, and only some of frequent classes.
        resize: pixels of the shorter side of a test image before its center crop. None prepares images as the
            weights' `preprocessing` states, as prediction and exports do; without weights, both sides are resized.
        on_error: whether to `stop` at a broken file or to `skip` it with a warning: up to three files, or 1 %. It also
            applies to few-shot data. A stopped run can resume with another value.
        targets: what a `csv` table states for an image: `classes`; `probabilities`, a column for each class; or
            `numbers`, a column for each value that a regression predicts.
        columns: names of the columns of `probabilities` or `numbers`; () for all columns except path, split and sha256.
        cache_features: whether to compute the input of the head once per image, and to train the head on it. It needs a
            run that trains only the head, without random changes of the images. The files are in `workdir/features`.
        classes: names of all classes in another order than the sorted one, as the loss `ordinal` needs, the lowest
            first.
        exif: whether to apply the EXIF orientation of photographs in training and evaluation. False reads the stored
            pixels, as the official code and TensorFlow Datasets do. Prediction and exports always apply it.
    """

    source: str = "digits"
    directory: str | None = None
    train_split: str = "train"
    test_split: str = "test"
    batch_size: int = 128
    shuffle: int = 250_000
    sampling: str = "uniform"
    resize: int | None = None
    on_error: str = "stop"
    exif: bool = True
    targets: str = "classes"
    columns: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    cache_features: bool = False

    def __post_init__(self):
        known = self.source in SOURCES[:4] or (isinstance(self.source, str) and self.source.startswith(PREFIXES))
        require(known, "source", f"one of {', '.join(SOURCES)}", self.source)
        require(is_text(self.directory), "directory", "a folder's name or null", self.directory)
        for name in ("train_split", "test_split"):
            split = getattr(self, name)
            require(split is not None and is_text(split), name, "a split's name", split)
        for name in ("batch_size", "shuffle"):
            require(is_count(getattr(self, name)), name, "a positive int", getattr(self, name))
        require(self.sampling in ("uniform", "balanced"), "sampling", "'uniform' or 'balanced'", self.sampling)
        require(self.resize is None or is_count(self.resize), "resize", "a positive int or null", self.resize)
        require(self.on_error in ("stop", "skip"), "on_error", "'stop' or 'skip'", self.on_error)
        for name in ("exif", "cache_features"):
            require(isinstance(getattr(self, name), bool), name, "true or false", getattr(self, name))
        require(self.targets in TARGETS, "targets", f"one of {', '.join(map(repr, TARGETS))}", self.targets)
        for name in ("columns", "classes"):
            names = getattr(self, name)
            valid = isinstance(names, tuple) and all(isinstance(x, str) and x for x in names)
            require(valid and len(set(names)) == len(names), name, "a tuple of distinct names", names)


def augment_at(augment: Augment, size: tuple[int, int], own: tuple[int, int]) -> Augment:
    """Return the augmentation at a stage's image size, with crops of the same fraction of the image.

    Args:
        augment: augmentation at the model's size.
        size: (height, width) of the stage's images.
        own: (height, width) of the model. A single size in pixels scales by the larger ratio of the sides.
    """
    if size == own:
        return augment
    ratios = [side / whole for side, whole in zip(size, own, strict=True)]
    crop = augment.crop_resize
    if isinstance(crop, int):
        crop = max(round(crop * max(ratios)), *size)
    elif crop is not None:
        crop = tuple(max(round(a * ratio), side) for a, ratio, side in zip(crop, ratios, size, strict=True))
    return replace(augment, crop_resize=crop, crop_pad=max(round(augment.crop_pad * max(ratios)), 1))


@dataclass(frozen=True)
class Stage:
    """A part of the run with another image size or patch size.

    Args:
        until: fraction of the run's steps at which the stage ends, in (0, 1).
        image_size: size in pixels, one int or (height, width); the model's if None.
        patch_size: size in pixels, one int or (height, width); the model's if None. The kernel of the patch embedding
            is resampled from the model's (FlexiViT, arXiv 2212.08013).
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
    """Smaller images or larger patches in the first stages of the run: fewer tokens, hence faster steps.

    Args:
        stages: the stages in order. After the last one, images and patches have the model's sizes.
    """

    stages: tuple[Stage, ...] = ()

    def __post_init__(self):
        kinds = isinstance(self.stages, tuple) and all(isinstance(stage, Stage) for stage in self.stages)
        require(kinds, "stages", "a tuple of Stage(...)", self.stages)
        ends = [stage.until for stage in self.stages]
        require(ends == sorted(set(ends)), "stages", "rising values of `until`", ends)


def check_selection(recipe) -> None:
    """Raise a ValueError if a recipe stops early or selects weights without evaluations of a split of their own.

    It is called when a run begins, not for every recipe, because `--set` changes one field after the other.
    """
    evaluate, selects = recipe.evaluate, recipe.checkpoint.use_best
    require(recipe.checkpoint.best or not selects, "best", "true with use_best", recipe.checkpoint.best)
    if selects or evaluate.patience:
        field = "use_best" if selects else "patience"
        own = evaluate.split not in (None, recipe.data.test_split)
        require(own, "split", f"a split apart from the test split with {field}, which selects by it", evaluate.split)
        require(evaluate.every, "every", f"a number of epochs between evaluations with {field}", evaluate.every)
        require(recipe.masked is None, "masked", f"null with {field}, which needs an accuracy", recipe.masked)


def check_sizes(recipe) -> None:
    """Raise a ValueError unless the sizes of a recipe's model, images, crops and stages are consistent.

    It is called when a run begins, not for every recipe, because `--set` changes one size after the other.
    """
    model, stages = recipe.model, recipe.curriculum.stages
    own, crop, whole = model.input_shape[:2], recipe.augment.crop_resize, recipe.data.resize
    require((recipe.augment.crop == "resize") == (crop is not None), "crop_resize",
            "a size with crop 'resize', and null without", crop)  # fmt: skip
    require(whole is None or whole >= max(own), "resize", f"at least the model's {max(own)} pixels", whole)
    fits = crop is None or all(a >= b for a, b in zip(sides(crop), own, strict=True))
    require(fits, "crop_resize", f"at least the images' {own}", crop)
    row, convolutional = model.row, isinstance(model.row, ConvNet)
    for stage in stages:
        require(not convolutional or stage.patch_size is None, "patch_size",
                f"null in a stage of {row.name}, which has no patches", stage.patch_size)  # fmt: skip
        fixed = row.axial if convolutional else row.positions == "relative"
        same = stage.patch_size is None and (stage.image_size is None or sides(stage.image_size) == own)
        require(same or not fixed, "stages", f"the model's own sizes with {row.name}, whose relative positions are "
                "stored for them", stage)  # fmt: skip
        if not convolutional:
            patch = sides(stage.patch_size or model.patch_size or row.patch_size)
            stride = row.stem.stride if row.stem else 1
            cells = [-(-side // stride) for side in (own if stage.image_size is None else sides(stage.image_size))]
            fits = all(a >= b for a, b in zip(cells, patch, strict=True))
            pixels = "x".join(str(side * stride) for side in patch)
            require(fits, "stages", f"images of at least one patch ({pixels} pixels) in each", stage)
