"""Build a BiT ResNet from a row: a flat functional Keras model (arXiv 1912.11370, the baseline of arXiv 2010.11929).

Named nodes: images, rescaling, root, root_pool, stage1_unit01 ... stage1 ..., norm, relu, pooling, head, predictions.
`keras_vit.feature_model(model, ["stage1", "stage2", "stage3", "stage4"])` returns the feature maps.

B batch, H W C image, F features.
"""

from collections.abc import Sequence
from typing import Any

import keras

from keras_vit import layers
from keras_vit.layers.map_norms import MAP_NORMS
from keras_vit.models.conventions import follow_conventions
from keras_vit.models.inputs_and_head import classifier, finished_model, image_input
from keras_vit.models.row_checks import check_classes, check_convnet_row
from keras_vit.models.variants import BiTVariant

_GROUP_NORM_EPSILON = 1e-5


def build_bit(
    variant: BiTVariant,
    include_top: bool = True,
    weights: str | None = None,
    input_tensor: Any = None,
    input_shape: tuple | None = None,
    pooling: str | None = "gap",
    classes: int = 1000,
    classifier_activation: str | None = "softmax",
    name: str | None = None,
    *,
    include_preprocessing: bool = False,
    labels: Sequence[str] | None = None,
    dtype: Any = None,
) -> keras.Model:
    """Build the model of a row. `keras_vit.BiT_R50x1` documents the other arguments."""
    check_convnet_row(variant, BiTVariant, include_top, pooling)
    check_classes(include_top, classes, weights)
    variant, _ = follow_conventions(weights, variant)
    policy = keras.dtype_policies.get(dtype)
    images, x = image_input(input_tensor, input_shape, variant.image_size, include_preprocessing, policy)
    if variant.axial and None in images.shape[1:3]:
        raise ValueError("input_shape expected a known size with axial=True, whose relative positions are stored for "
                         "one, received a free one.")  # fmt: skip
    x = _stages(x, variant, policy)  # (B, H / 32, W / 32, F)
    x = _norm(x, variant, "norm", "relu", policy)
    if pooling == "gap":
        x = keras.layers.GlobalAveragePooling2D("channels_last", name="pooling", dtype=policy)(x)  # (B, F)
    if include_top:
        x = classifier(x, classes, classifier_activation, labels, weights, policy)
    return finished_model(images, x, name or variant.name, weights)


def _norm(x, variant: BiTVariant, name: str, relu: str, policy):
    """Call a norm and a ReLU, in whose place EvoNorm has an activation inside: (B, H, W, C) -> (B, H, W, C)."""
    x = MAP_NORMS[variant.norm](_GROUP_NORM_EPSILON, name=name, dtype=policy)(x)
    if variant.norm == "evo":
        return keras.layers.Activation("linear", name=relu, dtype=policy)(x)
    return keras.layers.ReLU(name=relu, dtype=policy)(x)


def _stages(x, variant: BiTVariant, policy):
    """Call the first convolution and the stages: (B, H, W, C) -> (B, H / 32, W / 32, F)."""
    width, epsilon = int(64 * variant.width_factor), variant.weight_epsilon
    epsilon_on = "variance" if variant.standardized else "none"
    options = {"group_norm_epsilon": _GROUP_NORM_EPSILON, "weight_epsilon": epsilon, "weight_epsilon_on": epsilon_on}
    options |= {"axial": variant.axial, "norm": variant.norm, "average": variant.deep_stem}
    unit_kind = layers.BasicPreActivationUnit if variant.basic else layers.PreActivationUnit
    kernel = ("symmetric", epsilon, epsilon_on)
    if variant.deep_stem:
        x = layers.StdConv(width // 2, 3, 2, *kernel, name="root", dtype=policy)(x)
        for i, filters in ((1, width // 2), (2, width)):
            x = _norm(x, variant, f"root_norm{i}", f"root_relu{i}", policy)
            x = layers.StdConv(filters, 3, 1, *kernel, name=f"root{i + 1}", dtype=policy)(x)
    else:
        x = layers.StdConv(width, 7, 2, *kernel, name="root", dtype=policy)(x)
    x = layers.StemPool("zeros" if variant.standardized else "symmetric", name="root_pool", dtype=policy)(x)
    for stage, units in enumerate(variant.units):
        for unit in range(units):
            strides = 2 if stage and not unit else 1
            name = f"stage{stage + 1}_unit{unit + 1:02d}"
            x = unit_kind(width * 2**stage, strides, **options, name=name, dtype=policy)(x)
        x = keras.layers.Activation("linear", name=f"stage{stage + 1}", dtype=policy)(x)
    return x
