"""One builder per row of the table: `ViT_B16()` is `build(B16)`, with the arguments of `keras.applications`.

Written by `python -m keras_vit.models.zoo_source`: change that file, the table or the docstring of `build`.
"""

import keras

from keras_vit.models import variants
from keras_vit.models.builders import build

# fmt: off


def ViT_Ti16(
    include_top: bool = True, weights: str | None = None, input_tensor=None, input_shape: tuple | None = None,
    pooling: str | None = "token", classes: int = 1000, classifier_activation: str | None = "softmax",
    name: str | None = None, *, patch_size: int | tuple[int, int] | None = None,
    representation_size: int | None = None, activation: str | None = None, layer_norm_epsilon: float | None = None,
    dropout_rate: float = 0.0, attention_dropout_rate: float = 0.0, drop_path_rate: float = 0.0,
    include_preprocessing: bool = False, labels=None, class_token: bool | None = None,
    norm_after_pooling: bool = False, dtype=None,
) -> keras.Model:
    """Build ViT-Ti/16: 5,717,416 parameters with 1000 classes.

    It has 12 blocks of width 192, 3 heads, MLP 768, patches of 16 pixels.

    Args:
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
    return build(
        variants.Ti16, include_top, weights, input_tensor, input_shape, pooling, classes, classifier_activation, name,
        patch_size=patch_size, representation_size=representation_size, activation=activation,
        layer_norm_epsilon=layer_norm_epsilon, dropout_rate=dropout_rate,
        attention_dropout_rate=attention_dropout_rate, drop_path_rate=drop_path_rate,
        include_preprocessing=include_preprocessing, labels=labels, class_token=class_token,
        norm_after_pooling=norm_after_pooling, dtype=dtype,
    )


def ViT_S32(
    include_top: bool = True, weights: str | None = None, input_tensor=None, input_shape: tuple | None = None,
    pooling: str | None = "token", classes: int = 1000, classifier_activation: str | None = "softmax",
    name: str | None = None, *, patch_size: int | tuple[int, int] | None = None,
    representation_size: int | None = None, activation: str | None = None, layer_norm_epsilon: float | None = None,
    dropout_rate: float = 0.0, attention_dropout_rate: float = 0.0, drop_path_rate: float = 0.0,
    include_preprocessing: bool = False, labels=None, class_token: bool | None = None,
    norm_after_pooling: bool = False, dtype=None,
) -> keras.Model:
    """Build ViT-S/32: 22,878,952 parameters with 1000 classes.

    It has 12 blocks of width 384, 6 heads, MLP 1536, patches of 32 pixels.

    Args:
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
    return build(
        variants.S32, include_top, weights, input_tensor, input_shape, pooling, classes, classifier_activation, name,
        patch_size=patch_size, representation_size=representation_size, activation=activation,
        layer_norm_epsilon=layer_norm_epsilon, dropout_rate=dropout_rate,
        attention_dropout_rate=attention_dropout_rate, drop_path_rate=drop_path_rate,
        include_preprocessing=include_preprocessing, labels=labels, class_token=class_token,
        norm_after_pooling=norm_after_pooling, dtype=dtype,
    )


def ViT_S16(
    include_top: bool = True, weights: str | None = None, input_tensor=None, input_shape: tuple | None = None,
    pooling: str | None = "token", classes: int = 1000, classifier_activation: str | None = "softmax",
    name: str | None = None, *, patch_size: int | tuple[int, int] | None = None,
    representation_size: int | None = None, activation: str | None = None, layer_norm_epsilon: float | None = None,
    dropout_rate: float = 0.0, attention_dropout_rate: float = 0.0, drop_path_rate: float = 0.0,
    include_preprocessing: bool = False, labels=None, class_token: bool | None = None,
    norm_after_pooling: bool = False, dtype=None,
) -> keras.Model:
    """Build ViT-S/16: 22,050,664 parameters with 1000 classes.

    It has 12 blocks of width 384, 6 heads, MLP 1536, patches of 16 pixels.

    Args:
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
    return build(
        variants.S16, include_top, weights, input_tensor, input_shape, pooling, classes, classifier_activation, name,
        patch_size=patch_size, representation_size=representation_size, activation=activation,
        layer_norm_epsilon=layer_norm_epsilon, dropout_rate=dropout_rate,
        attention_dropout_rate=attention_dropout_rate, drop_path_rate=drop_path_rate,
        include_preprocessing=include_preprocessing, labels=labels, class_token=class_token,
        norm_after_pooling=norm_after_pooling, dtype=dtype,
    )


def ViT_S8(
    include_top: bool = True, weights: str | None = None, input_tensor=None, input_shape: tuple | None = None,
    pooling: str | None = "token", classes: int = 1000, classifier_activation: str | None = "softmax",
    name: str | None = None, *, patch_size: int | tuple[int, int] | None = None,
    representation_size: int | None = None, activation: str | None = None, layer_norm_epsilon: float | None = None,
    dropout_rate: float = 0.0, attention_dropout_rate: float = 0.0, drop_path_rate: float = 0.0,
    include_preprocessing: bool = False, labels=None, class_token: bool | None = None,
    norm_after_pooling: bool = False, dtype=None,
) -> keras.Model:
    """Build ViT-S/8: 22,055,272 parameters with 1000 classes.

    It has 12 blocks of width 384, 6 heads, MLP 1536, patches of 8 pixels.

    Args:
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
    return build(
        variants.S8, include_top, weights, input_tensor, input_shape, pooling, classes, classifier_activation, name,
        patch_size=patch_size, representation_size=representation_size, activation=activation,
        layer_norm_epsilon=layer_norm_epsilon, dropout_rate=dropout_rate,
        attention_dropout_rate=attention_dropout_rate, drop_path_rate=drop_path_rate,
        include_preprocessing=include_preprocessing, labels=labels, class_token=class_token,
        norm_after_pooling=norm_after_pooling, dtype=dtype,
    )


