"""Determine the architecture of a model from its layers."""

from collections import Counter

from keras_vit.private import calls_in
from keras_vit.weights.architecture import Architecture, conv_stem_of, resnet_options
from keras_vit.weights.names import PREFIX
from keras_vit.weights.names_options import grouped_queries


def architecture_of_model(model) -> Architecture:
    """Return the architecture of a model of this package by its layers.

    Raises:
        ValueError: the model does not have the nodes of this package.
    """
    from keras_vit.composed import flattened

    model = flattened(model)
    if [len(tensor.shape) for tensor in model.inputs] != [4]:
        names = [tensor.name for tensor in model.inputs]
        raise ValueError(f"model expected one input of images, received {model.name!r} with inputs {names}.")
    layers = {layer.name: layer for layer in model.layers}
    head = getattr(layers.get("head"), "units", None)
    labels = getattr(layers.get("head"), "labels", None)
    height, width, channels = model.input_shape[1:]
    image_size = (height, width) if height and width else None
    common = {"classes": head, "labels": labels, "channels": channels, "image_size": image_size}
    units = [layer for name, layer in layers.items() if "_unit" in name]
    counts = Counter(layer.name.split("_unit")[0] for layer in units)
    if "root_norm" in layers:
        ends = [layer for layer in units if layer.name.endswith("_unit01")]
        widths = tuple(layer.filters for layer in (layers["root"], *ends, layers["last"]))
        return Architecture("efficientnet", units=tuple(counts.values()), options={"widths": widths}, **common)
    root = layers.get("root") or layers.get("stem_root")
    stem = {}
    if root is not None:
        stem = {"units": tuple(counts.values()), "width_factor": root.filters / 64}
        stem |= {"weight_epsilon": root.epsilon, "weight_epsilon_on": root.epsilon_on}
    if "root" in layers:
        options = resnet_options({weight.path for weight in model.weights} | _unit_paths(units))
        options["standardized"] = root.epsilon_on != "none"
        if not options["standardized"]:
            stem["weight_epsilon_on"] = "variance"  # as in any BiT; plain kernels have no epsilon
        if "root3" in layers:
            stem["width_factor"] = layers["root3"].filters / 64
        return Architecture("bit", axial=any(unit.axial for unit in units), options=options, **common, **stem)
    if "embedding" not in layers or "position_embedding" not in layers:
        raise ValueError(f"model expected a model of keras_vit, received {model.name!r}.")
    if root is not None:
        stem["group_norm_epsilon"] = layers["stem_root_norm"].epsilon
    return _vit(model, layers, {**common, **stem})


def _unit_paths(units: list) -> set[str]:
    """Return the paths of the last convolutions of a ResNet's units, which basic units do not have."""
    return {f"{unit.name}/conv3/kernel" for unit in units if unit.expansion > 1}


