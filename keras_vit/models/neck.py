"""The neck of ViTDet and SAM: two convolutions over the patch grid after the last block (arXiv 2304.02643).

B batch, h w patch grid, N = h w tokens, D width, C channels.
"""

import keras

from keras_vit import layers

_EPSILON = 1e-6  # of both norms, whatever that of the blocks


def after_neck(tokens, grid: tuple[int, int], channels: int, as_map: bool, policy):
    """Call the layers of the neck on the tokens (B, N, D) and return a map (B, h, w, C) or tokens (B, N, C).

    The nodes are `neck_grid`, `neck_conv1` (1 x 1), `neck_norm1`, `neck_conv2` (3 x 3), `neck_norm2` (the map) and
    `neck_tokens`.

    Args:
        tokens: the output of the last block.
        grid: (h, w) in patches.
        channels: C; 0 for the second norm alone, with C = D.
        as_map: whether the map is returned, not its tokens.
        policy: dtype policy of the layers.
    """
    x = keras.layers.Reshape((*grid, tokens.shape[-1]), name="neck_grid", dtype=policy)(tokens)
    options = {"padding": "same", "use_bias": False, "data_format": "channels_last", "dtype": policy}
    if channels:
        x = keras.layers.Conv2D(channels, 1, **options, name="neck_conv1")(x)
        x = layers.LayerNorm(_EPSILON, name="neck_norm1", dtype=policy)(x)
        x = keras.layers.Conv2D(channels, 3, **options, name="neck_conv2")(x)
    x = layers.LayerNorm(_EPSILON, name="neck_norm2", dtype=policy)(x)
    return x if as_map else layers.GridToTokens(name="neck_tokens", dtype=policy)(x)
