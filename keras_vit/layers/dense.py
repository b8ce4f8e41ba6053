"""A dense layer that can be quantized, and adapted by LoRA or SSF, inside the layers of this package.

LoRA (arXiv 2106.09685) adds a product of two thin matrices to the kernel. SSF (arXiv 2210.08823) scales each output.
"""

import math
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_vit.private import adding_variables, stored_kernel

MODES = ("int8", "int4", "float8")
_ADAPTERS = ("lora_kernel_a", "lora_kernel_b")  # names in a file, where Keras has "0", "1", ...
_ALPHA, _PARTS = "lora_alpha", "lora_parts"
_SCALE = "output_scale"


class AdaptableDense(keras.layers.Dense):
    """Mixin: a dense layer whose subclasses may be quantized, and whose file keeps LoRA's adapters.

    Keras saves the kernel with the adapters merged into it, and loads adapters of zeros. Their gradients are zero, too.

    Args:
        lora_parts: for several matrices side by side in one kernel, which of them have LoRA adapters of their own, one
            bool per matrix; `(True,)` for the whole kernel. The bias is then frozen. None for adapters as in Keras.
        scaled: whether a factor of each output is trained (SSF).
    """

    def __init__(self, *args, quantization_config=None, lora_parts=None, scaled: bool = False, **kwargs: Any):
        if isinstance(quantization_config, dict):
            quantization_config = keras.saving.deserialize_keras_object(quantization_config)
        super().__init__(*args, quantization_config=quantization_config, **kwargs)
        self.lora_parts, self.scaled = lora_parts and tuple(lora_parts), scaled
        self._is_saved = False

    def build(self, input_shape):
        super().build(input_shape)
        if self.scaled:
            self.enable_scale()

    @property
    def kernel(self):
        """The kernel that the layer multiplies by, with LoRA adapters and factors merged into it."""
        if self._is_saved:  # Keras would save the merged kernel
            return stored_kernel(self)
        if not (self.lora_parts or self.scaled) or not self.built:
            return super().kernel
        return ops.cast(self._merged(stored_kernel(self)), self.compute_dtype)

    @property
    def variable_serialization_spec(self):
        """The names of the saved variables in order, by quantization mode; Keras saves by it."""
        spec = super().variable_serialization_spec
        return {**spec, None: [*spec[None], _SCALE]} if self.scaled else spec

    def merged_kernel(self) -> Any:
        """Return the kernel with LoRA adapters and factors merged into it, in float32."""
        return self._merged(ops.cast(stored_kernel(self), "float32"))

    def _merged(self, kernel):
        if self.lora_enabled:
            kernel = ops.add(kernel, self._low_rank(ops.convert_to_tensor(self.lora_kernel_a)))
        return ops.multiply(kernel, self.output_scale) if self.scaled else kernel

    def _low_rank(self, hidden):
        """Multiply by LoRA's second matrices and its scale: (..., parts * rank) -> (..., units)."""
        return self.lora_alpha / self.lora_rank * low_rank(hidden, self.lora_kernel_b, self.lora_parts)

    def project(self, inputs: Any) -> Any:
        """Multiply by the kernel: (..., D) -> (..., units), without the bias.

        Adapters are not merged, as in training: two thin matmuls more, but no gradient of the kernel.
        """
        if not (self.lora_enabled or self.scaled):
            return ops.matmul(inputs, self.kernel)
        outputs = ops.matmul(inputs, stored_kernel(self))
        if self.lora_enabled:
            added = self._low_rank(ops.matmul(inputs, self.lora_kernel_a))  # float32 in a model of bfloat16 weights
            outputs = outputs + ops.cast(added, outputs.dtype)
        return outputs * self.output_scale if self.scaled else outputs

    def changes(self) -> dict:
        """Return the constructor arguments that were changed after the layer was built."""
        changes = {_ALPHA: self.lora_alpha, "lora_rank": self.lora_rank} if self.lora_rank else {}
        changes |= {_PARTS: self.lora_parts} if self.lora_parts else {}
        changes |= {"scaled": True} if self.scaled else {}
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
        if self.lora_parts or self.scaled:
            raise ValueError(f"{self.name} expected no adapters of parts of its kernel and no factors before it is "
                             "quantized, received some: call keras_vit.merge_adapters first.")  # fmt: skip
        super().quantize(mode, type_check=False, config=config)

    def enable_lora(self, rank, lora_alpha=None, a_initializer="he_uniform", b_initializer="zeros", parts=None):
        """Add LoRA's adapters as Keras does. A layer that is built from its config keeps the config's `lora_alpha`.

        Args:
            rank: columns of the first matrix of a pair.
            lora_alpha: the product is multiplied by lora_alpha / rank; the rank if None.
            a_initializer: initializer of the first matrix.
            b_initializer: initializer of the second matrix.
            parts: as `lora_parts`. Each chosen part of the kernel gets a separate pair, and the bias is frozen.
        """
        alpha = self.lora_alpha if lora_alpha is None else lora_alpha
        parts = self.lora_parts if parts is None else tuple(parts)
        if not parts:
            super().enable_lora(rank, alpha, a_initializer, b_initializer)
            return
        if self.lora_enabled or self.quantization_mode or self.units % len(parts) or not any(parts):
            raise ValueError(f"parts expected a bool for each equal part of the {self.units} outputs of {self.name}, "
                             f"without adapters and not quantized, received {parts}.")  # fmt: skip
        shapes = ((stored_kernel(self).shape[0], sum(parts) * rank), (rank, self.units // len(parts) * sum(parts)))
        initializers = (a_initializer, b_initializer)
        with adding_variables(self):
            for name, shape, initializer in zip(_ADAPTERS, shapes, initializers, strict=True):
                setattr(self, name, self.add_weight(name=name, shape=shape, dtype="float32", initializer=initializer))
        stored_kernel(self).trainable = False
        if self.use_bias:
            self.bias.trainable = False
        self.lora_enabled, self.lora_rank, self.lora_parts = True, rank, parts
        self.lora_alpha = rank if alpha is None else alpha

    def enable_scale(self) -> None:
        """Add a factor of each output, which is one."""
        with adding_variables(self):
            self.output_scale = self.add_weight(name=_SCALE, shape=(self.units,), initializer="ones")
        self.scaled = True

    def save_own_variables(self, store):
        """Write the stored kernel, the factors and the adapters."""
        enabled = self.lora_enabled
        self.lora_enabled, self._is_saved = False, self.quantization_mode is None
        try:
            super().save_own_variables(store)
        finally:
            self.lora_enabled, self._is_saved = enabled, False
        if not enabled:
            return
        for name in _ADAPTERS:
            store[name] = getattr(self, name)
        store[_ALPHA] = ops.cast(self.lora_alpha, "float32")
        if self.lora_parts:
            store[_PARTS] = ops.cast(self.lora_parts, "int8")

    def load_own_variables(self, store):
        """Read what `save_own_variables` or a `keras.layers.Dense` wrote.

        A layer without adapters merges the file's adapters into its kernel. A layer with adapters also reads a file
        without adapters, and its own adapters then add nothing. The same holds for factors.

        Raises:
            ValueError: the file's adapters do not fit the layer's, or the layer has none and its kernel is quantized.
        """
        arrays = {key: store[key] for key in store.keys()}  # noqa: SIM118 - Keras's stores cannot be iterated over
        names = (*_ADAPTERS, _ALPHA, _PARTS)
        theirs = {name: np.asarray(arrays.pop(name)) for name in names if name in arrays}
        scale = str(1 + self.use_bias)  # its number in a file
        if self.scaled:
            arrays.setdefault(scale, np.ones(self.units, "float32"))
        elif self.quantization_mode is None and scale in arrays:
            arrays["0"] = np.asarray(arrays["0"]) * np.asarray(arrays.pop(scale))
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
        parts = tuple(map(bool, theirs[_PARTS])) if _PARTS in theirs else None
        rank, alpha = theirs[_ADAPTERS[0]].shape[1] // sum(parts or (1,)), float(theirs[_ALPHA])
        same = (rank, parts) == (self.lora_rank, self.lora_parts)
        if not same or not math.isclose(alpha, self.lora_alpha, rel_tol=1e-6):
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
        parts = tuple(map(bool, theirs[_PARTS])) if _PARTS in theirs else None
        a, b = (ops.convert_to_tensor(theirs[name], "float32") for name in _ADAPTERS)
        kernel, scale = stored_kernel(self), float(theirs[_ALPHA]) / (a.shape[1] // sum(parts or (1,)))
        kernel.assign(ops.cast(ops.cast(kernel, "float32") + scale * low_rank(a, b, parts), kernel.dtype))


def low_rank(hidden, b, parts: tuple[bool, ...] | None):
    """Multiply by the second matrices of LoRA: (..., parts * rank) -> (..., units), zeros in parts without adapters."""
    if not parts:
        return ops.matmul(hidden, b)
    count = sum(parts)
    pairs = zip(ops.split(hidden, count, axis=-1), ops.split(ops.convert_to_tensor(b), count, axis=-1), strict=True)
    products = [ops.matmul(*pair) for pair in pairs]
    zeros, rest = ops.zeros_like(products[0]), iter(products)
    return ops.concatenate([next(rest) if adapted else zeros for adapted in parts], axis=-1)
