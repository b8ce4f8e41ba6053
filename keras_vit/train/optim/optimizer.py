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
    """Build the optimizer of a recipe and its variables, in the strategy's scope.

    Weight decay applies to kernels only, not to biases, norms or tokens. `shares` are the factors of the rate by name
    of the layer; 1 for other layers. `matmul_dtype` is the dtype of the matmuls of an update.
    """
    optimizer = _KINDS[settings.kind](rate, settings, shares or {}, matmul_dtype)
    optimizer.build(variables)
    return optimizer
