"""Call the signatures of a SavedModel, with TensorFlow's batching of concurrent calls.

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
    """Settings of batching, with the names and meanings of TensorFlow Serving's batching parameters.

    Args:
        max_batch_size: maximum batch size; larger calls are split. 1 turns batching off.
        batch_timeout_ms: maximum wait for a full batch, in milliseconds.
        num_batch_threads: number of batches of all models that are computed at the same time.
        max_enqueued_batches: maximum number of waiting batches; further calls get status 503.
    """

    max_batch_size: int = 32
    batch_timeout_ms: float = 2.0
    num_batch_threads: int = 2
    max_enqueued_batches: int = 64


@dataclass(frozen=True)
class Signature:
    """A named function of named arrays.

    Args:
        name: name of the signature, such as `serving_default`.
        inputs: dtype and shape of each input; a free axis is None.
        outputs: dtype and shape of each output.
        alone: function that computes one call.
        batched: function that computes a call in a batch with concurrent ones; None if the shapes do not allow batches.
        max_rows: maximum batch size, larger calls are split; None if the shapes do not allow splitting.
        weights: the loaded SavedModel, which the functions reference only weakly.
    """

    name: str
    inputs: dict[str, tf.TensorSpec]
    outputs: dict[str, tf.TensorSpec]
    alone: Callable
    batched: Callable | None
    max_rows: int | None
    weights: Any = field(repr=False)

    def __call__(self, inputs: dict[str, np.ndarray], alone: bool = False) -> dict[str, np.ndarray]:
        """Compute one call and return its outputs by name.

        Args:
            inputs: the input arrays by name.
            alone: True computes the call without batching.

        Raises:
            Refusal: the graph raises an error for these values (400), or too many calls wait (503).
        """
        batch = {value.shape[0] for value in inputs.values() if value.ndim}
        if self.max_rows is not None and len(batch) == 1 and (rows := batch.pop()) > self.max_rows:
            starts = range(0, rows, self.max_rows)
            results = [self({name: x[i : i + self.max_rows] for name, x in inputs.items()}, alone) for i in starts]
            return {name: np.concatenate([result[name] for result in results]) for name in self.outputs}
        tensors = {name: tf.constant(value, self.inputs[name].dtype) for name, value in inputs.items()}
        try:
            if alone or self.batched is None or not all(value.shape[0] for value in inputs.values()):
                answer = self.alone(**tensors)
            else:
                try:
                    answer = self.batched(*(tensors[name] for name in self.inputs))
                except tf.errors.InvalidArgumentError:  # caused by this call or another one in the batch
                    answer = self.alone(**tensors)
        except tf.errors.InvalidArgumentError as error:
            raise Refusal(400, f"{self.name} cannot compute these inputs: {_reason(error)}.") from None
        except (tf.errors.UnavailableError, tf.errors.ResourceExhaustedError) as error:
            raise Refusal(503, f"the server is at its limit, try again later: {_reason(error)}.") from None
        return {name: value.numpy() for name, value in answer.items()}

    def example(self) -> dict[str, np.ndarray]:
        """Return inputs for warming up: zeros, and image files of one pixel for string inputs."""
        return {name: _example(spec) for name, spec in self.inputs.items()}


def _example(spec: tf.TensorSpec) -> np.ndarray:
    shape = [side or (32 if i else 1) for i, side in enumerate(spec.shape)]
    if spec.dtype == tf.string:
        return np.full(shape, tf.io.encode_png(np.zeros((1, 1, 3), "uint8")).numpy(), object)
    return np.zeros(shape, spec.dtype.as_numpy_dtype)


def signatures_of(loaded, batching: Batching) -> dict[str, Signature]:
    """Return the signatures of a loaded SavedModel by name, `serving_default` first."""
    names = sorted(loaded.signatures, key=lambda name: (name != "serving_default", name))
    return {name: _signature(name, loaded.signatures[name], loaded, batching) for name in names}


def _signature(name: str, function, loaded, batching: Batching) -> Signature:
    _, inputs = function.structured_input_signature
    inputs = {key: inputs[key] for key in sorted(inputs)}
    outputs = {key: function.structured_outputs[key] for key in sorted(function.structured_outputs)}
    outputs = {key: tf.TensorSpec(value.shape, value.dtype, key) for key, value in outputs.items()}
    batched = max_rows = None
    if _can_be_gathered(inputs, outputs):
        max_rows = batching.max_batch_size if batching.max_batch_size > 1 else Batching.max_batch_size
        if batching.max_batch_size > 1:
            batched = _gathered(function, list(inputs.values()), batching)
    return Signature(name, inputs, outputs, function, batched, max_rows, loaded)


def _can_be_gathered(inputs, outputs) -> bool:
    """Return whether the batch axis is free in all tensors, and all other input axes are known."""
    ranked = all(spec.shape.rank for spec in (*inputs.values(), *outputs.values()))
    if not ranked or not inputs or any(s.shape[0] is not None for s in (*inputs.values(), *outputs.values())):
        return False
    return all(None not in spec.shape[1:].as_list() for spec in inputs.values())


def _gathered(function, specs, batching: Batching):
    """Return a function of positional tensors with TensorFlow's batching, to be called from several threads."""
    names = [spec.name for spec in specs]
    free = [tf.TensorSpec(spec.shape, spec.dtype) for spec in specs]

    def compute(*tensors):
        return function(**dict(zip(names, tensors, strict=True)))

    compute = tf.function(compute, input_signature=free, autograph=False).get_concrete_function()
    queue = f"queue_{next(_NUMBERS)}"  # functions with the same queue name would share it

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
            # The threads of a name live until the process ends. `tf.nondifferentiable_batch_function` would start new
            # threads for every signature of every version.
            shared_name=f"keras_vit_{batching}",
            batching_queue=queue,
        )
        return tf.nest.pack_sequence_as(compute.structured_outputs, outputs, expand_composites=True)

    return tf.function(batched, input_signature=free, autograph=False).get_concrete_function()


def _reason(error) -> str:
    """Return the first informative line of a TensorFlow error, without node names."""
    lines = [re.sub(r"\{\{.*?\}\}|\[\[\{.*|\[Op:.*", "", line).strip() for line in str(error.message).splitlines()]
    where = ("Graph execution error:", "Detected at node", "<stack traces unavailable>")
    return next((line for line in lines if line and not line.startswith(where)), "no reason given").rstrip(".")
