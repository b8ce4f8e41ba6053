"""Build a Vision Transformer from a row: a flat functional Keras model.

Every stage is a named node of the model's graph. In order:
images, rescaling, (in a hybrid stem_root, stem_stage1 and so on,) embedding, tokens, patch_norm, registers,
distillation_token, class_token, position_embedding, embedding_dropout, pre_norm, encoder_block_00,
(position_embedding_01 if every block has one,) encoder_block_01 and so on, encoder_norm, pooling, (pooled_norm instead
of encoder_norm,) pre_logits, head, predictions. The layers of `neck.py` take the place of encoder_norm.

B batch, H W C image, h w patch grid, N tokens, D width.
"""

import inspect
from collections.abc import Sequence
from typing import Any

import keras

from keras_vit import layers
from keras_vit.layers.dropout import Dropout
from keras_vit.models.conventions import follow_conventions
from keras_vit.models.encoder_config import EncoderConfig, attention_options, block_inputs, block_kind, mlp_options
from keras_vit.models.inputs_and_head import classifier, finished_model, image_input
from keras_vit.models.neck import after_neck
from keras_vit.models.row_checks import check_axial_fields, check_classes, check_pooling, check_row, takes_prefix
from keras_vit.models.stem import stem_map
from keras_vit.models.token_layout import TokenLayout, add_prefix, prefix_counts
from keras_vit.models.variants import Variant

POSITIONS = {
    "learned": layers.PositionEmbedding,
    "1d": layers.PositionEmbedding,
    "2d": layers.PositionEmbedding2D,
    "factorized": layers.FactorizedPositions,
    "relative": layers.NoPositions,  # the attention of the blocks has them
    "none": layers.NoPositions,
    "sincos2d": layers.SinCosPositions,
    "sincos2d_mae": layers.MAEPositions,
}