def ViT_B32(
    include_top: bool = True, weights: str | None = None, input_tensor=None, input_shape: tuple | None = None,
    pooling: str | None = "token", classes: int = 1000, classifier_activation: str | None = "softmax",
    name: str | None = None, *, patch_size: int | tuple[int, int] | None = None,
    representation_size: int | None = None, activation: str | None = None, layer_norm_epsilon: float | None = None,
    dropout_rate: float = 0.0, attention_dropout_rate: float = 0.0, drop_path_rate: float = 0.0,
    include_preprocessing: bool = False, labels=None, class_token: bool | None = None,
    norm_after_pooling: bool = False, dtype=None,
) -> keras.Model:
    """Build ViT-B/32: 88,224,232 parameters with 1000 classes.

    It has 12 blocks of width 768, 12 heads, MLP 3072, patches of 32 pixels.

    Args:
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
    return build(
        variants.B32, include_top, weights, input_tensor, input_shape, pooling, classes, classifier_activation, name,
        patch_size=patch_size, representation_size=representation_size, activation=activation,
        layer_norm_epsilon=layer_norm_epsilon, dropout_rate=dropout_rate,
        attention_dropout_rate=attention_dropout_rate, drop_path_rate=drop_path_rate,
        include_preprocessing=include_preprocessing, labels=labels, class_token=class_token,
        norm_after_pooling=norm_after_pooling, dtype=dtype,
    )


def ViT_B16(
    include_top: bool = True, weights: str | None = None, input_tensor=None, input_shape: tuple | None = None,
    pooling: str | None = "token", classes: int = 1000, classifier_activation: str | None = "softmax",
    name: str | None = None, *, patch_size: int | tuple[int, int] | None = None,
    representation_size: int | None = None, activation: str | None = None, layer_norm_epsilon: float | None = None,
    dropout_rate: float = 0.0, attention_dropout_rate: float = 0.0, drop_path_rate: float = 0.0,
    include_preprocessing: bool = False, labels=None, class_token: bool | None = None,
    norm_after_pooling: bool = False, dtype=None,
) -> keras.Model:
    """Build ViT-B/16: 86,567,656 parameters with 1000 classes.

    It has 12 blocks of width 768, 12 heads, MLP 3072, patches of 16 pixels.

    Args:
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
    return build(
        variants.B16, include_top, weights, input_tensor, input_shape, pooling, classes, classifier_activation, name,
        patch_size=patch_size, representation_size=representation_size, activation=activation,
        layer_norm_epsilon=layer_norm_epsilon, dropout_rate=dropout_rate,
        attention_dropout_rate=attention_dropout_rate, drop_path_rate=drop_path_rate,
        include_preprocessing=include_preprocessing, labels=labels, class_token=class_token,
        norm_after_pooling=norm_after_pooling, dtype=dtype,
    )


