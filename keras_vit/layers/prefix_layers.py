"""The layers that put tokens in front of the patches.

B batch, N tokens, D width.
"""

from keras_vit.layers.distillation import DistillationToken
from keras_vit.layers.embedding import ClassToken, PrefixTokens


class RegisterTokens(PrefixTokens):
    """Put learned register tokens in front of a sequence (arXiv 2309.16588).

    Input shape: (B, N, D). Output shape: (B, count + N, D).
    """

    kind = "register"
    initializer = {"class_name": "RandomNormal", "config": {"stddev": 1e-6}}  # each layer makes its own


# In the order they are called: the tokens of the last layer come first. A key is the layer's name in a model, and the
# name of the row's field or builder's option with the count.
PREFIX_LAYERS = {"registers": RegisterTokens, "distillation_token": DistillationToken, "class_token": ClassToken}
