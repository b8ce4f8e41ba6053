"""A dense layer that can be quantized and adapted by LoRA (arXiv 2106.09685) inside the layers of this package."""

import contextlib
import math
from typing import Any

import keras
from keras import ops

from keras_vit.private import stored_kernel

MODES = ("int8", "int4", "float8")
_ADAPTERS = ("lora_kernel_a", "lora_kernel_b")  # names in a file, where Keras has "0", "1", ...
_ALPHA = "lora_alpha"


class AdaptableDense(keras.layers.Dense):
    """Mixin: a dense layer whose subclasses may be quantized, and whose file keeps LoRA's adapters.

    Keras saves the kernel with the adapters merged into it, and loads adapters of zeros. Their gradients are zero, too.
    """

    def __init__(self, *args, quantization_config=None, **kwargs: Any):
        if isinstance(quantization_config, dict):
            quantization_config = keras.saving.deserialize_keras_object(quantization_config)
        super().__init__(*args, quantization_config=quantization_config, **kwargs)

    def changes(self) -> dict:
        """Return the constructor arguments that were changed after the layer was built."""
        changes = {_ALPHA: self.lora_alpha, "lora_rank": self.lora_rank} if self.lora_rank else {}
        if self.quantization_config is not None:
            changes["quantization_config"] = keras.saving.serialize_keras_object(self.quantization_config)
        return changes

    def quantize(self, mode=None, type_check=True, config=None):
        """Quantize the layer as `keras.layers.Dense` is.

        Args:
            mode: `int8`, `int4` or `float8`.
            type_check: whether to refuse subclasses, which may override the forward pass.
            config: a `keras.quantizers.QuantizationConfig`; None for Keras's default of `mode`.

        Raises:
            ValueError: the layers of this package do not support the mode.
        """
        if mode not in MODES:
            raise ValueError(f"mode expected one of {MODES} for {self.name!r}, received {mode!r}.")
        if type_check and not type(self).__module__.startswith(f"{__package__}."):
            raise NotImplementedError(
                f"{type(self).__name__} may override `call`: pass type_check=False to quantize "
                f"{self.name!r} as a dense layer."
            )
        super().quantize(mode, type_check=False, config=config)

    def enable_lora(self, rank, lora_alpha=None, a_initializer="he_uniform", b_initializer="zeros"):
        """Add LoRA's adapters as Keras does. A layer that is built from its config keeps the config's `lora_alpha`."""
        alpha = self.lora_alpha if lora_alpha is None else lora_alpha
        super().enable_lora(rank, alpha, a_initializer, b_initializer)

    def save_own_variables(self, store):
        """Write the stored kernel and the adapters."""
        if not self.lora_enabled:
            super().save_own_variables(store)
            return
        with self._without_adapters():
            super().save_own_variables(store)
        for name in _ADAPTERS:
            store[name] = getattr(self, name)
        store[_ALPHA] = ops.cast(self.lora_alpha, "float32")

    def load_own_variables(self, store):
        """Read what `save_own_variables` or a `keras.layers.Dense` wrote.

        A layer without adapters merges the file's adapters into its kernel. A layer with adapters also reads a file
        without adapters, and its own adapters then add nothing.

        Raises:
            ValueError: the file's adapters do not fit the layer's, or the layer has none and its kernel is quantized.
        """
        arrays = {key: store[key] for key in store.keys()}  # noqa: SIM118 - Keras's stores cannot be iterated over
        theirs = {name: arrays.pop(name) for name in (*_ADAPTERS, _ALPHA) if name in arrays}
        if self.lora_enabled:
            mine = ops.convert_to_numpy(self.lora_kernel_a)
            super().load_own_variables(arrays)  # zeros both adapters
            self.lora_kernel_a.assign(mine)
            if theirs:
                self._take_adapters(theirs)
            return
        super().load_own_variables(arrays)
        if theirs:
            self._merge_adapters(theirs)

    def _take_adapters(self, theirs):
        rank, alpha = theirs[_ADAPTERS[0]].shape[1], float(theirs[_ALPHA])
        if rank != self.lora_rank or not math.isclose(alpha, self.lora_alpha, rel_tol=1e-6):
            raise ValueError(
                f"{self.name} expected LoRA's adapters of rank {self.lora_rank} and alpha {self.lora_alpha}, received "
                f"rank {rank} and alpha {alpha:g}: call enable_lora with those."
            )
        for name in _ADAPTERS:
            getattr(self, name).assign(theirs[name])

    def _merge_adapters(self, theirs):
        if self.quantization_mode is not None:
            raise ValueError(
                f"{self.name} expected a file without LoRA's adapters, which a kernel in {self.quantization_mode} "
                "cannot take, received some: call enable_lora first."
            )
        a, b = (ops.convert_to_tensor(theirs[name], "float32") for name in _ADAPTERS)
        kernel, scale = stored_kernel(self), float(theirs[_ALPHA]) / a.shape[1]
        kernel.assign(ops.cast(ops.cast(kernel, "float32") + scale * ops.matmul(a, b), kernel.dtype))

    @contextlib.contextmanager
    def _without_adapters(self):
        self.lora_enabled = False
        try:
            yield
        finally:
            self.lora_enabled = True
