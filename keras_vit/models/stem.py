"""The stems of the hybrids: a ResNet (section 4.1), or a few convolutions.

B batch, H W C image.
"""

import keras

from keras_vit import layers
from keras_vit.layers.mlp import gelu
from keras_vit.models.variants import ConvStem, ResNetStem


def stem_map(x, stem: ResNetStem | ConvStem, policy):
    """Call the layers of the stem: (B, H, W, C) -> (B, H / stride, W / stride, features)."""
    return (_convolutions if isinstance(stem, ConvStem) else _resnet)(x, stem, policy)


def _convolutions(x, stem: ConvStem, policy):
    """Call the convolutions `stem_conv1`, `stem_conv2` and so on, each with its norm and GELU."""
    for i, (width, size) in enumerate(zip(stem.widths, stem.sizes, strict=True), start=1):
        options = {"use_bias": False, "data_format": "channels_last", "name": f"stem_conv{i}", "dtype": policy}
        x = keras.layers.Conv2D(width, size, size, "valid", **options)(x)
        x = layers.BatchNorm(name=f"stem_norm{i}", dtype=policy)(x)
        x = keras.layers.Activation(gelu, name=f"stem_gelu{i}", dtype=policy)(x)
    return x


def _resnet(x, stem: ResNetStem, policy):
    """Call the layers of a ResNet. The output of each stage is a node `stem_stage1`, `stem_stage2` and so on."""
    epsilons = {
        "group_norm_epsilon": stem.group_norm_epsilon,
        "weight_epsilon": stem.weight_epsilon,
        "weight_epsilon_on": stem.weight_epsilon_on,
    }
    width = int(64 * stem.width_factor)
    standardisation = {"epsilon": stem.weight_epsilon, "epsilon_on": stem.weight_epsilon_on}
    x = layers.StdConv(width, 7, 2, **standardisation, name="stem_root", dtype=policy)(x)
    x = layers.GroupNorm(stem.group_norm_epsilon, name="stem_root_norm", dtype=policy)(x)
    x = keras.layers.ReLU(name="stem_root_relu", dtype=policy)(x)
    x = layers.StemPool(name="stem_root_pool", dtype=policy)(x)
    for stage, units in enumerate(stem.units):
        for unit in range(units):
            name = f"stem_stage{stage + 1}_unit{unit + 1}"
            strides = 2 if stage and not unit else 1
            x = layers.ResidualUnit(width * 2**stage, strides, **epsilons, name=name, dtype=policy)(x)
        x = keras.layers.Activation("linear", name=f"stem_stage{stage + 1}", dtype=policy)(x)
    return x
