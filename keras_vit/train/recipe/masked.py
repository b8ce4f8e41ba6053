"""The part of a recipe that pre-trains without labels: masked patch prediction (appendix B.1.2)."""

from dataclasses import dataclass

from keras_vit.checks import is_number, is_positive, require, sides
from keras_vit.models.variants import ConvNet
from keras_vit.train.recipe.updates import Loss

TARGETS = ("mean_colour", "colours", "pixels")
LEVELS = 8  # of a channel: 3 bits


@dataclass(frozen=True)
class Masked:
    """Masked patch prediction: the corruption, and the target of the corrupted patches.

    Args:
        target: `mean_colour` (8 levels per channel, hence 512 classes), `colours` (the mean colours of the 4 x 4 parts
            of a patch, 16 times one of 512 classes), or `pixels` in [-1, 1], with the mean squared error.
        share: fraction of the patches that are corrupted, in (0, 1].
        mask: fraction of the corrupted patches that the mask token replaces, in [0, 1].
        swap: fraction of the corrupted patches that another patch of the image replaces, in [0, 1]. The remaining ones
            stay unchanged, and are predicted like the others.
    """

    target: str = "mean_colour"
    share: float = 0.5
    mask: float = 0.8
    swap: float = 0.1

    def __post_init__(self):
        require(self.target in TARGETS, "target", f"one of {TARGETS}", self.target)
        require(is_positive(self.share) and self.share <= 1, "share", "a share in (0, 1]", self.share)
        for name in ("mask", "swap"):
            value = getattr(self, name)
            require(is_number(value, 0) and value <= 1, name, "a share in [0, 1]", value)
        require(self.mask + self.swap <= 1 + 1e-9, "mask", "a share that leaves room for swap", self.mask)

    def count(self, cells: int) -> int:
        """Return the number of corrupted patches of an image of `cells` patches; at least 1."""
        return max(1, round(self.share * cells))

    def units(self, patch: tuple[int, int], channels: int) -> int:
        """Return the number of predicted values per patch."""
        colours = LEVELS**channels
        return {"mean_colour": colours, "colours": 16 * colours}.get(self.target, patch[0] * patch[1] * channels)


def patches_of(model, input_shape: tuple[int, int, int]) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return the grid of patches (rows, columns) of images of a size, and the size (height, width) of a patch."""
    patch = model.row.patch_size if model.patch_size is None else model.patch_size
    stride = 1 if model.row.stem is None else model.row.stem.stride
    pixels = tuple(stride * side for side in sides(patch))
    return tuple(side // step for side, step in zip(input_shape, pixels, strict=False)), pixels


def check_masked(recipe) -> None:
    """Raise a ValueError unless a recipe of masked patch prediction is consistent."""
    model, augment = recipe.model, recipe.augment
    require(isinstance(recipe.masked, Masked), "masked", "Masked(...) or null", recipe.masked)
    require(not isinstance(model.row, ConvNet), "variant", "a row with patches to mask", model.row.name)
    require(model.pooling in ("token", "gap"), "pooling", "'token' or 'gap' with masked patches", model.pooling)
    for name in ("weights", "representation_size"):
        require(getattr(model, name) is None, name, "null with masked patches", getattr(model, name))
    require(not model.keep_head, "keep_head", "false with masked patches, which have no head", model.keep_head)
    require("." not in str(model.variant) or model.variant == model.row, "variant", "a name without a weights tag",
            model.variant)  # fmt: skip
    require(recipe.adapt is None, "adapt", "null with masked patches, which train all weights", recipe.adapt)
    require(not model.head_bias, "head_bias", "0 with masked patches, which have no classes", model.head_bias)
    for name in ("mixup", "cutmix", "mosaic"):
        require(not getattr(augment, name), name, "0 with masked patches", getattr(augment, name))
    require(recipe.loss == Loss(), "loss", "the default one with masked patches, whose target says it", recipe.loss)
    require(recipe.head_first is None, "head_first", "null with masked patches, which have no head",
            recipe.head_first)  # fmt: skip
    require(recipe.evaluate.metrics == ("accuracy",), "metrics", "('accuracy',) with masked patches",
            recipe.evaluate.metrics)  # fmt: skip
    require(not (recipe.checkpoint.best and recipe.masked.target == "pixels"), "best",
            "false where pixels are predicted, which have no accuracy", recipe.checkpoint.best)  # fmt: skip
    sizes = [model.input_shape]
    for stage in recipe.curriculum.stages:
        require(stage.patch_size is None, "patch_size", "null in a stage with masked patches", stage.patch_size)
        sizes.append(sides(stage.image_size))
    stride = 1 if model.row.stem is None else model.row.stem.stride
    for size in sizes:
        grid, patch = patches_of(model, size)
        require(grid[0] * grid[1] > 1, "image_size", "two patches or more with masked patches", size)
        require(size[0] % stride == 0 == size[1] % stride, "image_size",
                f"a multiple of the stem's {stride} pixels with masked patches", size)  # fmt: skip
        parts = patch[0] % 4 == 0 == patch[1] % 4
        require(parts or recipe.masked.target != "colours", "patch_size", "a multiple of 4 pixels for 4 x 4 colours",
                patch)  # fmt: skip
