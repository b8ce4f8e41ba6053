"""Build the model of masked patch prediction, and return its trained encoder (appendix B.1.2).

B batch, H W C image, N patches, K of them corrupted, D width.
"""

import keras

from keras_vit import layers
from keras_vit.models.encoder_config import EncoderConfig
from keras_vit.models.inputs_and_head import image_input
from keras_vit.models.row_checks import check_row
from keras_vit.models.token_layout import prefix_counts
from keras_vit.models.variants import Variant
from keras_vit.models.vit import build, encode


def build_masked(
    variant: Variant,
    units: int,
    target: str,
    *,
    input_shape: tuple[int, int, int],
    pooling: str = "token",
    patch_size: int | tuple[int, int] | None = None,
    dropout_rate: float = 0.0,
    attention_dropout_rate: float = 0.0,
    drop_path_rate: float = 0.0,
    include_preprocessing: bool = False,
    dtype=None,
) -> keras.Model:
    """Build a row whose patch embeddings are partly corrupted, with a linear layer that predicts their content.

    The nodes are the same as in `keras_vit.build`, with `patch_corruption` between `tokens` and `class_token`, and
    `patch_prediction` after `encoder_norm`.

    Args:
        variant: a row of the table, or your own.
        units: number of predicted values per patch.
        target: meaning of the predicted values; see `keras_vit.layers.PatchPrediction`.
        input_shape: (height, width, channels).
        pooling: `token` for a model with a class token, `gap` for one without.
        patch_size: side of a patch in pixels, instead of the row's.
        dropout_rate: as in `keras_vit.ViT_B16`, like the other two rates.
        include_preprocessing: True takes pixels 0..255; otherwise the input lies in [-1, 1].
        dtype: dtype policy of all layers; None for the global policy.

    Returns:
        A `keras.Model` with three inputs: images (B, H, W, C), sources of the patches (B, N), and places of the
        predicted patches (B, K). `keras_vit.layers.PatchCorruption` and `PatchPrediction` describe the last two. The
        output has shape (B, K, units).
    """
    policy = keras.dtype_policies.get(dtype)
    prefix = prefix_counts(variant, class_token=pooling == "token")
    check_row(variant, prefix, None in input_shape)
    if not variant.final_norm or variant.neck is not None:
        raise ValueError("variant expected a row with a final norm and no neck for masked prediction, received "
                         f"final_norm={variant.final_norm} and neck={variant.neck}.")  # fmt: skip
    images, x = image_input(None, input_shape, variant.image_size, include_preprocessing, policy)
    sources = keras.Input((None,), dtype="int32", name="sources")
    places = keras.Input((None,), dtype="int32", name="places")
    corruption = layers.PatchCorruption(name="patch_corruption", dtype=policy)
    patch = layers.as_pair(variant.patch_size if patch_size is None else patch_size)
    rates = {"dropout_rate": dropout_rate, "attention_dropout_rate": attention_dropout_rate}
    of_row = (variant.norm, variant.activation, variant.layer_norm_epsilon)
    config = EncoderConfig(patch, prefix, *of_row, **rates, drop_path_rate=drop_path_rate, policy=policy)
    x, layout = encode(x, variant, config, corrupt=lambda tokens: corruption(tokens, sources))
    x = config.norm("encoder_norm")(x)
    exact = "float32" if policy.name.startswith("mixed") else policy
    x = layers.PatchPrediction(units, target, layout.prefix_tokens, name="patch_prediction", dtype=exact)(x, places)
    return keras.Model([images, sources, places], x, name=f"{variant.name}_masked")


def encoder_of(masked: keras.Model, variant: Variant, **options) -> keras.Model:
    """Return the encoder of a model of `build_masked` as a model: images -> features (B, D).

    Args:
        masked: the model.
        variant: its row.
        **options: the options of `keras_vit.build` that the model was built with.
    """
    encoder = build(variant, include_top=False, **options)
    trained = {variable.path: variable for variable in masked.variables}
    for variable in encoder.variables:
        if variable.path in trained:
            variable.assign(trained[variable.path])
    return encoder
