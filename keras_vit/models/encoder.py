"""Images -> tokens: the nodes that classifiers and pre-training have in common.

B batch, H W C image, h w patch grid, N tokens, D width.
"""

import inspect
from dataclasses import dataclass, field, fields

import keras

from keras_vit import layers
from keras_vit.layers.dropout import Dropout
from keras_vit.models.token_layout import TokenLayout, put_in_front
from keras_vit.models.variants import ResNetStem, Variant

POSITIONS = {
    "learned": layers.PositionEmbedding,
    "1d": layers.PositionEmbedding,
    "2d": layers.PositionEmbedding2D,
    "relative": layers.NoPositions,  # the blocks' attention has them
    "none": layers.NoPositions,
    "sincos2d": layers.SinCosPositions,
}


@dataclass(frozen=True)
class EncoderConfig:
    """Settings shared by all layers of an encoder, beside the row.

    Args:
        patch_size: (height, width) of a patch in pixels, or in cells of the stem's map.
        prefix: number of tokens of each kind in front of the patches, by the names of `PREFIX_LAYERS`.
        activation: activation of the MLPs.
        layer_norm_epsilon: epsilon of all layer norms.
        dropout_rate: rate after the position embedding and every dense layer but query, key and value, in [0, 1).
        attention_dropout_rate: rate on the attention weights, in [0, 1).
        drop_path_rate: stochastic depth of the last block, in [0, 1).
        policy: dtype policy of all layers.
    """

    patch_size: tuple[int, int]
    prefix: dict[str, int]
    activation: str = "gelu_tanh"
    layer_norm_epsilon: float = 1e-6
    dropout_rate: float = 0.0
    attention_dropout_rate: float = 0.0
    drop_path_rate: float = 0.0
    policy: object = field(default_factory=keras.config.dtype_policy)


def encode(x, variant: Variant, config: EncoderConfig, corrupt=None):
    """Call the layers from the images to the last block.

    Args:
        x: images (B, H, W, C), as the first layer takes them.
        variant: the row.
        config: settings of the layers.
        corrupt: a function of the patch embeddings (B, N, D) that is called before the prefix tokens are added.

    Returns:
        The tokens (B, prefix + N, D), and their `TokenLayout`.
    """
    policy, patch = config.policy, config.patch_size
    if variant.stem is not None:
        x = _resnet_stem(x, variant.stem, policy)  # (B, H / stride, W / stride, C)
    patches = layers.PatchEmbedding(variant.width, patch, name="embedding", dtype=policy)(x)  # (B, h, w, D)
    x = layers.GridToTokens(name="tokens", dtype=policy)(patches)
    if corrupt is not None:
        x = corrupt(x)
    x, prefix = put_in_front(x, config.prefix, policy)
    free = None in patches.shape[1:3]
    cells = [p * (variant.stem.stride if variant.stem else 1) for p in patch]
    grid = tuple(side or variant.image_size // cell for side, cell in zip(patches.shape[1:3], cells, strict=True))
    layout = TokenLayout(prefix, grid)

    def position(name):
        return POSITIONS[variant.positions](grid, layout.prefix_tokens, name=name, dtype=policy)

    positions = position("position_embedding")
    x = positions(x, patches) if free else positions(x)
    x = Dropout(config.dropout_rate, name="embedding_dropout", dtype=policy)(x)
    for i in range(variant.depth):
        if i and variant.positions_at == "layers":
            positions = position(f"position_embedding_{i:02d}")
        if i and variant.positions_at != "stem":
            x = positions(x, patches) if free else positions(x)
        block = _block(variant, config, layout, i)
        x = block(x, patches) if variant.axial or variant.mlp_kernel_size else block(x)  # (B, prefix + N, D)
    return x, layout


def _block(variant: Variant, config: EncoderConfig, layout: TokenLayout, i: int):
    """Make an encoder block: its arguments are the row's fields and the settings of the same names.

    Raises:
        ValueError: the row sets an option that axial blocks do not have.
    """
    given = {**vars(config), **vars(variant), "prefix_tokens": layout.prefix_tokens}
    given["drop_path_rate"] = config.drop_path_rate * i / max(variant.depth - 1, 1)
    given["relative_positions"] = variant.positions == "relative"
    kind = layers.AxialBlock if variant.axial else layers.EncoderBlock
    known, own = (inspect.signature(block.__init__).parameters for block in (layers.EncoderBlock, kind))
    options = {name: given[name] for name in own if name in given}
    for option in fields(variant):
        received = getattr(variant, option.name)
        if option.name in known.keys() - own.keys() and received != option.default:
            raise ValueError(f"{option.name} expected {option.default} with axial blocks, received {received}.")
    return kind(**options, name=f"encoder_block_{i:02d}", dtype=config.policy)


def _resnet_stem(x, stem: ResNetStem, policy):
    """(B, H, W, C) -> (B, H / stride, W / stride, features), each stage's output named `stem_stage1` and so on."""
    standard = {"epsilon": stem.weight_epsilon, "epsilon_on": stem.weight_epsilon_on, "dtype": policy}
    epsilons = {
        "group_norm_epsilon": stem.group_norm_epsilon,
        "weight_epsilon": stem.weight_epsilon,
        "weight_epsilon_on": stem.weight_epsilon_on,
    }
    width = int(64 * stem.width_factor)
    x = layers.StdConv(width, 7, 2, **standard, name="stem_root")(x)
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
