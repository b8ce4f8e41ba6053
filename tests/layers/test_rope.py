"""Changes of the coordinates of rotary positions in training, as DINOv3 was trained with."""

from dataclasses import asdict, replace

import keras
import numpy as np
import parity
import pytest
from keras import ops
from support import max_difference, quick_first, randomise

import keras_vit
from keras_vit.layers.rope import axial_frequencies, coordinate_changes, is_augmented, rotary_angles
from keras_vit.models.row_checks import require_row

PLAIN = keras_vit.Rope(100.0, coordinates="centers", pairs="halves")
CHANGED = replace(PLAIN, shift=0.3, jitter=1.4, rescale=2.0)
ROPES = [CHANGED, *(replace(PLAIN, **{name: 1.4}) for name in ("shift", "jitter", "rescale"))]
ROPES += [keras_vit.Rope(offset=1.0, shift=0.5, rescale=1.5)]
ROW = keras_vit.Variant("tiny", width=16, depth=2, mlp_dim=24, num_heads=2, patch_size=4, image_size=16, rope=CHANGED,
                        positions="none")  # fmt: skip
IMAGES = np.random.default_rng(0).uniform(-1, 1, (3, 16, 16, 3)).astype("float32")


def drawn(seed):
    """The values in [0, 1) that a layer with this seed draws first."""
    return np.asarray(keras.random.uniform((5,), dtype="float32", seed=keras.random.SeedGenerator(seed)))


def expected_angles(rope, values, grid, size):
    """DINOv3's formula: shift in [-s, s], factors exp(uniform(-log j, log j)) of each side and one of both."""
    signed = 2 * values.astype("float64") - 1
    sides = [(np.arange(side) + 0.5) / side * 2 - 1 for side in grid]
    if rope.coordinates == "cells":
        sides = [np.arange(side) + rope.offset for side in grid]
    both = np.exp(np.log(rope.rescale or 1) * signed[4])
    sides = [
        (side + (rope.shift or 0) * signed[i]) * np.exp(np.log(rope.jitter or 1) * signed[2 + i]) * both
        for i, side in enumerate(sides)
    ]
    sides = sides if rope.coordinates == "cells" else [2 * np.pi * side for side in sides]
    periods = rope.temperature ** (np.arange(size // 4) / (size // 4))
    down, across = (side[:, None] / periods for side in sides)
    return np.concatenate([np.repeat(down, grid[1], 0), np.tile(across, (grid[0], 1))], axis=1)


@pytest.mark.parametrize(
    "rope",
    quick_first(ROPES, ROPES[:1], broad=ROPES),
    ids=lambda rope: f"{rope.coordinates}, {rope.shift}, {rope.jitter}, {rope.rescale}",
)
def test_the_angles_are_those_of_the_formula(rope):
    fields = asdict(rope)
    for seed in range(5):
        changes = coordinate_changes(fields, keras.random.SeedGenerator(seed))
        angles = rotary_angles(fields, (3, 5), 2, axial_frequencies(fields, 16), changes)
        assert max_difference(angles[2:, 0], expected_angles(rope, drawn(seed), (3, 5), 16)) < 1e-4
        assert max_difference(angles[:2], ops.zeros((2, 1, 8))) == 0


@pytest.mark.broad
def test_the_angles_are_transformers(monkeypatch):
    """With the same random values, which transformers draws by torch in the same order."""
    transformers, values = parity.transformers(), list(drawn(3))
    import torch

    def uniform(self, low, high):
        return self.copy_(torch.tensor([low + (high - low) * values.pop(0) for _ in range(self.numel())]).reshape(
            self.shape))  # fmt: skip

    from transformers.models.dinov3_vit.modeling_dinov3_vit import DINOv3ViTRopePositionEmbedding

    config = transformers.DINOv3ViTConfig(
        hidden_size=32, num_attention_heads=2, patch_size=4, image_size=12, rope_theta=100.0, pos_embed_shift=0.3,
        pos_embed_jitter=1.4, pos_embed_rescale=2.0,
    )  # fmt: skip
    layer = DINOv3ViTRopePositionEmbedding(config).train()
    monkeypatch.setattr(torch.Tensor, "uniform_", uniform)
    cos, sin = layer(torch.zeros(1, 3, 12, 20))
    fields = asdict(CHANGED)
    changes = coordinate_changes(fields, keras.random.SeedGenerator(3))
    angles = rotary_angles(fields, (3, 5), 0, axial_frequencies(fields, 16), changes)[:, 0]
    assert not values
    for theirs, ours in ((cos, ops.cos(angles)), (sin, ops.sin(angles))):
        assert max_difference(ours, theirs.detach().numpy()[:, :8]) < 1e-5


def test_factors_are_log_uniform_between_their_bounds():
    seeds = keras.random.SeedGenerator(0)
    pairs = [coordinate_changes({"jitter": 1.5, "rescale": 2.0, "shift": 0.25}, seeds) for _ in range(200)]
    shifts, factors = (np.array([np.asarray(pair[i]) for pair in pairs]) for i in (0, 1))
    assert 0.2 < np.abs(shifts).max() <= 0.25 and abs(shifts.mean()) < 0.02
    assert 2 < factors.max() <= 3 and 1 / 3 <= factors.min() < 1 / 2
    assert abs(np.log(factors).mean()) < 0.1
    assert np.abs(np.diff(np.log(factors), axis=1)).max() <= 2 * np.log(1.5) + 1e-6  # the sides share the rescaling


def test_only_training_changes_the_coordinates_and_each_block_draws_its_own():
    model, plain = (randomise(keras_vit.build(row, classes=4)) for row in (ROW, replace(ROW, rope=PLAIN)))
    assert is_augmented(asdict(CHANGED)) and not is_augmented(asdict(PLAIN))
    answer = plain(IMAGES)
    assert (
        max_difference(model(IMAGES), answer) == 0 and max_difference(model.predict(IMAGES, verbose=0), answer) < 1e-6
    )
    assert max_difference(plain(IMAGES, training=True), answer) < 1e-6
    first, second = (model(IMAGES, training=True) for _ in range(2))
    assert max_difference(first, answer) > 1e-4 and max_difference(first, second) > 1e-4
    seeds = [variable for variable in model.variables if "seed_generator" in variable.path]
    states = [
        np.asarray(block.attention.seed_generator.state) for block in model.layers if "encoder_block" in block.name
    ]
    assert len({variable.path for variable in seeds}) == len(seeds) and not np.array_equal(*states)


@pytest.mark.broad
def test_a_saved_model_keeps_the_changes(tmp_path):
    model = randomise(keras_vit.build(ROW, classes=4))
    model.save(tmp_path / "model.keras")
    for read in (keras.saving.load_model, keras_vit.load_model, keras_vit.from_pretrained):
        again = read(tmp_path / "model.keras")
        rope = again.get_layer("encoder_block_01").attention_options["rope"]
        assert (rope["shift"], rope["jitter"], rope["rescale"]) == (0.3, 1.4, 2.0)
        assert max_difference(again(IMAGES), model(IMAGES)) == 0
    resized = keras_vit.from_pretrained(tmp_path / "model.keras", input_shape=(24, 24, 3))
    assert resized.get_layer("encoder_block_00").attention_options["rope"]["rescale"] == 2.0


@pytest.mark.parametrize(("field", "value"), [("jitter", 0.5), ("rescale", 0.9), ("shift", -1.0)])
def test_a_factor_below_one_is_refused(field, value):
    with pytest.raises(ValueError, match=f"{field} expected a .*number.*, received {value}"):
        require_row(replace(ROW, rope=replace(PLAIN, **{field: value})))
