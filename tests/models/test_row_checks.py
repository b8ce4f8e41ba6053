"""A row is checked in one place, field by field."""

from dataclasses import dataclass, replace

import pytest

import keras_vit
from keras_vit.models import row_checks, vit
from keras_vit.models.row_checks import require_row
from keras_vit.models.variants import BIT_VARIANTS, VARIANTS
from keras_vit.train.recipe import Model

ROW = keras_vit.Variant("tiny", width=8, depth=1, mlp_dim=8, num_heads=2, patch_size=4, image_size=8)
BIT = keras_vit.BiTVariant("bit", (1,), 0.5)


@dataclass(frozen=True)
class WithRegisters(keras_vit.Variant):
    registers: int = 0


@pytest.mark.parametrize("row", [*VARIANTS, *BIT_VARIANTS], ids=lambda row: row.name)
def test_every_row_of_the_table_is_valid(row):
    require_row(row)


@pytest.mark.parametrize(
    ("row", "changes", "sentence"),
    [
        (ROW, {"mlp_dim": 0}, "mlp_dim expected a positive int, received 0"),
        (
            ROW,
            {"patch_size": (4, 4, 4)},
            r"patch_size expected a positive int or \(height, width\), received \(4, 4, 4\)",
        ),
        (ROW, {"mlp_kernel_size": 2}, "mlp_kernel_size expected an odd int, or 0, received 2"),
        (ROW, {"positions": "3d"}, r"positions expected one of \('learned', .*\), received '3d'"),
        (ROW, {"positions_at": "end"}, r"positions_at expected one of \('stem', 'layers', 'shared'\), received 'end'"),
        (ROW, {"axial": 1}, "axial expected true or false, received 1"),
        (ROW, {"stem": keras_vit.ResNetStem((0,))}, r"units expected a tuple of positive ints, received \(0,\)"),
        (BIT, {"units": (1, 2.5)}, r"units expected a tuple of positive ints, received \(1, 2.5\)"),
        (BIT, {"weight_epsilon": 0.0}, "weight_epsilon expected a positive number, received 0.0"),
    ],
)
def test_a_bad_field_gets_one_sentence_from_recipes_and_builders(row, changes, sentence):
    row = replace(row, **changes)
    for made in (Model, lambda row: keras_vit.build(row, classes=2)):
        with pytest.raises(ValueError, match=f"^{sentence}"):
            made(row)


def test_a_new_field_is_checked_by_its_type():
    require_row(WithRegisters(**vars(ROW)))
    with pytest.raises(ValueError, match="registers expected a positive int, received 'two'"):
        require_row(WithRegisters(**{**vars(ROW), "registers": "two"}))


def test_every_name_of_positions_has_a_layer():
    assert set(vit.POSITIONS) == set(row_checks.POSITIONS)


def test_options_that_axial_blocks_lack_are_refused():
    row = replace(ROW, axial=True, mlp_kernel_size=3)
    with pytest.raises(ValueError, match="mlp_kernel_size expected 0 with axial blocks, received 3"):
        keras_vit.build(row, classes=2, pooling="gap")