def _vit(model, layers: dict, known: dict) -> Architecture:
    """Return the architecture of a ViT by its layers; `known` are the fields of its stem, images and classes."""
    blocks = [layer for name, layer in layers.items() if name.startswith("encoder_block_")]
    config = blocks[0].get_config() if blocks else {"num_heads": 1, "mlp_dim": 1}
    names = ("num_heads", "mlp_dim", "activation", "layer_norm_epsilon")
    block = {name: config[name] for name in names if name in config}
    positions = layers["position_embedding"]
    prefix = {name: layers[name].count for name in (path.split("/")[0] for path in PREFIX) if name in layers}
    relative = any(getattr(layer, "relative_positions", False) for layer in blocks)
    repeated = "layers" if "position_embedding_01" in layers else "shared"
    # Only calls in this model: a submodel adds calls to the layer.
    calls = [call for call in calls_in(model) if call.operation is positions]
    everywhere = "position_embedding_01" in layers or len(calls) > 1
    return Architecture(
        "vit",
        width=layers["embedding"].width,
        depth=len(blocks),
        patch_size=layers["embedding"].patch_size,
        tokens=getattr(positions, "stored_prefix", positions.prefix_tokens) + positions.grid[0] * positions.grid[1],
        grid=positions.grid,
        positions="relative" if relative else _POSITIONS[type(positions).__name__],
        positions_at=repeated if everywhere else "stem",
        axial=bool(blocks) and type(blocks[0]).__name__ == "AxialBlock",
        representation_size=getattr(layers.get("pre_logits"), "units", None),
        class_token="class_token" in prefix,
        prefix_tokens=sum(prefix.values()),
        pooling=_POOLING.get(type(layers.get("pooling")).__name__),
        norm_after_pooling="pooled_norm" in layers,
        options={
            **config,
            **_block_options(blocks, config),
            **({"relative_bias_dim": layers["shared_bias"].hidden} if "shared_bias" in layers else {}),
            **prefix,
            **conv_stem_of({weight.path: tuple(weight.shape) for weight in model.weights}),
            "prefix_positions": getattr(positions, "prefix_positions", True),
            "pre_norm": "pre_norm" in layers,
            "patch_norm": "patch_norm" in layers,
            "final_norm": any(name in layers for name in ("encoder_norm", "pooled_norm", "neck_norm2")),
            "pool_prefix": not getattr(layers.get("pooling"), "num_heads", 0) or not layers["pooling"].prefix_tokens,
            "patch_bias": layers["embedding"].use_bias,
            "neck": getattr(layers.get("neck_conv1"), "filters", 0) if "neck_norm2" in layers else None,
            **_pooling_options(layers.get("pooling"), block),
        },
        **known,
        **block,
    )


def _pooling_options(pooling, block: dict) -> dict:
    """Return the sizes of attention pooling that are not those of the blocks, as fields of the row."""
    sizes = {"pooling_heads": "num_heads", "pooling_mlp_dim": "mlp_dim"}
    found = {field: (getattr(pooling, name, None), block[name]) for field, name in sizes.items()}
    return {field: own for field, (own, usual) in found.items() if own not in (None, usual)}


def _block_options(blocks: list, config: dict) -> dict:
    """Return the fields of a row that blocks have in their class and their options of attention and MLP."""
    attention, mlp = (config.get(name) or {} for name in ("attention_options", "mlp_options"))
    kinds = {type(block).__name__ for block in blocks[:1]}
    groups = [(getattr(block, "attention_options", None) or {}).get("heads_per_key", 1) for block in blocks]
    dense_bias = mlp.get("use_bias", True)
    windows = [(getattr(block, "attention_options", None) or {}).get("window", 0) for block in blocks]
    return {
        **{name: value for name, value in attention.items() if name != "heads_per_key"},
        **grouped_queries(groups),
        "window": max(windows, default=0),
        "global_blocks": tuple(i for i, side in enumerate(windows) if not side) if any(windows) else (),
        "block": next((_BLOCKS[kind] for kind in kinds if kind in _BLOCKS), "pre_norm"),
        "qk_norm": attention.get("qk_norm") is not None,
        "differential_attention": attention.get("differential") is not None,
        "attention_out_bias": attention.get("out_bias", True) or not dense_bias,
        "attention_inner_norm": attention.get("inner_norm") is not None,
        "gated_mlp": mlp.get("gated", False),
        "mlp_inner_norm": mlp.get("inner_norm") is not None,
        "dense_bias": dense_bias,
    }


_BLOCKS = {"PostNormBlock": "post_norm", "ParallelBlock": "parallel", "AttentionScaleBlock": "attention_scale"}
_POSITIONS = {
    "PositionEmbedding": "learned", "SinCosPositions": "sincos2d", "PositionEmbedding2D": "2d", "NoPositions": "none",
    "FactorizedPositions": "factorized", "MAEPositions": "sincos2d_mae",
}  # fmt: skip
_POOLING = {
    "TokenPooling": "token", "DistillationPooling": "token", "MeanPooling": "gap", "AttentionPooling": "map",
}  # fmt: skip
