"""Choose the implementation of each layer. This is the only file that makes overrides for `layers/override.py`.

A layer without an override computes its reference implementation. Overrides are made for layers of this package's
classes only, because a subclass may compute anything.
"""

from collections.abc import Iterable
from functools import partial

import keras

from keras_vit.layers import GroupNorm, LayerNorm, MLPBlock, MultiHeadSelfAttention, StdConv
from keras_vit.layers.attention_options import AttentionWithOptions
from keras_vit.layers.base import Biased, is_plain_dense
from keras_vit.layers.override import Override, use_backend_operations
from keras_vit.private import layers_of

HALF = ("bfloat16", "float16")
WIDE = 512  # from this width on the activations of attention and GELU are recomputed in the backward pass


def backend_operations(backend: str) -> dict:
    """Return the operations that a backend computes by functions of its own, outside of any `with`, too.

    JAX and torch have an operation for attention. JAX has formulas for 16 bits. TensorFlow has none.

    Returns:
        Name of the operation -> (layer -> the function, or None).
    """
    if backend == "tensorflow":
        return {}
    from keras_vit.kernels.flash import fused_attention

    attend = {"attend": lambda layer: fused_attention}
    return attend if backend != "jax" else {**attend, "norm": _norm_in_16_bits, "activation": _activation_in_16_bits}


def _norm_in_16_bits(layer):
    from keras_vit.kernels.xla_16bit import layer_norm

    return layer_norm if isinstance(layer, LayerNorm) and layer.compute_dtype in HALF else None


def _activation_in_16_bits(layer):
    from keras_vit.kernels.xla_16bit import gelu, gelu_tanh

    return {"gelu_tanh": gelu_tanh, "gelu": gelu}.get(layer.activation) if layer.compute_dtype in HALF else None


def choose_backend_operations() -> None:
    """Let all layers use the operations of Keras's backend."""
    use_backend_operations(backend_operations(keras.backend.backend()))


def training_overrides(layers: Iterable[keras.layers.Layer]) -> list[Override]:
    """Return the overrides of layers that TensorFlow trains on a CPU; none where XLA compiles the gradient.

    Args:
        layers: all trained layers, including nested ones.
    """
    from keras_vit.kernels import by_xla

    if by_xla():
        return []
    operations = [operation for layer in layers for operation in _training_operations(layer)]
    return [Override(layer, name, function, training=True) for layer, name, function in operations]


def _training_operations(layer):
    """Yield (layer, name of the operation, function) for one layer."""
    from keras_vit.kernels import norms, training

    if isinstance(layer, MLPBlock):
        yield from _mlp_operations(layer)
    elif type(layer) is MultiHeadSelfAttention:
        yield from _attention_operations(layer)
    elif type(layer) is AttentionWithOptions:
        yield from _attention_with_options_operations(layer)
    elif isinstance(layer, LayerNorm):
        yield layer, "norm", norms.layer_norm
    elif isinstance(layer, GroupNorm):
        yield layer, "norm", norms.group_norm
    elif isinstance(layer, StdConv):
        if layer.epsilon_on == "variance":
            yield layer, "standardized_kernel", partial(_standardized, layer)
        if layer.kernel_size == (1, 1) and layer.strides == 1:
            yield layer, "convolve", training.pointwise_convolution
    elif isinstance(layer, Biased):
        yield layer, "add_bias", training.add_bias


def _mlp_operations(layer: MLPBlock):
    from keras_vit.kernels.activations import GELU, GELU_TANH, QUICK_GELU
    from keras_vit.kernels.training import mlp_forward

    activation = {"gelu_tanh": GELU_TANH, "gelu": GELU, "quick_gelu": QUICK_GELU}.get(layer.activation)
    if activation is None:
        return
    yield layer, "activation", activation
    if is_plain_dense(layer.fc1) and is_plain_dense(layer.fc2) and not (layer.kernel_size or layer.dropout_rate):
        matmul = partial(activation.matmul, recompute=layer.fc2.units >= WIDE)
        yield layer, "forward", partial(mlp_forward, layer, matmul)


