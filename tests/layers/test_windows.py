"""Attention within windows and decomposed relative positions, beside their sums written out in NumPy."""

import keras
import numpy as np
import pytest
from support import max_difference, randomise

from keras_vit.layers import AttentionWithOptions, capture_attention
from keras_vit.layers.windows import from_windows, grid_weights, to_windows

GRID, SIDE = (3, 5), 2
PLACES = [(y, x) for y in range(GRID[0]) for x in range(GRID[1])]
RNG = np.random.default_rng(0)


def layer_of(**options):
    layer = AttentionWithOptions(2, grid=GRID, **options)
    layer(keras.Input((15, 8)))
    return randomise(layer, seed=4)


def values(layer, name):
    return next(keras.ops.convert_to_numpy(v) for v in layer.weights if v.path.endswith(name))


def logits_of(layer, tokens, places, side):
    """Logits (2, n, n) of the tokens of one sequence, query by query and key by key. Tokens are at `places`."""
    query, key, _ = np.split(tokens @ values(layer, "qkv/kernel") + values(layer, "qkv/bias"), 3, axis=-1)
    down, across = values(layer, "bias/down"), values(layer, "bias/across")
    logits = np.zeros((2, len(tokens), len(tokens)))
    for head in range(2):
        own = slice(4 * head, 4 * head + 4)
        for i, (y, x) in enumerate(places):
            for j, (other_y, other_x) in enumerate(places):
                offsets = down[y - other_y + side[0] - 1] + across[x - other_x + side[1] - 1]
                logits[head, i, j] = query[i, own] @ key[j, own] / 2 + query[i, own] @ offsets
    return logits


def softmax(x):
    x = np.exp(x - x.max(-1, keepdims=True))
    return x / x.sum(-1, keepdims=True)


def test_windows_are_cut_padded_and_joined():
    tokens = np.arange(15, dtype="float32").reshape(1, 15, 1) + 1
    windows = keras.ops.convert_to_numpy(to_windows(tokens, GRID, SIDE))
    assert windows.shape == (6, 4, 1)
    assert windows[:, :, 0].tolist() == [[1, 2, 6, 7], [3, 4, 8, 9], [5, 0, 10, 0],
                                         [11, 12, 0, 0], [13, 14, 0, 0], [15, 0, 0, 0]]  # fmt: skip
    assert max_difference(from_windows(windows, GRID, SIDE), tokens) == 0
    several = RNG.standard_normal((3, 15, 4)).astype("float32")
    assert max_difference(from_windows(to_windows(several, GRID, SIDE), GRID, SIDE), several) == 0


def test_decomposed_positions_are_the_query_times_the_embeddings_of_the_offsets():
    layer = layer_of(relative_bias="decomposed")
    x = RNG.standard_normal((2, 15, 8)).astype("float32")
    expected = np.stack([softmax(logits_of(layer, one, PLACES, GRID)) for one in x])
    assert max_difference(layer.attention_weights(x), expected) < 1e-5


def test_a_patch_attends_to_its_window_and_to_the_padding():
    """Padding is a token of zeros, whose key is the bias: it has a share, which the weights of the patches lack."""
    layer = layer_of(relative_bias="decomposed", window=SIDE)
    assert values(layer, "bias/down").shape == values(layer, "bias/across").shape == (3, 4)
    x = RNG.standard_normal((1, 15, 8)).astype("float32")
    expected = np.zeros((2, 15, 15))
    for top in (0, 2):
        for left in (0, 2, 4):
            places = [(y, x) for y in (top, top + 1) for x in (left, left + 1)]
            tokens = np.stack([x[0, PLACES.index(p)] if p in PLACES else np.zeros(8) for p in places])
            weights = softmax(logits_of(layer, tokens, places, (SIDE, SIDE)))
            for i, one in enumerate(places):
                for j, other in enumerate(places):
                    if one in PLACES and other in PLACES:
                        expected[:, PLACES.index(one), PLACES.index(other)] = weights[:, i, j]
    assert max_difference(layer.attention_weights(x), expected[None]) < 1e-5
    assert (expected.sum(-1) < 0.9).any()
    with capture_attention([layer]) as captured:
        output = layer(x)
    assert max_difference(captured[0], expected[None]) < 1e-5
    assert max_difference(output, layer(x)) < 1e-6


def test_a_change_of_captured_weights_reaches_the_output():
    layer = layer_of(window=SIDE)
    x = RNG.standard_normal((2, 15, 8)).astype("float32")
    with capture_attention([layer], lambda _, weights: 0 * weights):
        without = keras.ops.convert_to_numpy(layer(x))
    full, padded = [0, 1, 5, 6], [4, 9]  # tokens of a window without padding, and of one with
    assert max_difference(without[:, full], np.broadcast_to(values(layer, "out/bias"), (2, 4, 8))) < 1e-5
    assert max_difference(without[:, padded], np.broadcast_to(values(layer, "out/bias"), (2, 2, 8))) > 1e-3
    with capture_attention([layer], lambda _, weights: 2 * weights):
        doubled = keras.ops.convert_to_numpy(layer(x))
    bias = values(layer, "out/bias")
    assert max_difference(doubled[:, full] - bias, 2 * (keras.ops.convert_to_numpy(layer(x))[:, full] - bias)) < 1e-5


def test_weights_of_windows_that_cover_the_grid_are_those_of_the_grid():
    weights = RNG.uniform(size=(2, 3, 16, 16)).astype("float32")
    assert max_difference(grid_weights(weights, (4, 4), 4), weights) == 0


@pytest.mark.parametrize("other", [{"rope": {"learned": False}}, {"prefix_tokens": 1}, {"relative_bias": "table"}])
def test_options_that_windows_exclude_are_named(other):
    with pytest.raises(ValueError, match=f"window expected 0 with {next(iter(other))}, received 2"):
        AttentionWithOptions(2, grid=GRID, window=2, **other)
