"""Pairs of an XLA implementation and its reference."""

from functools import partial

import pytest

from keras_vit.kernels import activations, norms
from keras_vit.layers import encoder, groupnorm, mlp

ACTIVATIONS = [(activations.GELU_TANH, mlp.gelu_tanh), (activations.GELU, mlp.gelu)]
ACTIVATIONS += [(activations.QUICK_GELU, mlp.quick_gelu)]
NORMS = [
    pytest.param(norms.layer_norm, encoder.layer_norm, (3, 7, 64), id="layer"),
    pytest.param(norms.group_norm, groupnorm.group_norm, (3, 4, 5, 64), id="group"),
    pytest.param(
        partial(norms.group_norm, relu=True), partial(groupnorm.group_norm, relu=True), (3, 4, 5, 64), id="group, relu"
    ),
]
