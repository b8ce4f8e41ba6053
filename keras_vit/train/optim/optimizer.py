"""The optimizer of a recipe."""

from keras_vit.train.optim.adafactor import Adafactor
from keras_vit.train.optim.adam import AdamW, Lamb
from keras_vit.train.optim.muon import Muon
from keras_vit.train.optim.sgd import SGD
from keras_vit.train.optim.update import Update

_KINDS = {"adamw": AdamW, "sgd": SGD, "lamb": Lamb, "adafactor": Adafactor, "muon": Muon}


def build_optimizer(
    settings, rate, variables, shares: dict[str, float] | None = None, matmul_dtype: str = "float32"
) -> Update:
    """Build the optimizer of a recipe and its variables. Weight decay applies to kernels only, not to biases, norms or
    tokens. Call it in the strategy's scope.

    Args:
        settings: a `keras_vit.train.recipe.Optimizer`.
        rate: a `LearningRateSchedule`, or a float.
        variables: the trained variables.
        shares: factor of the rate by name of the layer; 1 for other layers.
        matmul_dtype: dtype of the matmuls of an update, `float32` or `bfloat16`.
    """
    optimizer = _KINDS[settings.kind](rate, settings, shares or {}, matmul_dtype)
    optimizer.build(variables)
    return optimizer
