"""The distillation token of DeiT (arXiv 2012.12877), and the pooling of class and distillation token.

B batch, N tokens, D width.
"""

from keras import ops

from keras_vit.layers.embedding import PrefixTokens
from keras_vit.layers.pooling import TokenPooling


class DistillationToken(PrefixTokens):
    """Put one learned distillation token in front of a sequence (DeiT, arXiv 2012.12877).

    Input shape: (B, N, D). Output shape: (B, 1 + N, D).
    """

    kind = "distillation"
    initializer = {"class_name": "TruncatedNormal", "config": {"stddev": 0.02}}


class DistillationPooling(TokenPooling):
    """Returns the class token and the distillation token side by side (DeiT, arXiv 2012.12877).

    DeiT's logits are the mean of two linear classifiers, one of each token. A linear classifier of both tokens, with
    half of their kernels, is the same function.

    Input shape: (B, N, D). Output shape: (B, 2 D).
    """

    def compute_output_shape(self, input_shape):
        return (input_shape[0], 2 * input_shape[-1])

    def call(self, tokens):
        return ops.reshape(tokens[:, :2], (-1, 2 * tokens.shape[-1]))
