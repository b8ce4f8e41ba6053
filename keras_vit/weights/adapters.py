"""Read the kernels of dense layers with LoRA adapters or SSF factors, and refuse quantized layers."""

from collections.abc import Callable
from functools import partial

import numpy as np

from keras_vit.private import layers_of, stored_kernel

ADAPTERS = ("lora_kernel_a", "lora_kernel_b")


def readers(model) -> dict[str, Callable[[], np.ndarray]]:
    """Return a function per weight of a flat model, by path. It returns the weight in float32, with adapters merged."""
    from keras_vit.composed import weight_paths  # imports Keras

    merged = {id(stored_kernel(layer)): partial(_merged, layer) for layer in adapted(model)}
    return {
        path: merged.get(id(variable), partial(np.asarray, variable, dtype="float32"))
        for path, variable in weight_paths(model).items()
    }


def adapted(model) -> list:
    """Return the dense layers with LoRA adapters or SSF factors in a model."""
    return [
        layer for layer in layers_of(model) if any(getattr(layer, name, False) for name in ("lora_enabled", "scaled"))
    ]


def merge_note(model) -> str | None:
    """Return a sentence about the adapters that `readers` merges; None for a model without adapters."""
    layers = adapted(model)
    if not layers:
        return None
    names = "SSF's factors" if getattr(layers[0], "scaled", False) else "LoRA's adapters"
    return f"{names} of {len(layers)} dense layers are merged into their kernels"


def require_float(model, argument: str, advice: str) -> None:
    """Raise a ValueError if a model has quantized layers.

    Args:
        model: the model.
        argument: name of the checked argument in the error message.
        advice: what to do, for the error message.
    """
    modes = {layer.path: layer.quantization_mode for layer in layers_of(model) if layer.quantization_mode}
    if modes:
        path, mode = next(iter(modes.items()))
        raise ValueError(
            f"{argument} expected float weights, received {len(modes)} quantized layers ({path} in {mode}, ...): "
            f"{advice}."
        )


def require_plain(model) -> None:
    """Raise a ValueError if a model has quantized layers or LoRA adapters, so that weights cannot be loaded."""
    require_float(model, "model", "load the weights first, then quantize the model")
    if layers := adapted(model):
        raise ValueError(
            f"model expected dense layers without LoRA's adapters, received {len(layers)} with them ({layers[0].path}, "
            "...): load the weights first, then call enable_lora; model.load_weights reads adapters."
        )


def _merged(dense) -> np.ndarray:
    """Return the kernel of a dense layer with its adapters and factors, in float32."""
    from keras import ops

    if hasattr(dense, "merged_kernel"):
        return ops.convert_to_numpy(dense.merged_kernel())
    a, b = (np.asarray(getattr(dense, name), "float32") for name in ADAPTERS)
    return np.asarray(stored_kernel(dense), "float32") + dense.lora_alpha / dense.lora_rank * (a @ b)