def ViT_B8(
    include_top: bool = True, weights: str | None = None, input_tensor=None, input_shape: tuple | None = None,
    pooling: str | None = "token", classes: int = 1000, classifier_activation: str | None = "softmax",
    name: str | None = None, *, patch_size: int | tuple[int, int] | None = None,
    representation_size: int | None = None, activation: str | None = None, layer_norm_epsilon: float | None = None,
    dropout_rate: float = 0.0, attention_dropout_rate: float = 0.0, drop_path_rate: float = 0.0,
    include_preprocessing: bool = False, labels=None, class_token: bool | None = None,
    norm_after_pooling: bool = False, dtype=None,
) -> keras.Model:
    """Build ViT-B/8: 86,576,872 parameters with 1000 classes.

    It has 12 blocks of width 768, 12 heads, MLP 3072, patches of 8 pixels.

    Args:
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
    return build(
        variants.B8, include_top, weights, input_tensor, input_shape, pooling, classes, classifier_activation, name,
        patch_size=patch_size, representation_size=representation_size, activation=activation,
        layer_norm_epsilon=layer_norm_epsilon, dropout_rate=dropout_rate,
        attention_dropout_rate=attention_dropout_rate, drop_path_rate=drop_path_rate,
        include_preprocessing=include_preprocessing, labels=labels, class_token=class_token,
        norm_after_pooling=norm_after_pooling, dtype=dtype,
    )


def ViT_L32(
    include_top: bool = True, weights: str | None = None, input_tensor=None, input_shape: tuple | None = None,
    pooling: str | None = "token", classes: int = 1000, classifier_activation: str | None = "softmax",
    name: str | None = None, *, patch_size: int | tuple[int, int] | None = None,
    representation_size: int | None = None, activation: str | None = None, layer_norm_epsilon: float | None = None,
    dropout_rate: float = 0.0, attention_dropout_rate: float = 0.0, drop_path_rate: float = 0.0,
    include_preprocessing: bool = False, labels=None, class_token: bool | None = None,
    norm_after_pooling: bool = False, dtype=None,
) -> keras.Model:
    """Build ViT-L/32: 306,535,400 parameters with 1000 classes.

    It has 24 blocks of width 1024, 16 heads, MLP 4096, patches of 32 pixels.

    Args:
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
    return build(
        variants.L32, include_top, weights, input_tensor, input_shape, pooling, classes, classifier_activation, name,
        patch_size=patch_size, representation_size=representation_size, activation=activation,
        layer_norm_epsilon=layer_norm_epsilon, dropout_rate=dropout_rate,
        attention_dropout_rate=attention_dropout_rate, drop_path_rate=drop_path_rate,
        include_preprocessing=include_preprocessing, labels=labels, class_token=class_token,
        norm_after_pooling=norm_after_pooling, dtype=dtype,
    )


def ViT_L16(
    include_top: bool = True, weights: str | None = None, input_tensor=None, input_shape: tuple | None = None,
    pooling: str | None = "token", classes: int = 1000, classifier_activation: str | None = "softmax",
    name: str | None = None, *, patch_size: int | tuple[int, int] | None = None,
    representation_size: int | None = None, activation: str | None = None, layer_norm_epsilon: float | None = None,
    dropout_rate: float = 0.0, attention_dropout_rate: float = 0.0, drop_path_rate: float = 0.0,
    include_preprocessing: bool = False, labels=None, class_token: bool | None = None,
    norm_after_pooling: bool = False, dtype=None,
) -> keras.Model:
    """Build ViT-L/16: 304,326,632 parameters with 1000 classes.

    It has 24 blocks of width 1024, 16 heads, MLP 4096, patches of 16 pixels.

    Args:
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
    return build(
        variants.L16, include_top, weights, input_tensor, input_shape, pooling, classes, classifier_activation, name,
        patch_size=patch_size, representation_size=representation_size, activation=activation,
        layer_norm_epsilon=layer_norm_epsilon, dropout_rate=dropout_rate,
        attention_dropout_rate=attention_dropout_rate, drop_path_rate=drop_path_rate,
        include_preprocessing=include_preprocessing, labels=labels, class_token=class_token,
        norm_after_pooling=norm_after_pooling, dtype=dtype,
    )


def ViT_H16(
    include_top: bool = True, weights: str | None = None, input_tensor=None, input_shape: tuple | None = None,
    pooling: str | None = "token", classes: int = 1000, classifier_activation: str | None = "softmax",
    name: str | None = None, *, patch_size: int | tuple[int, int] | None = None,
    representation_size: int | None = None, activation: str | None = None, layer_norm_epsilon: float | None = None,
    dropout_rate: float = 0.0, attention_dropout_rate: float = 0.0, drop_path_rate: float = 0.0,
    include_preprocessing: bool = False, labels=None, class_token: bool | None = None,
    norm_after_pooling: bool = False, dtype=None,
) -> keras.Model:
    """Build ViT-H/16: 632,199,400 parameters with 1000 classes.

    It has 32 blocks of width 1280, 16 heads, MLP 5120, patches of 16 pixels.

    Args:
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
    return build(
        variants.H16, include_top, weights, input_tensor, input_shape, pooling, classes, classifier_activation, name,
        patch_size=patch_size, representation_size=representation_size, activation=activation,
        layer_norm_epsilon=layer_norm_epsilon, dropout_rate=dropout_rate,
        attention_dropout_rate=attention_dropout_rate, drop_path_rate=drop_path_rate,
        include_preprocessing=include_preprocessing, labels=labels, class_token=class_token,
        norm_after_pooling=norm_after_pooling, dtype=dtype,
    )