def _attention_operations(layer: MultiHeadSelfAttention):
    from keras_vit.kernels.training import attention_forward
    from keras_vit.kernels.training_attention import attention_and_projection

    plain = is_plain_dense(layer.qkv) and is_plain_dense(layer.out)
    if plain and not (layer.attention_dropout_rate or layer.relative_positions):
        attend = attention_and_projection(recompute=layer.out.units >= WIDE)
        yield layer, "forward", partial(attention_forward, layer, attend)


def _attention_with_options_operations(layer: AttentionWithOptions):
    """Yield the rotation, and a forward pass if the options change the queries, keys and values only."""
    from keras_vit.kernels.training import attention_forward_with_options
    from keras_vit.kernels.training_attention import attention_and_projection

    yield from _rotation(layer)
    others = layer.adds_to_logits or layer.differential is not None or layer.inner_norm or layer.window
    if is_plain_dense(layer.out) and layer.out_bias and not (others or layer.attention_dropout_rate):
        attend = attention_and_projection(recompute=layer.out.units >= WIDE)
        yield layer, "forward", partial(attention_forward_with_options, layer, attend)


def _rotation(layer: AttentionWithOptions):
    from keras_vit.kernels.rope import ROTATIONS

    if layer.rope and not layer.rope["learned"]:
        yield layer, "rotate", ROTATIONS[layer.rope["pairs"]]


def compiled_overrides(model: keras.Model, frozen: bool) -> list[Override]:
    """Return the overrides of a forward pass that TensorFlow compiles for a CPU.

    Args:
        model: the model.
        frozen: whether the current kernels of `StdConv` are standardised now and become constants.
    """
    from keras_vit.kernels.norms import group_norm, inference_layer_norm

    layers = layers_of(model)
    overrides = [Override(layer, "norm", group_norm) for layer in layers if isinstance(layer, GroupNorm)]
    norms = [layer for layer in layers if isinstance(layer, LayerNorm)]
    overrides += [
        Override(layer, "norm", partial(inference_layer_norm, stored=layer.variable_dtype)) for layer in norms
    ]
    rotary = [layer for layer in layers if type(layer) is AttentionWithOptions]
    overrides += [Override(*operation) for layer in rotary for operation in _rotation(layer)]
    if frozen:
        return overrides + standardized_overrides(
            [(layer, kernel.numpy()) for layer, kernel in standardized_kernels(model)]
        )
    convolutions = [layer for layer in layers if isinstance(layer, StdConv) and layer.epsilon_on == "variance"]
    return overrides + [Override(layer, "standardized_kernel", partial(_standardized, layer)) for layer in convolutions]


def _standardized(layer: StdConv):
    """Return the kernel of a `StdConv` with its epsilon on the variance, standardised by one operation."""
    from keras_vit.kernels.norms import standardized

    return standardized(keras.ops.cast(layer.kernel, "float32"), layer.epsilon)


def standardized_kernels(model: keras.Model) -> list:
    """Return (layer, variable): each `StdConv` and its standardised kernel in the type that the layer computes in.

    Layers that use their kernel as it is are left out.
    """
    layers = [layer for layer in layers_of(model) if isinstance(layer, StdConv) and layer.epsilon_on != "none"]
    in_use = lambda layer: keras.ops.cast(layer.standardized_kernel(), layer.compute_dtype)  # noqa: E731
    return [(layer, keras.Variable(in_use(layer), dtype=layer.compute_dtype, trainable=False)) for layer in layers]


def standardized_overrides(kernels) -> list[Override]:
    """Return the overrides with which convolutions use these `standardized_kernels`."""
    return [Override(layer, "standardized_kernel", lambda kernel=kernel: kernel) for layer, kernel in kernels]


def plain_layer_norms(model: keras.Model) -> list[LayerNorm]:
    """Return each `LayerNorm` of a model; a subclass may compute anything."""
    return [layer for layer in layers_of(model) if type(layer) is LayerNorm]
