"""Dense layers whose kernel is not what their variable says: LoRA's adapters add to it, integers have scales."""

from collections.abc import Callable
from functools import partial

import numpy as np

from keras_vit.private import layers_of, stored_kernel

ADAPTERS = ("lora_kernel_a", "lora_kernel_b")


def readers(model) -> dict[str, Callable[[], np.ndarray]]:
    """Return what reads each weight of a flat model in float32, by its path: kernels with LoRA's adapters merged."""
    from keras_vit.composed import weight_paths  # needs Keras

    merged = {id(stored_kernel(layer)): partial(_merged, layer) for layer in adapted(model)}
    return {
        path: merged.get(id(variable), partial(np.asarray, variable, dtype="float32"))
        for path, variable in weight_paths(model).items()
    }


def adapted(model) -> list:
    """Return the dense layers of a model that have LoRA's adapters."""
    return [layer for layer in layers_of(model) if getattr(layer, "lora_enabled", False)]


def merge_note(model) -> str | None:
    """Return a sentence on the adapters that `readers` merges; None where a model has none."""
    layers = adapted(model)
    if not layers:
        return None
    return f"LoRA's adapters of {len(layers)} dense layers are merged into their kernels"


def require_float(model, argument: str, advice: str) -> None:
    """Raise a ValueError where layers of a model are quantized, whose kernels mean nothing without their scales."""
    modes = {layer.path: layer.quantization_mode for layer in layers_of(model) if layer.quantization_mode}
    if modes:
        path, mode = next(iter(modes.items()))
        raise ValueError(
            f"{argument} expected float weights, received {len(modes)} quantized layers ({path} in {mode}, ...): "
            f"{advice}."
        )


def require_plain(model) -> None:
    """Raise a ValueError where weights cannot be loaded into a model: its layers are quantized or have adapters."""
    require_float(model, "model", "load the weights first, then quantize the model")
    if layers := adapted(model):
        raise ValueError(
            f"model expected dense layers without LoRA's adapters, received {len(layers)} with them ({layers[0].path}, "
            "...): load the weights first, then call enable_lora; model.load_weights reads adapters."
        )


def _merged(dense) -> np.ndarray:
    """Return a kernel with its adapters added, in float32."""
    a, b = (np.asarray(getattr(dense, name), "float32") for name in ADAPTERS)
    return np.asarray(stored_kernel(dense), "float32") + dense.lora_alpha / dense.lora_rank * (a @ b)
