"""The MLP with a depth-wise convolution over the grid of patches, beside torch's."""

import keras
import numpy as np
import pytest
from support import max_difference, randomise

import keras_vit
from keras_vit.layers import EncoderBlock, MLPBlock

ROW = keras_vit.Variant(
    "local", width=16, depth=2, mlp_dim=24, num_heads=2, patch_size=4, image_size=16, mlp_kernel_size=3
)


def model_of(prefix=0, grid=(3, 5), width=16):
    tokens = keras.Input((prefix + grid[0] * grid[1] if all(grid) else None, width))
    patches = keras.Input((*grid, 7))
    mlp = MLPBlock(24, "gelu", kernel_size=3, prefix_tokens=prefix, name="mlp")
    return randomise(keras.Model([tokens, patches], mlp(tokens, patches)))


def inputs(prefix=0, grid=(3, 5), width=16, batch=2):
    rng = np.random.default_rng(1)
    tokens = rng.standard_normal((batch, prefix + grid[0] * grid[1], width)).astype("float32")
    return [tokens, np.zeros((batch, *grid, 7), "float32")]


def by_torch(model, tokens, prefix, grid):
    """fc1, GELU, the convolution over the patches alone, GELU, fc2."""
    torch = pytest.importorskip("torch", reason="extra `parity` is not installed")
    functional = torch.nn.functional
    weights = {v.path: torch.tensor(np.array(keras.ops.convert_to_numpy(v))) for v in model.weights}
    x = functional.gelu(torch.tensor(tokens) @ weights["mlp/fc1/kernel"] + weights["mlp/fc1/bias"])
    front, body = x[:, :prefix], x[:, prefix:]
    images = body.reshape(len(x), *grid, -1).permute(0, 3, 1, 2)
    kernel = weights["mlp/local/kernel"].permute(2, 3, 0, 1)  # (M, 1, 3, 3)
    images = functional.conv2d(images, kernel, weights["mlp/local/bias"], padding=1, groups=len(kernel))
    x = torch.cat([front, images.permute(0, 2, 3, 1).reshape(body.shape)], dim=1)
    return (functional.gelu(x) @ weights["mlp/fc2/kernel"] + weights["mlp/fc2/bias"]).numpy()


@pytest.mark.parametrize("prefix", [0, 1])
@pytest.mark.parametrize("grid", [(3, 5), (4, 4)])
def test_it_is_torchs_convolution_between_the_dense_layers(prefix, grid):
    model, (tokens, patches) = model_of(prefix, grid), inputs(prefix, grid)
    assert max_difference(model([tokens, patches]), by_torch(model, tokens, prefix, grid)) < 2e-6


def test_a_grid_that_is_free_at_run_time_gives_the_same():
    free, fixed = model_of(1, (None, None)), model_of(1, (3, 5))
    free.set_weights(fixed.get_weights())
    assert max_difference(free(inputs(1)), fixed(inputs(1))) < 1e-6
    assert free(inputs(1, (6, 2))).shape == (2, 13, 16)


def test_a_row_with_a_kernel_counts_its_weights_and_no_others():
    plain = keras_vit.build(keras_vit.Variant("plain", 16, 2, 24, 2, 4, image_size=16))
    assert keras_vit.build(ROW).count_params() == plain.count_params() + 2 * (9 * 24 + 24)


def test_the_convolutions_start_keeps_the_size_of_the_signal():
    local = keras_vit.build(keras_vit.Variant("wide", 64, 1, 1024, 2, 4, image_size=32, mlp_kernel_size=3))
    kernel = keras.ops.convert_to_numpy(local.get_layer("encoder_block_00").mlp.local.kernel)
    assert np.isclose(kernel.std(), 0.88 / 3, rtol=0.03)  # a normal cut off at two deviations has 0.88 of its own


def test_a_saved_model_is_known_by_its_shapes(tmp_path):
    model = randomise(keras_vit.build(ROW, pooling="gap", classes=5))
    model.save(tmp_path / "local.keras")
    again = keras_vit.from_pretrained(str(tmp_path / "local.keras"), num_heads=2)
    x = np.random.default_rng(0).uniform(-1, 1, (2, 16, 16, 3)).astype("float32")
    assert max_difference(again(x), model(x)) == 0


def test_no_published_layout_takes_its_weights(tmp_path):
    with pytest.raises(ValueError, match="no place for .*mlp/local/kernel"):
        keras_vit.save_weights(keras_vit.build(ROW), tmp_path / "local.npz", "npz")


def test_mistakes_are_named():
    with pytest.raises(ValueError, match="mlp_kernel_size expected 0 or an odd number of patches, received 2"):
        EncoderBlock(2, 24, mlp_kernel_size=2)
    with pytest.raises(ValueError, match="mlp expected tokens and patches with kernel_size=3, received tokens alone"):
        MLPBlock(24, kernel_size=3, name="mlp")(keras.Input((6, 16)))
