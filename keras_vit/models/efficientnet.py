"""Build an EfficientNet from a row: a flat functional Keras model (arXiv 1905.11946, a baseline of arXiv 2010.11929).

Named nodes: images, rescaling, root, root_norm, root_swish, stage1_unit01 ... stage1 ... stage7, last, norm, swish,
pooling, dropout, head, predictions.
`keras_vit.feature_model(model, ["stage2", "stage3", "stage5", "stage7"])` returns the feature maps.

B batch, H W C image, F features.
"""

from collections.abc import Sequence
from typing import Any

import keras

from keras_vit import layers
from keras_vit.layers.dropout import Dropout
from keras_vit.layers.mbconv import CONVOLUTION, EPSILON
from keras_vit.models.inputs_and_head import classifier, finished_model, image_input
from keras_vit.models.row_checks import check_classes, check_convnet_row
from keras_vit.models.variants import EfficientNetVariant

# Kernel size, stride and expansion of the seven stages.
STAGES = ((3, 1, 1), (3, 2, 6), (5, 2, 6), (3, 2, 6), (5, 1, 6), (5, 2, 6), (3, 1, 6))


def build_efficientnet(
    variant: EfficientNetVariant,
    include_top: bool = True,
    weights: str | None = None,
    input_tensor: Any = None,
    input_shape: tuple | None = None,
    pooling: str | None = "gap",
    classes: int = 1000,
    classifier_activation: str | None = "softmax",
    name: str | None = None,
    *,
    dropout_rate: float = 0.0,
    drop_path_rate: float = 0.0,
    include_preprocessing: bool = False,
    labels: Sequence[str] | None = None,
    dtype: Any = None,
) -> keras.Model:
    """Build the model of a row. `keras_vit.EfficientNet_B0` documents the other arguments."""
    check_convnet_row(variant, EfficientNetVariant, include_top, pooling)
    check_classes(include_top, classes, weights)
    for argument, rate in {"dropout_rate": dropout_rate, "drop_path_rate": drop_path_rate}.items():
        layers.require_rate(argument, rate)
    policy = keras.dtype_policies.get(dtype)
    images, x = image_input(input_tensor, input_shape, variant.image_size, include_preprocessing, policy)
    x = _stages(x, variant, drop_path_rate, policy)  # (B, H / 32, W / 32, C)
    x = keras.layers.Conv2D(variant.widths[-1], 1, use_bias=False, **CONVOLUTION, name="last", dtype=policy)(x)
    x = keras.layers.BatchNormalization(epsilon=EPSILON, name="norm", dtype=policy)(x)
    x = keras.layers.Activation("silu", name="swish", dtype=policy)(x)
    if pooling == "gap":
        x = keras.layers.GlobalAveragePooling2D("channels_last", name="pooling", dtype=policy)(x)  # (B, F)
    if include_top:
        x = Dropout(dropout_rate, name="dropout", dtype=policy)(x)
        x = classifier(x, classes, classifier_activation, labels, weights, policy)
    return finished_model(images, x, name or variant.name, weights)


def _stages(x, variant: EfficientNetVariant, drop_path_rate: float, policy):
    """Call the first convolution and the stages. The rate of the stochastic depth rises linearly from 0."""
    root, *widths, _ = variant.widths
    x = layers.ImageConv(root, name="root", dtype=policy)(x)
    x = keras.layers.BatchNormalization(epsilon=EPSILON, name="root_norm", dtype=policy)(x)
    x = keras.layers.Activation("silu", name="root_swish", dtype=policy)(x)
    before = 0
    for stage, (units, width, (kernel, strides, expansion)) in enumerate(
        zip(variant.units, widths, STAGES, strict=True)
    ):
        for unit in range(units):
            rate = drop_path_rate * (before + unit) / sum(variant.units)
            x = layers.InvertedResidual(
                width,
                kernel,
                1 if unit else strides,
                expansion,
                rate,
                name=f"stage{stage + 1}_unit{unit + 1:02d}",
                dtype=policy,
            )(x)
        before += units
        x = keras.layers.Activation("linear", name=f"stage{stage + 1}", dtype=policy)(x)
    return x
