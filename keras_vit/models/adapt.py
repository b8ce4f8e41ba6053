"""Adapt a model by few trained variables, and merge them into its weights."""

import fnmatch
from collections.abc import Callable, Sequence

import keras

from keras_vit.composed import flattened, weight_paths
from keras_vit.layers import EncoderBlock, Prompts
from keras_vit.layers.dense import AdaptableDense
from keras_vit.models.adapt_settings import Adapt
from keras_vit.models.token_layout import token_layout
from keras_vit.private import layers_of
from keras_vit.weights.adapters import adapted, readers

HEAD = ("head", "pre_logits")  # the layers that are trained with every kind
_ON_ANY = ("bitfit", "probe")  # kinds that add no variables
# The last part of the path of a trained variable.
_TRAINED = {
    "lora": ("lora_kernel_a", "lora_kernel_b"),
    "ssf": ("output_scale", "bias", "query_bias", "value_bias", "gamma", "beta"),
    "bitfit": ("bias", "query_bias", "value_bias", "beta"),
}


def merged_if_adapted(model: keras.Model) -> keras.Model:
    """Return `merge_adapters` of a model, or the model itself without adapters and factors, or if it is quantized."""
    is_quantized = any(layer.quantization_mode for layer in layers_of(model))
    return merge_adapters(model) if adapted(model) and not is_quantized else model


def adapt_model(model: keras.Model, settings: Adapt, frozen: tuple[str, ...] = ()) -> keras.Model:
    """Return the model with the new variables of a kind, which do not change its output at first.

    Prompts do change the output. LoRA's and SSF's variables are added to the layers of `model` itself; with `adapter`
    and `vpt` the returned model is a copy.

    Args:
        model: a model of this package.
        settings: the kind, its rank and its places.
        frozen: shell patterns of the names of blocks that are left as they are.

    Raises:
        ValueError: the model has no place for the kind.
    """
    if kinds := adapted_kinds(model):
        advice = "load the plain model" if {"vpt", "adapter"} & {*kinds} else "call keras_vit.merge_adapters first"
        raise ValueError(f"model expected none that is adapted already, received {model.name!r} with {kinds[0]}: "
                         f"{advice}.")  # fmt: skip
    blocks = [layer for layer in model.layers if isinstance(layer, EncoderBlock)]
    if not blocks and settings.kind not in _ON_ANY:
        raise ValueError(f"kind expected 'bitfit' or 'probe' with {model.name}, which has no plain Transformer blocks, "
                         f"received {settings.kind!r}.")  # fmt: skip
    blocks = [block for block in blocks if not any(fnmatch.fnmatch(block.name, pattern) for pattern in frozen)]
    if settings.kind not in _ON_ANY and not blocks:
        raise ValueError(f"freeze expected patterns that leave a block for {settings.kind!r}, received {frozen}.")
    if settings.kind == "lora":
        for dense, parts in (place for block in blocks for place in _lora_places(block, settings.where)):
            dense.enable_lora(settings.size, settings.alpha, parts=parts)
    elif settings.kind == "ssf":
        for dense in (part for block in blocks for part in layers_of(block) if isinstance(part, AdaptableDense)):
            dense.enable_scale()
    elif settings.kind == "adapter":
        return _with_bottlenecks(model, {block.name for block in blocks}, settings.size)
    elif settings.kind == "vpt":
        return _with_prompts(model, blocks, settings.size)
    return model


def adapted_kinds(model: keras.Model) -> list[str]:
    """Return the kinds of the adapters that a model has layers or variables of."""
    layers = layers_of(model)
    shown = {
        "vpt": any(isinstance(layer, Prompts) for layer in layers),
        "adapter": any(getattr(layer, "adapter_dim", 0) for layer in layers),
        "ssf": any(getattr(layer, "scaled", False) for layer in layers),
        "lora": any(getattr(layer, "lora_enabled", False) for layer in layers),
    }
    return [kind for kind, is_shown in shown.items() if is_shown]


def adapted_variables(model: keras.Model, kind: str) -> list:
    """Return the variables that a kind trains: those that `adapt_model` added or selects, and the classifier."""

    def is_trained(variable) -> bool:
        first, *_, name = variable.path.split("/")
        if kind in _TRAINED and name in _TRAINED[kind]:
            return True
        if kind == "adapter" and "/adapter_" in variable.path:
            return True
        return first in HEAD or (kind == "vpt" and first.startswith("prompts_"))

    return [variable for variable in model.trainable_variables if is_trained(variable)]


def freeze_all_but(model: keras.Model, variables: list) -> None:
    """Freeze all variables of a model except the given ones, for `Model.fit`."""
    chosen = {id(variable) for variable in variables}
    for layer in layers_of(model)[1:]:
        if not any(id(variable) in chosen for variable in layer.variables):
            layer.trainable = False
    for variable in model.trainable_variables:
        variable.trainable = id(variable) in chosen


