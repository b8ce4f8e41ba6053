"""A row of the table -> a flat functional Keras model.

Every stage is a named node of the model's graph, so features, freezing and layer-wise rates need no hooks:
images, rescaling, (in a hybrid stem_root ... stem_stage1 ...,) embedding, tokens, class_token, position_embedding,
embedding_dropout, encoder_block_00, (position_embedding_01 where every block has its own,) ..., encoder_norm, pooling,
(pooled_norm in encoder_norm's place,) pre_logits, head, predictions.
"""

import numbers

import keras

from keras_vit import layers
from keras_vit.models.conventions import follow_conventions
from keras_vit.models.encoder import EncoderConfig, encode
from keras_vit.models.ends import begin, check_top, classify, finish
from keras_vit.models.row_checks import check_row
from keras_vit.models.token_layout import prefix_counts
from keras_vit.models.variants import Variant

POOLINGS = ("token", "gap", "map", None)


def build(
    variant: Variant,
    include_top: bool = True,
    weights: str | None = None,
    input_tensor=None,
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
    labels=None,
    class_token: bool | None = None,
    norm_after_pooling: bool = False,
    dtype=None,
) -> keras.Model:
    """Build the model of a row (sections 3.1 and 4.1 of arXiv 2010.11929).

    Args:
        variant: a row of the table, or your own `keras_vit.Variant`.
        include_top: whether to end in the classifier.
        weights: None for a fresh start, else a tag of `list_weights()` or the path of a file, of as many classes.
        input_tensor: a Keras tensor of images to use as the input.
        input_shape: (height, width, channels); not square, and None for a size that is free at run time, too.
        pooling: `token` (class token), `gap` (mean of the tokens; an axial row's default), `map` (attention pooling),
            or, with `include_top=False`, None for the token sequence.
        classes: number of classes of the classifier.
        classifier_activation: `softmax`, `sigmoid`, or None for logits.
        name: of the Keras model.
        patch_size: pixels of a patch in place of the row's, one int or (height, width).
        representation_size: width of a tanh layer before the classifier (ImageNet-21k pre-training has one).
        activation: `gelu_tanh` (the official code's) or `gelu` (exact: timm's and transformers'); where None, that of
            the weights' origin, and `gelu_tanh` without weights.
        layer_norm_epsilon: where None, that of the weights' origin, and 1e-6 without weights.
        dropout_rate: after the position embedding and every dense layer but query, key and value, in [0, 1).
        attention_dropout_rate: on the attention weights, in [0, 1).
        drop_path_rate: stochastic depth of the last block, rising linearly from 0 at the first, in [0, 1).
        include_preprocessing: True takes pixels 0..255; otherwise the input lies in [-1, 1].
        labels: names of the classes, kept in the model; those of ImageNet-1k where None and `weights` is a tag of a
            classifier of it.
        class_token: whether there is one; None has it where `pooling` is `token` or None. `gap` leaves it out of the
            mean.
        norm_after_pooling: True normalises the pooled vector in place of the tokens (timm's `fc_norm`).
        dtype: dtype policy of all layers; the global one where None.

    Returns:
        A `keras.Model`: images (B, H, W, C) -> (B, classes), or without the top (B, D) or (B, N, D).

    Raises:
        ValueError: an argument is out of range; one sentence says which, what was expected and what was received.
    """
    _check(variant, include_top, pooling, representation_size)
    check_top(include_top, classes, weights)
    chosen = {"activation": activation, "layer_norm_epsilon": layer_norm_epsilon}
    given = {name for name, value in chosen.items() if value is not None}
    if weights is not None:
        variant, origin = follow_conventions(weights, variant)
        activation = activation or origin.get("activation")
        layer_norm_epsilon = origin.get("layer_norm_epsilon") if layer_norm_epsilon is None else layer_norm_epsilon
    if class_token is False and pooling == "token":
        raise ValueError("class_token expected True or None with pooling='token', received False.")
    if norm_after_pooling and pooling is None:
        raise ValueError("norm_after_pooling expected False with pooling=None, received True.")
    rates = {"dropout_rate": dropout_rate, "attention_dropout_rate": attention_dropout_rate}
    rates["drop_path_rate"] = drop_path_rate
    for rate_name, rate in rates.items():
        layers.require_rate(rate_name, rate)
    norm = {"layer_norm_epsilon": 1e-6 if layer_norm_epsilon is None else layer_norm_epsilon}
    if not isinstance(norm["layer_norm_epsilon"], numbers.Real) or not norm["layer_norm_epsilon"] > 0:
        raise ValueError(f"layer_norm_epsilon expected a positive number, received {layer_norm_epsilon!r}.")
    mlp = {"mlp_dim": variant.mlp_dim, "activation": activation or "gelu_tanh"}
    patch = layers.as_pair(variant.patch_size if patch_size is None else patch_size)
    policy = keras.dtype_policies.get(dtype)

    images, x = begin(input_tensor, input_shape, variant.image_size, include_preprocessing, policy)
    if class_token is None:
        class_token = pooling == "token" or (pooling is None and not variant.axial)
    prefix = prefix_counts(variant, class_token=class_token)
    check_row(variant, prefix, None in x.shape[1:3])
    config = EncoderConfig(patch, prefix, mlp["activation"], **norm, **rates, policy=policy)
    x, layout = encode(x, variant, config)  # (B, N, D)
    if not norm_after_pooling:
        x = layers.LayerNorm(norm["layer_norm_epsilon"], name="encoder_norm", dtype=policy)(x)
    if pooling == "token":
        x = layers.TokenPooling(name="pooling", dtype=policy)(x)
    elif pooling == "gap":
        x = layers.MeanPooling(layout.prefix_tokens, name="pooling", dtype=policy)(x)
    elif pooling == "map":
        x = layers.AttentionPooling(variant.num_heads, **mlp, **norm, name="pooling", dtype=policy)(x)
    if norm_after_pooling:
        x = layers.LayerNorm(norm["layer_norm_epsilon"], name="pooled_norm", dtype=policy)(x)
    if representation_size:
        x = keras.layers.Dense(
            representation_size, "tanh", kernel_initializer="lecun_normal", name="pre_logits", dtype=policy
        )(x)
    if include_top:
        x = classify(x, classes, classifier_activation, labels, weights, policy)
    return finish(images, x, name or variant.name, weights, given)


def _check(variant, include_top, pooling, representation_size):
    if not isinstance(variant, Variant):
        raise ValueError(f"variant expected a keras_vit.Variant, received {variant!r}.")
    if pooling not in POOLINGS:
        raise ValueError(f"pooling expected one of {POOLINGS}, received {pooling!r}.")
    if pooling is None and (include_top or representation_size):
        raise ValueError("pooling expected one of ('token', 'gap', 'map') under a classifier, received None.")