def ViT_H14(
    include_top: bool = True, weights: str | None = None, input_tensor=None, input_shape: tuple | None = None,
    pooling: str | None = "token", classes: int = 1000, classifier_activation: str | None = "softmax",
    name: str | None = None, *, patch_size: int | tuple[int, int] | None = None,
    representation_size: int | None = None, activation: str | None = None, layer_norm_epsilon: float | None = None,
    dropout_rate: float = 0.0, attention_dropout_rate: float = 0.0, drop_path_rate: float = 0.0,
    include_preprocessing: bool = False, labels=None, class_token: bool | None = None,
    norm_after_pooling: bool = False, dtype=None,
) -> keras.Model:
    """Build ViT-H/14: 632,045,800 parameters with 1000 classes.

    It has 32 blocks of width 1280, 16 heads, MLP 5120, patches of 14 pixels.

    Args:
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
    return build(
        variants.H14, include_top, weights, input_tensor, input_shape, pooling, classes, classifier_activation, name,
        patch_size=patch_size, representation_size=representation_size, activation=activation,
        layer_norm_epsilon=layer_norm_epsilon, dropout_rate=dropout_rate,
        attention_dropout_rate=attention_dropout_rate, drop_path_rate=drop_path_rate,
        include_preprocessing=include_preprocessing, labels=labels, class_token=class_token,
        norm_after_pooling=norm_after_pooling, dtype=dtype,
    )


def ViT_g14(
    include_top: bool = True, weights: str | None = None, input_tensor=None, input_shape: tuple | None = None,
    pooling: str | None = "token", classes: int = 1000, classifier_activation: str | None = "softmax",
    name: str | None = None, *, patch_size: int | tuple[int, int] | None = None,
    representation_size: int | None = None, activation: str | None = None, layer_norm_epsilon: float | None = None,
    dropout_rate: float = 0.0, attention_dropout_rate: float = 0.0, drop_path_rate: float = 0.0,
    include_preprocessing: bool = False, labels=None, class_token: bool | None = None,
    norm_after_pooling: bool = False, dtype=None,
) -> keras.Model:
    """Build ViT-g/14: 1,012,611,432 parameters with 1000 classes.

    It has 40 blocks of width 1408, 16 heads, MLP 6144, patches of 14 pixels.

    Args:
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
    return build(
        variants.g14, include_top, weights, input_tensor, input_shape, pooling, classes, classifier_activation, name,
        patch_size=patch_size, representation_size=representation_size, activation=activation,
        layer_norm_epsilon=layer_norm_epsilon, dropout_rate=dropout_rate,
        attention_dropout_rate=attention_dropout_rate, drop_path_rate=drop_path_rate,
        include_preprocessing=include_preprocessing, labels=labels, class_token=class_token,
        norm_after_pooling=norm_after_pooling, dtype=dtype,
    )


def ViT_G14(
    include_top: bool = True, weights: str | None = None, input_tensor=None, input_shape: tuple | None = None,
    pooling: str | None = "token", classes: int = 1000, classifier_activation: str | None = "softmax",
    name: str | None = None, *, patch_size: int | tuple[int, int] | None = None,
    representation_size: int | None = None, activation: str | None = None, layer_norm_epsilon: float | None = None,
    dropout_rate: float = 0.0, attention_dropout_rate: float = 0.0, drop_path_rate: float = 0.0,
    include_preprocessing: bool = False, labels=None, class_token: bool | None = None,
    norm_after_pooling: bool = False, dtype=None,
) -> keras.Model:
    """Build ViT-G/14: 1,844,440,680 parameters with 1000 classes.

    It has 48 blocks of width 1664, 16 heads, MLP 8192, patches of 14 pixels.

    Args:
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
    return build(
        variants.G14, include_top, weights, input_tensor, input_shape, pooling, classes, classifier_activation, name,
        patch_size=patch_size, representation_size=representation_size, activation=activation,
        layer_norm_epsilon=layer_norm_epsilon, dropout_rate=dropout_rate,
        attention_dropout_rate=attention_dropout_rate, drop_path_rate=drop_path_rate,
        include_preprocessing=include_preprocessing, labels=labels, class_token=class_token,
        norm_after_pooling=norm_after_pooling, dtype=dtype,
    )


def AxialViT_B16(
    include_top: bool = True, weights: str | None = None, input_tensor=None, input_shape: tuple | None = None,
    pooling: str | None = "gap", classes: int = 1000, classifier_activation: str | None = "softmax",
    name: str | None = None, *, patch_size: int | tuple[int, int] | None = None,
    representation_size: int | None = None, activation: str | None = None, layer_norm_epsilon: float | None = None,
    dropout_rate: float = 0.0, attention_dropout_rate: float = 0.0, drop_path_rate: float = 0.0,
    include_preprocessing: bool = False, labels=None, class_token: bool | None = None,
    norm_after_pooling: bool = False, dtype=None,
) -> keras.Model:
    """Build Axial-ViT-B/16: 171,620,584 parameters with 1000 classes.

    It has 12 axial blocks of width 768, 12 heads, MLP 3072, patches of 16 pixels.

    Args:
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
    return build(
        variants.AXIAL_B16, include_top, weights, input_tensor, input_shape, pooling, classes, classifier_activation,
        name, patch_size=patch_size, representation_size=representation_size, activation=activation,
        layer_norm_epsilon=layer_norm_epsilon, dropout_rate=dropout_rate,
        attention_dropout_rate=attention_dropout_rate, drop_path_rate=drop_path_rate,
        include_preprocessing=include_preprocessing, labels=labels, class_token=class_token,
        norm_after_pooling=norm_after_pooling, dtype=dtype,
    )