def merge_adapters(model: keras.Model) -> keras.Model:
    """Return a copy of a model whose LoRA adapters and SSF factors are merged into its kernels.

    The copy has the layers and weights of a plain model, all trainable.

    Args:
        model: a model of this package, after `enable_lora`, `load_adapter` or a training run with `Adapt`.

    Raises:
        ValueError: the model has neither LoRA adapters nor SSF factors.
    """
    model = flattened(model)
    if not adapted(model):
        raise ValueError(f"model expected LoRA adapters or SSF factors, received {model.name!r} without; bottleneck "
                         "adapters and prompts stay layers of the model.")  # fmt: skip
    plain = keras.models.clone_model(model, clone_function=_plain_layer)
    arrays = readers(model)
    for path, variable in weight_paths(plain).items():
        variable.assign(arrays[path]())
    return plain


def _plain_layer(layer):
    return type(layer).from_config(_without_adapters(layer.get_config()))


def _without_adapters(config):
    """Return the config of a layer without adapters, in its inner layers, too."""
    if not isinstance(config, dict):
        return config
    dropped = ("lora_rank", "lora_alpha", "lora_parts", "scaled", "trainable")
    return {name: _without_adapters(value) for name, value in config.items() if name not in dropped}


def _lora_places(block: EncoderBlock, where: tuple[str, ...]):
    """Yield (dense layer, which of the matrices in its kernel are chosen)."""
    attention = block.attention
    parts = tuple(name in where for name in ("query", "key", "value"))
    if any(parts):
        yield attention.qkv, parts
    if "out" in where:
        yield attention.out, (True,)
    if "mlp" in where:
        yield block.mlp.fc1, (True,)
        yield block.mlp.fc2, (True,)


def _with_bottlenecks(model, names: set[str], width: int):
    """Return a copy of the model with a bottleneck parallel to the MLP of the named blocks."""

    def change(layer, config):
        if layer.name not in names:
            return config
        if layer.mlp_kernel_size:
            raise ValueError(f"kind expected 'lora' or 'vpt' with {layer.name}, whose MLP has a convolution, received "
                             "'adapter'.")  # fmt: skip
        options = layer.mlp_options or {"gated": False}
        return {**config, "mlp_options": {**options, "adapter_dim": width}}

    return rebuilt(model, change)


def _with_prompts(model, blocks, count: int):
    """Return a copy of the model with prompts in the input of the blocks."""
    first = blocks[0]
    names = [layer.name for layer in model.layers]
    after = names[names.index(first.name) :]
    if first.name != next(layer.name for layer in model.layers if isinstance(layer, EncoderBlock)):
        raise ValueError(f"freeze expected no pattern of the first block with 'vpt', received one of {names[0]!r}.")
    of_grid = {"relative_bias", "window"}
    relative = any(block.relative_positions or of_grid & (block.attention_options or {}).keys() for block in blocks)
    if relative or first.mlp_kernel_size or any(name.startswith(("position_embedding", "neck_")) for name in after):
        raise ValueError(f"kind expected 'lora' with {model.name}, whose positions or convolutions inside the blocks "
                         "have no place for prompts, received 'vpt'.")  # fmt: skip
    prefix = token_layout(model).prefix_tokens
    options = {"prefix_tokens": prefix, "dtype": first.dtype_policy}
    prompts = {
        block.name: Prompts(count, replace=block is not first, name=block.name.replace("encoder_block", "prompts"),
                            **options)
        for block in blocks
    }  # fmt: skip

    def change(layer, config):
        if layer.name not in after:
            return config
        config = dict(config)
        for part in (config, config.get("attention_options") or {}):
            if "prefix_tokens" in part:
                part["prefix_tokens"] += count
        return config

    def before(layer, tokens):
        return prompts[layer.name](tokens) if layer.name in prompts else tokens

    return rebuilt(model, change, before)


def rebuilt(
    model: keras.Model, change: Callable, before: Callable = lambda layer, tokens: tokens, left_out: Sequence = ()
) -> keras.Model:
    """Return a copy of a model with other layers.

    Args:
        model: the model.
        change: a function of a layer and its config that returns the config of its copy.
        before: a function of a layer and its first input that returns the input of its copy.
        left_out: layers with one input that the copy does not have.
    """
    names = {layer.name for layer in left_out}

    def call(layer, *args, **options):
        return args[0] if layer.name in names else layer(before(layer, args[0]), *args[1:], **options)

    copy = keras.models.clone_model(
        model,
        clone_function=lambda layer: type(layer).from_config(change(layer, layer.get_config())),
        call_function=call,
    )
    values = _by_path(model)
    for path, variable in _by_path(copy).items():
        value = values.get(path)
        if value is not None and value.shape == variable.shape:
            variable.assign(value)
    return copy


def _by_path(model) -> dict:
    """Return the variables of a model by path, a user's classifier by the path of ours, too."""
    return {variable.path: variable for variable in model.variables} | weight_paths(model)