def build(
    variant: Variant,
    include_top: bool = True,
    weights: str | None = None,
    input_tensor: Any = None,
    input_shape: tuple | None = None,
    pooling: str | None = "token",
    classes: int = 1000,
    classifier_activation: str | None = "softmax",
    name: str | None = None,
    *,
    patch_size: int | tuple[int, int] | None = None,
    representation_size: int | None = None,
    activation: str | None = None,
    layer_norm_epsilon: float | None = None,
    dropout_rate: float = 0.0,
    attention_dropout_rate: float = 0.0,
    drop_path_rate: float = 0.0,
    include_preprocessing: bool = False,
    labels: Sequence[str] | None = None,
    class_token: bool | None = None,
    norm_after_pooling: bool = False,
    dtype: Any = None,
) -> keras.Model:
    """Build the model of a row. `keras_vit.ViT_B16` documents the other arguments."""
    check_pooling(variant, pooling, include_top or representation_size, class_token, norm_after_pooling)
    check_classes(include_top, classes, weights)
    chosen = {"activation": activation, "layer_norm_epsilon": layer_norm_epsilon}
    chosen = {option: value for option, value in chosen.items() if value is not None}
    variant, conventions = follow_conventions(weights, variant)
    policy = keras.dtype_policies.get(dtype)
    if class_token is None:
        class_token = variant.class_token or pooling == "token" or (pooling is None and takes_prefix(variant))
    config = EncoderConfig(
        patch_size=layers.as_pair(variant.patch_size if patch_size is None else patch_size),
        prefix=prefix_counts(variant, class_token=class_token),
        norm_kind=variant.norm,
        dropout_rate=dropout_rate,
        attention_dropout_rate=attention_dropout_rate,
        drop_path_rate=drop_path_rate,
        policy=policy,
        **({name: getattr(variant, name) for name in ("activation", "layer_norm_epsilon")} | conventions | chosen),
    )
    images, x = image_input(input_tensor, input_shape, variant.image_size, include_preprocessing, policy)
    check_row(variant, config.prefix, None in x.shape[1:3])
    x, layout = encode(x, variant, config)  # (B, N, D)
    x = _pool(x, variant, config, layout, pooling, norm_after_pooling)  # (B, D)
    if representation_size:
        options = {"activation": "tanh", "kernel_initializer": "lecun_normal", "dtype": policy}
        x = keras.layers.Dense(representation_size, **options, name="pre_logits")(x)
    if include_top:
        x = classifier(x, classes, classifier_activation, labels, weights, policy)
    return finished_model(images, x, name or variant.name, weights, chosen)


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
    policy = config.policy
    if variant.stem is not None:
        x = stem_map(x, variant.stem, policy)  # (B, H / stride, W / stride, C)
    sizes = (variant.width, config.patch_size, variant.patch_bias)
    patches = layers.PatchEmbedding(*sizes, name="embedding", dtype=policy)(x)  # (B, h, w, D)
    x = layers.GridToTokens(name="tokens", dtype=policy)(patches)  # (B, h * w, D)
    x = config.norm("patch_norm")(x) if variant.patch_norm else x
    x = x if corrupt is None else corrupt(x)
    x, prefix = add_prefix(x, config.prefix, policy)  # (B, prefix + h * w, D)
    free = None in patches.shape[1:3]
    cells = [side * (variant.stem.stride if variant.stem else 1) for side in config.patch_size]
    grid = tuple(side or variant.image_size // cell for side, cell in zip(patches.shape[1:3], cells, strict=True))
    layout = TokenLayout(prefix, grid)

    def position_layer(name):
        options = {} if variant.prefix_positions else {"prefix_positions": False}
        return POSITIONS[variant.positions](grid, layout.prefix_tokens, **options, name=name, dtype=policy)

    positions = position_layer("position_embedding")
    x = positions(x, patches) if free else positions(x)
    x = Dropout(config.dropout_rate, name="embedding_dropout", dtype=policy)(x)
    if variant.pre_norm:
        x = config.norm("pre_norm")(x)
    beside = block_inputs(patches, variant, layout, policy)
    for i in range(variant.depth):
        if i and variant.positions_at == "layers":
            positions = position_layer(f"position_embedding_{i:02d}")
        if i and variant.positions_at != "stem":
            x = positions(x, patches) if free else positions(x)
        x = _block(variant, config, layout, i)(x, *beside)
    return x, layout


def _block(variant: Variant, config: EncoderConfig, layout: TokenLayout, i: int):
    """Return encoder block `i`. Its arguments are the fields of the row and of the config with the same names."""
    available = {**vars(variant), **vars(config), "prefix_tokens": layout.prefix_tokens}
    available["drop_path_rate"] = config.drop_path_rate * i / max(variant.depth - 1, 1)
    available["relative_positions"] = variant.positions == "relative"
    available |= {"attention_options": attention_options(variant, layout, i), "mlp_options": mlp_options(variant)}
    kind = block_kind(variant)
    all_options, options = (inspect.signature(block.__init__).parameters for block in (layers.EncoderBlock, kind))
    check_axial_fields(variant, all_options.keys() - options.keys())
    options = {name: available[name] for name in options if name in available}
    return kind(**options, name=f"encoder_block_{i:02d}", dtype=config.policy)


def _pool(x, variant, config, layout, pooling, norm_after_pooling):
    """Normalise the tokens and pool them: (B, N, D) -> (B, D). Without pooling, return tokens or a neck's map."""
    if variant.neck is not None:
        x = after_neck(x, layout.grid, variant.neck, pooling is None, config.policy)
    elif variant.final_norm and not norm_after_pooling:
        x = config.norm("encoder_norm")(x)
    if pooling == "token":
        kind = layers.DistillationPooling if variant.distillation_token else layers.TokenPooling
        x = kind(name="pooling", dtype=config.policy)(x)
    elif pooling == "gap":
        x = layers.MeanPooling(layout.prefix_tokens, name="pooling", dtype=config.policy)(x)
    elif pooling == "map":
        heads, mlp_dim = variant.pooling_heads or variant.num_heads, variant.pooling_mlp_dim or variant.mlp_dim
        left_out = 0 if variant.pool_prefix else layout.prefix_tokens
        sizes = (heads, mlp_dim, config.activation, config.layer_norm_epsilon, left_out)
        x = layers.AttentionPooling(*sizes, name="pooling", dtype=config.policy)(x)
    return config.norm("pooled_norm")(x) if norm_after_pooling else x