def AxialViT_B32(
    include_top: bool = True, weights: str | None = None, input_tensor=None, input_shape: tuple | None = None,
    pooling: str | None = "gap", classes: int = 1000, classifier_activation: str | None = "softmax",
    name: str | None = None, *, patch_size: int | tuple[int, int] | None = None,
    representation_size: int | None = None, activation: str | None = None, layer_norm_epsilon: float | None = None,
    dropout_rate: float = 0.0, attention_dropout_rate: float = 0.0, drop_path_rate: float = 0.0,
    include_preprocessing: bool = False, labels=None, class_token: bool | None = None,
    norm_after_pooling: bool = False, dtype=None,
) -> keras.Model:
    """Build Axial-ViT-B/32: 173,277,160 parameters with 1000 classes.

    It has 12 axial blocks of width 768, 12 heads, MLP 3072, patches of 32 pixels.

    Args:
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
    return build(
        variants.AXIAL_B32, include_top, weights, input_tensor, input_shape, pooling, classes, classifier_activation,
        name, patch_size=patch_size, representation_size=representation_size, activation=activation,
        layer_norm_epsilon=layer_norm_epsilon, dropout_rate=dropout_rate,
        attention_dropout_rate=attention_dropout_rate, drop_path_rate=drop_path_rate,
        include_preprocessing=include_preprocessing, labels=labels, class_token=class_token,
        norm_after_pooling=norm_after_pooling, dtype=dtype,
    )


def R_ViT_Ti16(
    include_top: bool = True, weights: str | None = None, input_tensor=None, input_shape: tuple | None = None,
    pooling: str | None = "token", classes: int = 1000, classifier_activation: str | None = "softmax",
    name: str | None = None, *, patch_size: int | tuple[int, int] | None = None,
    representation_size: int | None = None, activation: str | None = None, layer_norm_epsilon: float | None = None,
    dropout_rate: float = 0.0, attention_dropout_rate: float = 0.0, drop_path_rate: float = 0.0,
    include_preprocessing: bool = False, labels=None, class_token: bool | None = None,
    norm_after_pooling: bool = False, dtype=None,
) -> keras.Model:
    """Build R+ViT-Ti/16: 6,337,704 parameters with 1000 classes.

    It has 12 blocks of width 192, 3 heads, MLP 768, patches of 8 cells on a ResNet of stages with no units.

    Args:
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
    return build(
        variants.R_Ti16, include_top, weights, input_tensor, input_shape, pooling, classes, classifier_activation,
        name, patch_size=patch_size, representation_size=representation_size, activation=activation,
        layer_norm_epsilon=layer_norm_epsilon, dropout_rate=dropout_rate,
        attention_dropout_rate=attention_dropout_rate, drop_path_rate=drop_path_rate,
        include_preprocessing=include_preprocessing, labels=labels, class_token=class_token,
        norm_after_pooling=norm_after_pooling, dtype=dtype,
    )


