"""Define how far an exported file may differ from its Keras model."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Tolerance:
    """The largest allowed differences from the Keras model.

    Args:
        difference: largest absolute difference of a logit, a probability or an attention rollout. For features and
            tokens it is multiplied by their largest absolute value if that exceeds 1.
        agreement: smallest fraction of images with the same best class, in [0, 1], for outputs with classes.
        error: largest `parity.relative_error`, for outputs without classes.
    """

    difference: float
    agreement: float
    error: float

    def or_looser(self, other: "Tolerance") -> "Tolerance":
        """Return the tolerance that accepts what either of two accepts."""
        return Tolerance(
            max(self.difference, other.difference), min(self.agreement, other.agreement), max(self.error, other.error)
        )


# A correct file stays below half of each error, also for tiny models of random weights. A file of zeros, of another
# model, or with one output for all images has an error of 1 or more.
EXACT = Tolerance(1e-4, 1.0, 0.1)  # float32 throughout: only the order of additions differs
REDUCED = Tolerance(float("inf"), 0.99, 0.4)  # some values in half precision, or weights in int8
CALIBRATED = Tolerance(float("inf"), 0.97, 0.8)  # activations in integers, too, with ranges measured beforehand
