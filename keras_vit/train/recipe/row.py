"""Check a recipe's own row."""

from keras_vit.checks import is_count, is_positive, is_size, require
from keras_vit.models.variants import BiTVariant, ResNetStem, Variant


def require_row(row: Variant | BiTVariant) -> None:
    """Raise a ValueError naming the field of a row that is of another kind than models are built of."""

    def check(part, names, valid, expected):
        for name in names:
            require(valid(getattr(part, name)), name, expected, getattr(part, name))

    check(row, ["name"], lambda value: isinstance(value, str) and value != "", "a name")
    check(row, ["image_size"], is_count, "a positive int")
    check(row, ["axial"], lambda value: isinstance(value, bool), "true or false")
    if isinstance(row, Variant):
        check(row, ["width", "depth", "mlp_dim", "num_heads"], is_count, "a positive int")
        check(row, ["patch_size"], lambda value: value is not None and is_size(value), "a positive int or "
              "(height, width)")  # fmt: skip
        check(row, ["mlp_kernel_size"], lambda value: is_count(value, 0), "an odd int, or 0")
        check(row, ["positions", "positions_at"], lambda value: isinstance(value, str), "a name")
        require(row.stem is None or isinstance(row.stem, ResNetStem), "stem", "ResNetStem(...) or null", row.stem)
    resnet = row.stem if isinstance(row, Variant) else row
    if resnet is not None:
        counts = isinstance(resnet.units, tuple) and all(map(is_count, resnet.units))
        require(counts, "units", "a tuple of positive ints", resnet.units)
        check(resnet, ["width_factor", "weight_epsilon"], is_positive, "a positive number")
