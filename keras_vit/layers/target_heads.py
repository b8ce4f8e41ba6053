"""Heads for other targets than unordered classes: ordered classes, and values in units.

B batch, D width, K classes, T targets.
"""

from collections.abc import Sequence
from typing import Any

from keras import ops

from keras_vit.layers.pooling import Head


class OrdinalHead(Head):
    """Linear classifier of ordered classes: the log probabilities of CORN (arXiv 2111.08851).

    Output k of the K - 1 linear ones is the logit of "higher than class k", given "at least class k". The probability
    of a class is the product along the chain, so the probabilities of "higher than class k" never rise with k.

    Args:
        units: K - 1.
        labels: names of the K classes, the lowest first.
        conversion: why loaded weights did not fill this layer; saved in the config.

    Input shape: (B, D). Output shape: (B, K).

    Raises:
        ValueError: the number of `labels` is not K.
    """

    def __init__(self, units: int, labels: Sequence[str] | None = None, conversion: str | None = None, **kwargs: Any):
        super().__init__(units, conversion=conversion, **kwargs)
        self.labels = None if labels is None else tuple(labels)
        if self.labels is not None and len(self.labels) != self.classes:
            raise ValueError(f"labels expected {self.classes} names, one for each class, received {len(self.labels)}.")

    @property
    def classes(self) -> int:
        """The number of classes K."""
        return self.units + 1

    def compute_output_shape(self, input_shape):
        return (*input_shape[:-1], self.classes)

    def call(self, inputs, training=None):
        return _log_probabilities(super().call(inputs, training=training))

    def quantized_call(self, *args: Any, **kwargs: Any) -> Any:
        return _log_probabilities(super().quantized_call(*args, **kwargs))


def _log_probabilities(logits):
    """Convert the logits of "higher than class k" (B, K - 1) to log probabilities of the classes (B, K)."""
    passed = ops.cumsum(ops.log_sigmoid(logits), axis=-1)  # of "higher than class k", without condition
    stopped = ops.log_sigmoid(-logits)
    nothing = ops.zeros_like(logits[..., :1])
    return ops.concatenate([nothing, passed], axis=-1) + ops.concatenate([stopped, nothing], axis=-1)


class RegressionHead(Head):
    """Linear regression whose outputs are in the units of the targets.

    The kernel and the bias predict standardised targets. The output is their prediction times `deviation` plus `mean`.
    The kernel starts at zero, so that the first prediction is the mean.

    Args:
        units: number of targets T.
        mean: mean of each target over the training split, T values; zeros if None.
        deviation: standard deviation of each target over the training split, T positive values; ones if None.
        labels: names of the targets.
        conversion: why loaded weights did not fill this layer; saved in the config.

    Input shape: (B, D). Output shape: (B, T).

    Raises:
        ValueError: `mean`, `deviation` or `labels` has another length than `units`, or a deviation is not positive.
    """

    def __init__(
        self,
        units: int,
        mean: Sequence[float] | None = None,
        deviation: Sequence[float] | None = None,
        labels: Sequence[str] | None = None,
        conversion: str | None = None,
        **kwargs: Any,
    ):
        super().__init__(units, labels=labels, conversion=conversion, **kwargs)
        self.mean = (0.0,) * units if mean is None else tuple(map(float, mean))
        self.deviation = (1.0,) * units if deviation is None else tuple(map(float, deviation))
        if not len(self.mean) == len(self.deviation) == units or min(self.deviation) <= 0:
            raise ValueError(f"mean and deviation expected {units} values each, and positive deviations, received "
                             f"{self.mean} and {self.deviation}.")  # fmt: skip

    def call(self, inputs, training=None):
        return self._in_units(super().call(inputs, training=training))

    def quantized_call(self, *args: Any, **kwargs: Any) -> Any:
        return self._in_units(super().quantized_call(*args, **kwargs))

    def _in_units(self, standardised):
        dtype = standardised.dtype
        return standardised * ops.cast(self.deviation, dtype) + ops.cast(self.mean, dtype)