def R26_ViT_S32(
    include_top: bool = True, weights: str | None = None, input_tensor=None, input_shape: tuple | None = None,
    pooling: str | None = "token", classes: int = 1000, classifier_activation: str | None = "softmax",
    name: str | None = None, *, patch_size: int | tuple[int, int] | None = None,
    representation_size: int | None = None, activation: str | None = None, layer_norm_epsilon: float | None = None,
    dropout_rate: float = 0.0, attention_dropout_rate: float = 0.0, drop_path_rate: float = 0.0,
    include_preprocessing: bool = False, labels=None, class_token: bool | None = None,
    norm_after_pooling: bool = False, dtype=None,
) -> keras.Model:
    """Build R26+ViT-S/32: 36,431,912 parameters with 1000 classes.

    It has 12 blocks of width 384, 6 heads, MLP 1536, patches of 1 cells on a ResNet of stages with 2, 2, 2, 2 units.

    Args:
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
    return build(
        variants.R26_S32, include_top, weights, input_tensor, input_shape, pooling, classes, classifier_activation,
        name, patch_size=patch_size, representation_size=representation_size, activation=activation,
        layer_norm_epsilon=layer_norm_epsilon, dropout_rate=dropout_rate,
        attention_dropout_rate=attention_dropout_rate, drop_path_rate=drop_path_rate,
        include_preprocessing=include_preprocessing, labels=labels, class_token=class_token,
        norm_after_pooling=norm_after_pooling, dtype=dtype,
    )


def R26_ViT_B32(
    include_top: bool = True, weights: str | None = None, input_tensor=None, input_shape: tuple | None = None,
    pooling: str | None = "token", classes: int = 1000, classifier_activation: str | None = "softmax",
    name: str | None = None, *, patch_size: int | tuple[int, int] | None = None,
    representation_size: int | None = None, activation: str | None = None, layer_norm_epsilon: float | None = None,
    dropout_rate: float = 0.0, attention_dropout_rate: float = 0.0, drop_path_rate: float = 0.0,
    include_preprocessing: bool = False, labels=None, class_token: bool | None = None,
    norm_after_pooling: bool = False, dtype=None,
) -> keras.Model:
    """Build R26+ViT-B/32: 101,383,976 parameters with 1000 classes.

    It has 12 blocks of width 768, 12 heads, MLP 3072, patches of 1 cells on a ResNet of stages with 2, 2, 2, 2 units.

    Args:
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
    return build(
        variants.R26_B32, include_top, weights, input_tensor, input_shape, pooling, classes, classifier_activation,
        name, patch_size=patch_size, representation_size=representation_size, activation=activation,
        layer_norm_epsilon=layer_norm_epsilon, dropout_rate=dropout_rate,
        attention_dropout_rate=attention_dropout_rate, drop_path_rate=drop_path_rate,
        include_preprocessing=include_preprocessing, labels=labels, class_token=class_token,
        norm_after_pooling=norm_after_pooling, dtype=dtype,
    )


def R50_ViT_B16(
    include_top: bool = True, weights: str | None = None, input_tensor=None, input_shape: tuple | None = None,
    pooling: str | None = "token", classes: int = 1000, classifier_activation: str | None = "softmax",
    name: str | None = None, *, patch_size: int | tuple[int, int] | None = None,
    representation_size: int | None = None, activation: str | None = None, layer_norm_epsilon: float | None = None,
    dropout_rate: float = 0.0, attention_dropout_rate: float = 0.0, drop_path_rate: float = 0.0,
    include_preprocessing: bool = False, labels=None, class_token: bool | None = None,
    norm_after_pooling: bool = False, dtype=None,
) -> keras.Model:
    """Build R50+ViT-B/16: 98,659,112 parameters with 1000 classes.

    It has 12 blocks of width 768, 12 heads, MLP 3072, patches of 1 cells on a ResNet of stages with 3, 4, 9 units.

    Args:
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
    return build(
        variants.R50_B16, include_top, weights, input_tensor, input_shape, pooling, classes, classifier_activation,
        name, patch_size=patch_size, representation_size=representation_size, activation=activation,
        layer_norm_epsilon=layer_norm_epsilon, dropout_rate=dropout_rate,
        attention_dropout_rate=attention_dropout_rate, drop_path_rate=drop_path_rate,
        include_preprocessing=include_preprocessing, labels=labels, class_token=class_token,
        norm_after_pooling=norm_after_pooling, dtype=dtype,
    )


def R50_ViT_B32(
    include_top: bool = True, weights: str | None = None, input_tensor=None, input_shape: tuple | None = None,
    pooling: str | None = "token", classes: int = 1000, classifier_activation: str | None = "softmax",
    name: str | None = None, *, patch_size: int | tuple[int, int] | None = None,
    representation_size: int | None = None, activation: str | None = None, layer_norm_epsilon: float | None = None,
    dropout_rate: float = 0.0, attention_dropout_rate: float = 0.0, drop_path_rate: float = 0.0,
    include_preprocessing: bool = False, labels=None, class_token: bool | None = None,
    norm_after_pooling: bool = False, dtype=None,
) -> keras.Model:
    """Build R50+ViT-B/32: 110,945,832 parameters with 1000 classes.

    It has 12 blocks of width 768, 12 heads, MLP 3072, patches of 1 cells on a ResNet of stages with 3, 4, 6, 3 units.

    Args:
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
    return build(
        variants.R50_B32, include_top, weights, input_tensor, input_shape, pooling, classes, classifier_activation,
        name, patch_size=patch_size, representation_size=representation_size, activation=activation,
        layer_norm_epsilon=layer_norm_epsilon, dropout_rate=dropout_rate,
        attention_dropout_rate=attention_dropout_rate, drop_path_rate=drop_path_rate,
        include_preprocessing=include_preprocessing, labels=labels, class_token=class_token,
        norm_after_pooling=norm_after_pooling, dtype=dtype,
    )


