"""A BiT row of the table -> a flat functional Keras model (arXiv 1912.11370, the baseline of arXiv 2010.11929).

Named nodes: images, rescaling, root, root_pool, stage1_unit01 ... stage1 ..., norm, relu, pooling, head, predictions.
`keras_vit.feature_model(model, ["stage1", "stage2", "stage3", "stage4"])` gives the feature maps.
"""

import keras

from keras_vit import layers
from keras_vit.models.conventions import follow_conventions
from keras_vit.models.ends import begin, check_top, classify, finish
from keras_vit.models.row_checks import require_row
from keras_vit.models.variants import BiTVariant

_GROUP_NORM_EPSILON = 1e-5


def build_bit(
    variant: BiTVariant,
    include_top: bool = True,
    weights: str | None = None,
    input_tensor=None,
    input_shape: tuple | None = None,
    pooling: str | None = "gap",
    classes: int = 1000,
    classifier_activation: str | None = "softmax",
    name: str | None = None,
    *,
    include_preprocessing: bool = False,
    labels=None,
    dtype=None,
) -> keras.Model:
    """Build the ResNet-v2 of a row: group norm, weight standardisation, pre-activation units.

    Args:
        variant: a row of the table, or your own `keras_vit.BiTVariant`.
        include_top: whether to end in the classifier.
        weights: None for a fresh start, else a tag of `list_weights()` or the path of a file, of as many classes.
        input_tensor: a Keras tensor of images to use as the input.
        input_shape: (height, width, channels); not square, and None for a size that is free at run time, too.
        pooling: `gap` (mean over the map), or, with `include_top=False`, None for the map of the last stage.
        classes: number of classes of the classifier.
        classifier_activation: `softmax`, `sigmoid`, or None for logits.
        name: of the Keras model.
        include_preprocessing: True takes pixels 0..255; otherwise the input lies in [-1, 1].
        labels: names of the classes, kept in the model; those of ImageNet-1k where None and `weights` is a tag of a
            classifier of it.
        dtype: dtype policy of all layers; the global one where None.

    Returns:
        A `keras.Model`: images (B, H, W, C) -> (B, classes), or without the top (B, F) or (B, H / 32, W / 32, F).

    Raises:
        ValueError: an argument is out of range; one sentence says which, what was expected and what was received.
    """
    if not isinstance(variant, BiTVariant):
        raise ValueError(f"variant expected a keras_vit.BiTVariant, received {variant!r}.")
    require_row(variant)
    if pooling not in ("gap", None):
        raise ValueError(f"pooling expected one of ('gap', None), received {pooling!r}.")
    if pooling is None and include_top:
        raise ValueError("pooling expected 'gap' under a classifier, received None.")
    check_top(include_top, classes, weights)
    if weights is not None:
        variant, _ = follow_conventions(weights, variant)
    policy = keras.dtype_policies.get(dtype)
    width = int(64 * variant.width_factor)
    epsilons = {"group_norm_epsilon": _GROUP_NORM_EPSILON, "weight_epsilon": variant.weight_epsilon}
    kind = {**epsilons, "axial": variant.axial, "dtype": policy}

    images, x = begin(input_tensor, input_shape, variant.image_size, include_preprocessing, policy)
    if variant.axial and None in images.shape[1:3]:
        raise ValueError("input_shape expected a known size with axial=True, whose relative positions are stored for "
                         "one, received a free one.")  # fmt: skip
    root = layers.StdConv(width, 7, 2, "symmetric", variant.weight_epsilon, "variance", name="root", dtype=policy)
    x = root(x)  # (B, H / 2, W / 2, F)
    x = layers.StemPool("zeros", name="root_pool", dtype=policy)(x)
    for stage, units in enumerate(variant.units):
        for unit in range(units):
            strides = 2 if stage and not unit else 1
            unit_name = f"stage{stage + 1}_unit{unit + 1:02d}"
            x = layers.PreActivationUnit(width * 2**stage, strides, **kind, name=unit_name)(x)
        x = keras.layers.Activation("linear", name=f"stage{stage + 1}", dtype=policy)(x)
    x = layers.GroupNorm(_GROUP_NORM_EPSILON, name="norm", dtype=policy)(x)
    x = keras.layers.ReLU(name="relu", dtype=policy)(x)
    if pooling == "gap":
        x = keras.layers.GlobalAveragePooling2D("channels_last", name="pooling", dtype=policy)(x)  # (B, F)
    if include_top:
        x = classify(x, classes, classifier_activation, labels, weights, policy)
    return finish(images, x, name or variant.name, weights)
