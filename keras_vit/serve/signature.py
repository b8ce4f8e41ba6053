"""One signature of a SavedModel, its concurrent calls gathered into batches by TensorFlow's own batching.

B batch.
"""

import itertools
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tensorflow as tf

from keras_vit.serve.errors import Refusal

_NUMBERS = itertools.count()


@dataclass(frozen=True)
class Batching:
    """How calls are gathered; TensorFlow Serving's batching parameters of the same names mean the same.

    Args:
        max_batch_size: most images computed at once, a call of more is cut; 1 turns gathering off.
        batch_timeout_ms: longest wait for a fuller batch, in milliseconds.
        num_batch_threads: batches computed at the same time, of all models together.
        max_enqueued_batches: batches that may wait; past them a call is refused with status 503.
    """

    max_batch_size: int = 32
    batch_timeout_ms: float = 2.0
    num_batch_threads: int = 2
    max_enqueued_batches: int = 64


@dataclass(frozen=True)
class Signature:
    """A named function of named arrays.

    Args:
        name: such as `serving_default`.
        inputs: dtype and shape of each, None for a free side.
        outputs: the same.
        alone: computes one call by itself.
        batched: computes it with others that come at the same time, or None where its shapes do not allow that.
        most: rows computed at once, a call of more is cut; None where its shapes do not allow that.
        weights: what TensorFlow loaded; the functions hold its variables weakly.
    """

    name: str
    inputs: dict[str, tf.TensorSpec]
    outputs: dict[str, tf.TensorSpec]
    alone: Callable
    batched: Callable | None
    most: int | None
    weights: Any = field(repr=False)

    def __call__(self, inputs: dict[str, np.ndarray], alone: bool = False) -> dict[str, np.ndarray]:
        """The outputs of one call.

        Args:
            inputs: its arrays.
            alone: whether it may not be computed in a batch with other calls.

        Raises:
            Refusal: the graph refuses the values (400), or too many calls wait (503).
        """
        batch = {value.shape[0] for value in inputs.values() if value.ndim}
        if self.most is not None and len(batch) == 1 and (rows := batch.pop()) > self.most:
            starts = range(0, rows, self.most)
            parts = [self({name: x[i : i + self.most] for name, x in inputs.items()}, alone) for i in starts]
            return {name: np.concatenate([part[name] for part in parts]) for name in self.outputs}
        tensors = {name: tf.constant(value, self.inputs[name].dtype) for name, value in inputs.items()}
        try:
            if alone or self.batched is None or not all(value.shape[0] for value in inputs.values()):
                answer = self.alone(**tensors)
            else:
                try:
                    answer = self.batched(*(tensors[name] for name in self.inputs))
                except tf.errors.InvalidArgumentError:  # of this call or of another in its batch: see which
                    answer = self.alone(**tensors)
        except tf.errors.InvalidArgumentError as error:
            raise Refusal(400, f"{self.name} cannot compute these inputs: {_reason(error)}.") from None
        except (tf.errors.UnavailableError, tf.errors.ResourceExhaustedError) as error:
            raise Refusal(503, f"the server is at its limit, try again later: {_reason(error)}.") from None
        return {name: value.numpy() for name, value in answer.items()}

    def example(self) -> dict[str, np.ndarray]:
        """One call's inputs, to warm up with: zeros, and an image file of one pixel where strings are expected."""
        return {name: _example(spec) for name, spec in self.inputs.items()}


def _example(spec: tf.TensorSpec) -> np.ndarray:
    shape = [side or (32 if i else 1) for i, side in enumerate(spec.shape)]
    if spec.dtype == tf.string:
        return np.full(shape, tf.io.encode_png(np.zeros((1, 1, 3), "uint8")).numpy(), object)
    return np.zeros(shape, spec.dtype.as_numpy_dtype)


def signatures_of(loaded, batching: Batching) -> dict[str, Signature]:
    """The signatures of what `tf.saved_model.load` gave, `serving_default` first."""
    names = sorted(loaded.signatures, key=lambda name: (name != "serving_default", name))
    return {name: _signature(name, loaded.signatures[name], loaded, batching) for name in names}


def _signature(name: str, function, loaded, batching: Batching) -> Signature:
    _, inputs = function.structured_input_signature
    inputs = {key: inputs[key] for key in sorted(inputs)}
    outputs = {key: function.structured_outputs[key] for key in sorted(function.structured_outputs)}
    outputs = {key: tf.TensorSpec(value.shape, value.dtype, key) for key, value in outputs.items()}
    batched = most = None
    if _can_be_gathered(inputs, outputs):
        most = batching.max_batch_size if batching.max_batch_size > 1 else Batching.max_batch_size
        if batching.max_batch_size > 1:
            batched = _gathered(function, list(inputs.values()), batching)
    return Signature(name, inputs, outputs, function, batched, most, loaded)


def _can_be_gathered(inputs, outputs) -> bool:
    """Whether all tensors have one free batch side, and those of all calls have one shape behind it."""
    ranked = all(spec.shape.rank for spec in (*inputs.values(), *outputs.values()))
    if not ranked or not inputs or any(s.shape[0] is not None for s in (*inputs.values(), *outputs.values())):
        return False
    return all(None not in spec.shape[1:].as_list() for spec in inputs.values())


def _gathered(function, specs, batching: Batching):
    """The function of positional tensors behind TensorFlow's batching; it must be called from several threads."""
    names = [spec.name for spec in specs]
    free = [tf.TensorSpec(spec.shape, spec.dtype) for spec in specs]

    def compute(*tensors):
        return function(**dict(zip(names, tensors, strict=True)))

    compute = tf.function(compute, input_signature=free, autograph=False).get_concrete_function()
    queue = f"queue_{next(_NUMBERS)}"  # two functions of one name would share it

    def batched(*tensors):
        outputs = tf.raw_ops.BatchFunction(
            in_tensors=list(tensors),
            captured_tensors=compute.captured_inputs,
            f=compute,
            Tout=[output.dtype for output in compute.outputs],
            num_batch_threads=batching.num_batch_threads,
            max_batch_size=batching.max_batch_size,
            batch_timeout_micros=int(1000 * batching.batch_timeout_ms),
            max_enqueued_batches=batching.max_enqueued_batches,
            enable_large_batch_splitting=True,
            # TensorFlow keeps the threads found by this name until the process ends, whatever becomes of the function;
            # `tf.nondifferentiable_batch_function` would start some for every signature of every version.
            shared_name=f"keras_vit_{batching}",
            batching_queue=queue,
        )
        return tf.nest.pack_sequence_as(compute.structured_outputs, outputs, expand_composites=True)

    return tf.function(batched, input_signature=free, autograph=False).get_concrete_function()


def _reason(error) -> str:
    """The first line of a TensorFlow error that says what was wrong, without the names of nodes."""
    lines = [re.sub(r"\{\{.*?\}\}|\[\[\{.*|\[Op:.*", "", line).strip() for line in str(error.message).splitlines()]
    where = ("Graph execution error:", "Detected at node", "<stack traces unavailable>")
    return next((line for line in lines if line and not line.startswith(where)), "no reason given").rstrip(".")
