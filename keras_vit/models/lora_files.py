"""Convert LoRA adapters to the arrays and the config of peft, and back.

D width, F output width, r rank. Shapes of a file: `lora_A.weight` (r, D) and `lora_B.weight` (F, r).
"""

from collections import defaultdict

import keras
import numpy as np

from keras_vit.layers import EncoderBlock
from keras_vit.layers.dense import AdaptableDense
from keras_vit.private import layers_of
from keras_vit.weights.adapter_names import CLASSIFIER, PREFIX, find_dense, module_names, target_modules
from keras_vit.weights.adapters import adapted

_UNUSUAL = {"use_dora": False, "bias": "none", "alpha_pattern": {}}  # options of peft with the only supported value


def lora_arrays(model: keras.Model, transformers: int) -> dict[str, np.ndarray]:
    """Return the arrays of a model's LoRA adapters and of its classifier, by peft's names.

    Args:
        model: a flat model.
        transformers: major version of transformers, whose names of layers are written.

    Raises:
        ValueError: a layer outside of the encoder blocks has adapters.
    """
    arrays = {}
    for layer in adapted(model):
        names = module_names(_path_of(layer, model), transformers)
        if not names:
            raise ValueError(f"model expected LoRA adapters in its encoder blocks only, received some in {layer.path}.")
        joint = len(layer.lora_parts or (True,)) == 1  # one first matrix for all of the kernel
        parts = (True,) * len(names) if joint else layer.lora_parts
        a, b = (np.asarray(x, "float32") for x in (layer.lora_kernel_a, layer.lora_kernel_b))
        firsts = [a] * len(names) if joint else np.split(a, sum(parts), axis=1)
        chosen = [name for name, is_adapted in zip(names, parts, strict=True) if is_adapted]
        for name, first, second in zip(chosen, firsts, np.split(b, len(chosen), axis=1), strict=True):
            arrays |= {f"{PREFIX}{name}.lora_A.weight": first.T, f"{PREFIX}{name}.lora_B.weight": second.T}
    for layer in (layer for layer in model.layers if layer.name == "head"):
        arrays[f"{PREFIX}{CLASSIFIER}.weight"] = np.asarray(layer.kernel, "float32").T
        arrays[f"{PREFIX}{CLASSIFIER}.bias"] = np.asarray(layer.bias, "float32")
    return arrays


def lora_config(model: keras.Model, arrays: dict[str, np.ndarray], base: str | None) -> dict:
    """Return the content of peft's `adapter_config.json`.

    Raises:
        ValueError: the adapters differ in rank or alpha.
    """
    settings = {(layer.lora_rank, layer.lora_alpha) for layer in adapted(model)}
    if len(settings) != 1:
        raise ValueError(f"model expected LoRA adapters of one rank and alpha, received {sorted(settings)}.")
    ((rank, alpha),) = settings
    modules = [name.removeprefix(PREFIX).rpartition(".lora_")[0] for name in arrays if ".lora_" in name]
    blocks = sorted({int(_path_of(layer, model).split("/")[0].rpartition("_")[2]) for layer in adapted(model)})
    depth = sum(isinstance(layer, EncoderBlock) for layer in model.layers)
    return {
        "peft_type": "LORA",
        "task_type": None,
        "base_model_name_or_path": base,
        "r": rank,
        "lora_alpha": int(alpha) if float(alpha).is_integer() else alpha,
        "lora_dropout": 0.0,
        "bias": "none",
        "fan_in_fan_out": False,
        "inference_mode": True,
        **target_modules(modules),
        "layers_to_transform": blocks if len(blocks) < depth else None,
        "modules_to_save": [CLASSIFIER] if len(arrays) > len(modules) else None,
    }


def fill_lora(model: keras.Model, arrays: dict[str, np.ndarray], config: dict) -> None:
    """Add the LoRA adapters of a file to a model.

    Args:
        model: a model without adapters.
        arrays: the arrays by name, without peft's prefix and without the classifier.
        config: content of `adapter_config.json`.

    Raises:
        ValueError: an array or an option does not fit the model.
    """
    for option, usual in _UNUSUAL.items():
        if config.get(option, usual) not in (usual, None):
            raise ValueError(f"{option} expected {usual!r} in the adapter's config, received {config[option]!r}.")
    layers = {_path_of(layer, model): layer for layer in layers_of(model) if isinstance(layer, AdaptableDense)}
    pairs: dict[str, dict] = defaultdict(dict)  # path of a dense layer -> index of a matrix -> its pair
    for name in [name for name in arrays if name.endswith(".lora_A.weight")]:
        module = name.removesuffix(".lora_A.weight")
        found, second = find_dense(module), f"{module}.lora_B.weight"
        if found is None or found[0] not in layers or second not in arrays:
            raise ValueError(f"adapter expected LoRA adapters of dense layers of {model.name!r}, received {name!r}.")
        pairs[found[0]][found[1]] = arrays.pop(name).T, arrays.pop(second).T
    if arrays or not pairs:
        raise ValueError(
            f"adapter expected pairs of lora_A and lora_B, received {', '.join(sorted(arrays)) or 'none'}."
        )
    for path, of_parts in pairs.items():
        _fill(layers[path], of_parts, config)


def _fill(layer: AdaptableDense, pairs: dict, config: dict) -> None:
    """Add adapters to a dense layer: index of a matrix in its kernel -> (A, B), or None -> (A, B)."""
    parts = (True,) if None in pairs else tuple(i in pairs for i in range(3))
    ordered = [pairs[key] for key in sorted(pairs, key=str)]
    a, b = (np.concatenate(side, axis=1) for side in zip(*ordered, strict=True))
    rank = ordered[0][0].shape[1]
    alpha = config.get("lora_alpha", rank) * (rank**0.5 if config.get("use_rslora") else 1.0)
    layer.enable_lora(rank, alpha, parts=parts)
    for variable, array in ((layer.lora_kernel_a, a), (layer.lora_kernel_b, b)):
        if tuple(variable.shape) != array.shape:
            raise ValueError(
                f"adapter expected {variable.path} of shape {tuple(variable.shape)}, received {array.shape}."
            )
        variable.assign(array)


def _path_of(layer, model: keras.Model) -> str:
    return layer.path.removeprefix(f"{model.name}/")