def R50_ViT_L16(
    include_top: bool = True, weights: str | None = None, input_tensor=None, input_shape: tuple | None = None,
    pooling: str | None = "token", classes: int = 1000, classifier_activation: str | None = "softmax",
    name: str | None = None, *, patch_size: int | tuple[int, int] | None = None,
    representation_size: int | None = None, activation: str | None = None, layer_norm_epsilon: float | None = None,
    dropout_rate: float = 0.0, attention_dropout_rate: float = 0.0, drop_path_rate: float = 0.0,
    include_preprocessing: bool = False, labels=None, class_token: bool | None = None,
    norm_after_pooling: bool = False, dtype=None,
) -> keras.Model:
    """Build R50+ViT-L/16: 316,483,624 parameters with 1000 classes.

    It has 24 blocks of width 1024, 16 heads, MLP 4096, patches of 1 cells on a ResNet of stages with 3, 4, 9 units.

    Args:
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
    return build(
        variants.R50_L16, include_top, weights, input_tensor, input_shape, pooling, classes, classifier_activation,
        name, patch_size=patch_size, representation_size=representation_size, activation=activation,
        layer_norm_epsilon=layer_norm_epsilon, dropout_rate=dropout_rate,
        attention_dropout_rate=attention_dropout_rate, drop_path_rate=drop_path_rate,
        include_preprocessing=include_preprocessing, labels=labels, class_token=class_token,
        norm_after_pooling=norm_after_pooling, dtype=dtype,
    )


def R50_ViT_L32(
    include_top: bool = True, weights: str | None = None, input_tensor=None, input_shape: tuple | None = None,
    pooling: str | None = "token", classes: int = 1000, classifier_activation: str | None = "softmax",
    name: str | None = None, *, patch_size: int | tuple[int, int] | None = None,
    representation_size: int | None = None, activation: str | None = None, layer_norm_epsilon: float | None = None,
    dropout_rate: float = 0.0, attention_dropout_rate: float = 0.0, drop_path_rate: float = 0.0,
    include_preprocessing: bool = False, labels=None, class_token: bool | None = None,
    norm_after_pooling: bool = False, dtype=None,
) -> keras.Model:
    """Build R50+ViT-L/32: 328,994,856 parameters with 1000 classes.

    It has 24 blocks of width 1024, 16 heads, MLP 4096, patches of 1 cells on a ResNet of stages with 3, 4, 6, 3 units.

    Args:
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
    return build(
        variants.R50_L32, include_top, weights, input_tensor, input_shape, pooling, classes, classifier_activation,
        name, patch_size=patch_size, representation_size=representation_size, activation=activation,
        layer_norm_epsilon=layer_norm_epsilon, dropout_rate=dropout_rate,
        attention_dropout_rate=attention_dropout_rate, drop_path_rate=drop_path_rate,
        include_preprocessing=include_preprocessing, labels=labels, class_token=class_token,
        norm_after_pooling=norm_after_pooling, dtype=dtype,
    )


def BiT_R50x1(
    include_top: bool = True, weights: str | None = None, input_tensor=None, input_shape: tuple | None = None,
    pooling: str | None = "gap", classes: int = 1000, classifier_activation: str | None = "softmax",
    name: str | None = None, *, include_preprocessing: bool = False, labels=None, dtype=None,
) -> keras.Model:
    """Build ResNet50x1: 25,549,352 parameters with 1000 classes.

    It has stages of 3, 4, 6, 3 units, 1 times as wide.

    Args:
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
    return build(
        variants.R50x1, include_top, weights, input_tensor, input_shape, pooling, classes, classifier_activation, name,
        include_preprocessing=include_preprocessing, labels=labels, dtype=dtype,
    )


def BiT_R50x2(
    include_top: bool = True, weights: str | None = None, input_tensor=None, input_shape: tuple | None = None,
    pooling: str | None = "gap", classes: int = 1000, classifier_activation: str | None = "softmax",
    name: str | None = None, *, include_preprocessing: bool = False, labels=None, dtype=None,
) -> keras.Model:
    """Build ResNet50x2: 97,988,712 parameters with 1000 classes.

    It has stages of 3, 4, 6, 3 units, 2 times as wide.

    Args:
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
    return build(
        variants.R50x2, include_top, weights, input_tensor, input_shape, pooling, classes, classifier_activation, name,
        include_preprocessing=include_preprocessing, labels=labels, dtype=dtype,
    )


def BiT_R50x3(
    include_top: bool = True, weights: str | None = None, input_tensor=None, input_shape: tuple | None = None,
    pooling: str | None = "gap", classes: int = 1000, classifier_activation: str | None = "softmax",
    name: str | None = None, *, include_preprocessing: bool = False, labels=None, dtype=None,
) -> keras.Model:
    """Build ResNet50x3: 217,319,080 parameters with 1000 classes.

    It has stages of 3, 4, 6, 3 units, 3 times as wide.

    Args:
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
    return build(
        variants.R50x3, include_top, weights, input_tensor, input_shape, pooling, classes, classifier_activation, name,
        include_preprocessing=include_preprocessing, labels=labels, dtype=dtype,
    )


def BiT_R101x1(
    include_top: bool = True, weights: str | None = None, input_tensor=None, input_shape: tuple | None = None,
    pooling: str | None = "gap", classes: int = 1000, classifier_activation: str | None = "softmax",
    name: str | None = None, *, include_preprocessing: bool = False, labels=None, dtype=None,
) -> keras.Model:
    """Build ResNet101x1: 44,541,480 parameters with 1000 classes.

    It has stages of 3, 4, 23, 3 units, 1 times as wide.

    Args:
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
    return build(
        variants.R101x1, include_top, weights, input_tensor, input_shape, pooling, classes, classifier_activation,
        name, include_preprocessing=include_preprocessing, labels=labels, dtype=dtype,
    )


