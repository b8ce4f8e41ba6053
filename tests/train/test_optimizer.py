"""Updates against torch on the same gradients; decay on kernels only; clipping; the average."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from support import needs_tensorflow

from keras_vit.train.optimizer import average_towards, build_optimizer, clip_by_norm
from keras_vit.train.recipe import Optimizer

pytestmark = needs_tensorflow

RNG = np.random.default_rng(0)
START = [RNG.standard_normal((5, 3)).astype("float32"), RNG.standard_normal(3).astype("float32")]
GRADIENTS = [
    [(10.0**-power * RNG.standard_normal(array.shape)).astype("float32") for array in START]
    for power in (0, 1, 2, 3, 4, 0, 1)
]
RATES = [0.0, 0.01, 0.02, 0.02, 0.015, 0.01, 0.005]


class Named(keras.layers.Layer):
    """A kernel and a bias, named as a model's are."""

    def build(self):
        self.kernel = self.add_weight(name="kernel", shape=(5, 3))
        self.bias = self.add_weight(name="bias", shape=(3,))


def variables():
    layer = Named()
    layer.build()
    for variable, value in zip(layer.weights, START, strict=True):
        variable.assign(value)
    return layer.weights


def ours(settings):
    kernel, bias = weights = variables()
    optimizer = build_optimizer(settings, 0.0, weights)
    for gradients, rate in zip(GRADIENTS, RATES, strict=True):
        optimizer.learning_rate = rate
        clipped, _ = clip_by_norm([tf.constant(g) for g in gradients], settings.clip_norm)
        optimizer.apply(clipped, weights)
    return [np.asarray(kernel), np.asarray(bias)]


def theirs(torch, settings):
    kernel, bias = tensors = [torch.tensor(array, requires_grad=True) for array in START]
    groups = [{"params": [kernel], "weight_decay": settings.weight_decay}, {"params": [bias], "weight_decay": 0.0}]
    if settings.kind == "adamw":
        optimizer = torch.optim.AdamW(groups, betas=(settings.beta_1, settings.beta_2), eps=settings.epsilon)
    else:
        optimizer = torch.optim.SGD(tensors, lr=1.0, momentum=settings.momentum)
    for gradients, rate in zip(GRADIENTS, RATES, strict=True):
        for tensor, gradient in zip(tensors, gradients, strict=True):
            tensor.grad = torch.tensor(gradient)
        if settings.clip_norm:
            torch.nn.utils.clip_grad_norm_(tensors, settings.clip_norm)
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.step()
    return [tensor.detach().numpy() for tensor in tensors]


@pytest.mark.parametrize(
    "settings",
    [
        Optimizer("adamw", weight_decay=0.3),
        Optimizer("adamw", weight_decay=0.3, clip_norm=0.5),
        Optimizer("adamw", beta_1=0.8, beta_2=0.95, epsilon=1e-3),
        Optimizer("sgd", momentum=0.9, clip_norm=0.5),
    ],
    ids=["adamw", "adamw clipped", "adamw epsilon", "sgd"],
)
def test_torch_agrees(settings):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    for mine, other in zip(ours(settings), theirs(torch, settings), strict=True):
        assert np.max(np.abs(mine - other)) < 1e-6


@pytest.mark.parametrize("kind", ["adamw", "sgd"])
def test_decay_reaches_kernels_alone(kind):
    kernel, bias = weights = variables()
    optimizer = build_optimizer(Optimizer(kind, weight_decay=0.5), 0.1, weights)
    optimizer.apply([tf.zeros(v.shape) for v in weights], weights)
    assert np.allclose(kernel, START[0] * (1 - 0.1 * 0.5), atol=1e-6)
    assert np.array_equal(bias, START[1])


def test_clipping_is_by_the_norm_of_all():
    gradients = [tf.constant([3.0, 0.0]), tf.constant([[4.0]])]
    clipped, norm = clip_by_norm(gradients, 1.0)
    assert float(norm) == pytest.approx(5.0)
    assert np.allclose(clipped[0], [0.6, 0.0]) and np.allclose(clipped[1], [[0.8]])
    assert np.allclose(clip_by_norm(gradients, 10.0)[0][1], [[4.0]])
    assert np.allclose(clip_by_norm(gradients, None)[0][1], [[4.0]])
    assert np.allclose(clip_by_norm([tf.zeros(2)], 1.0)[0][0], 0.0)


def test_average_follows_its_formula():
    variable, average = keras.Variable([2.0, -1.0]), keras.Variable([2.0, -1.0])
    expected = np.array([2.0, -1.0])
    for step, value in enumerate(RNG.standard_normal((30, 2))):
        variable.assign(value)
        average_towards([average], [variable], 0.7, step, tf.distribute.get_strategy())
        kept = min(0.7, (1 + step) / (10 + step))
        expected = kept * expected + (1 - kept) * value
    assert np.allclose(average, expected, atol=1e-6)