def BiT_R101x3(
    include_top: bool = True, weights: str | None = None, input_tensor=None, input_shape: tuple | None = None,
    pooling: str | None = "gap", classes: int = 1000, classifier_activation: str | None = "softmax",
    name: str | None = None, *, include_preprocessing: bool = False, labels=None, dtype=None,
) -> keras.Model:
    """Build ResNet101x3: 387,934,888 parameters with 1000 classes.

    It has stages of 3, 4, 23, 3 units, 3 times as wide.

    Args:
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
    return build(
        variants.R101x3, include_top, weights, input_tensor, input_shape, pooling, classes, classifier_activation,
        name, include_preprocessing=include_preprocessing, labels=labels, dtype=dtype,
    )


def BiT_R152x1(
    include_top: bool = True, weights: str | None = None, input_tensor=None, input_shape: tuple | None = None,
    pooling: str | None = "gap", classes: int = 1000, classifier_activation: str | None = "softmax",
    name: str | None = None, *, include_preprocessing: bool = False, labels=None, dtype=None,
) -> keras.Model:
    """Build ResNet152x1: 60,185,128 parameters with 1000 classes.

    It has stages of 3, 8, 36, 3 units, 1 times as wide.

    Args:
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
    return build(
        variants.R152x1, include_top, weights, input_tensor, input_shape, pooling, classes, classifier_activation,
        name, include_preprocessing=include_preprocessing, labels=labels, dtype=dtype,
    )


def BiT_R152x2(
    include_top: bool = True, weights: str | None = None, input_tensor=None, input_shape: tuple | None = None,
    pooling: str | None = "gap", classes: int = 1000, classifier_activation: str | None = "softmax",
    name: str | None = None, *, include_preprocessing: bool = False, labels=None, dtype=None,
) -> keras.Model:
    """Build ResNet152x2: 236,335,208 parameters with 1000 classes.

    It has stages of 3, 8, 36, 3 units, 2 times as wide.

    Args:
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
    return build(
        variants.R152x2, include_top, weights, input_tensor, input_shape, pooling, classes, classifier_activation,
        name, include_preprocessing=include_preprocessing, labels=labels, dtype=dtype,
    )


def BiT_R152x4(
    include_top: bool = True, weights: str | None = None, input_tensor=None, input_shape: tuple | None = None,
    pooling: str | None = "gap", classes: int = 1000, classifier_activation: str | None = "softmax",
    name: str | None = None, *, include_preprocessing: bool = False, labels=None, dtype=None,
) -> keras.Model:
    """Build ResNet152x4: 936,533,224 parameters with 1000 classes.

    It has stages of 3, 8, 36, 3 units, 4 times as wide.

    Args:
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
    return build(
        variants.R152x4, include_top, weights, input_tensor, input_shape, pooling, classes, classifier_activation,
        name, include_preprocessing=include_preprocessing, labels=labels, dtype=dtype,
    )


def BiT_R200x3(
    include_top: bool = True, weights: str | None = None, input_tensor=None, input_shape: tuple | None = None,
    pooling: str | None = "gap", classes: int = 1000, classifier_activation: str | None = "softmax",
    name: str | None = None, *, include_preprocessing: bool = False, labels=None, dtype=None,
) -> keras.Model:
    """Build ResNet200x3: 568,633,000 parameters with 1000 classes.

    It has stages of 3, 24, 36, 3 units, 3 times as wide.

    Args:
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
    return build(
        variants.R200x3, include_top, weights, input_tensor, input_shape, pooling, classes, classifier_activation,
        name, include_preprocessing=include_preprocessing, labels=labels, dtype=dtype,
    )


def AxialResNet_R50x1(
    include_top: bool = True, weights: str | None = None, input_tensor=None, input_shape: tuple | None = None,
    pooling: str | None = "gap", classes: int = 1000, classifier_activation: str | None = "softmax",
    name: str | None = None, *, include_preprocessing: bool = False, labels=None, dtype=None,
) -> keras.Model:
    """Build AxialResNet50: 24,586,920 parameters with 1000 classes.

    It has stages of 3, 4, 6, 3 axial units, 1 times as wide.

    Args:
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
    return build(
        variants.AXIAL_R50, include_top, weights, input_tensor, input_shape, pooling, classes, classifier_activation,
        name, include_preprocessing=include_preprocessing, labels=labels, dtype=dtype,
    )
