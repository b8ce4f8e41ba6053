"""Updates against torch on the same gradients; decay on kernels only; clipping; the average."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from support import max_difference, needs_tensorflow

import keras_vit
from keras_vit.kernels import updates
from keras_vit.train.optim import muon
from keras_vit.train.optim.gradients import clip_scale, global_norm
from keras_vit.train.optim.optimizer import build_optimizer
from keras_vit.train.recipe import Optimizer
from keras_vit.train.step import average_towards

pytestmark = needs_tensorflow

RNG = np.random.default_rng(0)
START = [RNG.standard_normal((64, 48)).astype("float32"), RNG.standard_normal(3).astype("float32")]
GRADIENTS = [
    [(10.0**-power * RNG.standard_normal(array.shape)).astype("float32") for array in START]
    for power in (0, 1, 2, 3, 4, 0, 1)
]
RATES = [0.0, 0.01, 0.02, 0.02, 0.015, 0.01, 0.005]


class Named(keras.layers.Layer):
    """A kernel and a bias, named as a model's are."""

    def build(self):
        self.kernel = self.add_weight(name="kernel", shape=(64, 48))
        self.bias = self.add_weight(name="bias", shape=(3,))


@pytest.fixture(params=[False, True], ids=["plainly", "by loops"])
def by_loops(request, monkeypatch):
    """All of it by the plain operations, and by XLA's loops where there are some."""
    monkeypatch.setattr(updates, "LARGE", 0 if request.param else 2**15)
    return request.param


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
        gradients = [tf.constant(g) for g in gradients]
        optimizer.apply_scaled(gradients, weights, clip_scale(global_norm(gradients), settings.clip_norm))
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
def test_torch_agrees(settings, by_loops):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    for mine, other in zip(ours(settings), theirs(torch, settings), strict=True):
        assert np.max(np.abs(mine - other)) < 1e-6


def optax_result(settings):
    """What optax's own chain makes of the same gradients."""
    optax = pytest.importorskip("optax", reason="optax is not installed")
    import jax.numpy as jnp

    parameters = {"kernel": jnp.asarray(START[0]), "bias": jnp.asarray(START[1])}
    betas = {"b1": settings.beta_1, "b2": settings.beta_2}
    mask = {"kernel": True, "bias": False}
    clip = [optax.clip_by_global_norm(settings.clip_norm)] if settings.clip_norm else []
    decay = optax.add_decayed_weights(settings.weight_decay, mask)
    moment = jnp.bfloat16 if settings.moment_dtype == "bfloat16" else None
    if settings.kind == "adamw":
        parts = [optax.scale_by_adam(**betas, eps=settings.epsilon, mu_dtype=moment), decay]
    elif settings.kind == "lamb":
        parts = [optax.scale_by_adam(**betas, eps=settings.epsilon), decay, optax.scale_by_trust_ratio()]
    elif settings.kind == "sgd":
        parts = [optax.trace(settings.momentum, accumulator_dtype=moment)]
    else:
        memory = lambda step, power: jnp.minimum(settings.beta_2, 1.0 - (step + 1.0) ** -power)  # noqa: E731
        rms = optax.scale_by_factored_rms(min_dim_size_to_factor=32, decay_rate_fn=memory)
        parts = [rms, optax.ema(settings.beta_1, debias=False, accumulator_dtype=moment), decay]
    chain = optax.chain(*clip, *parts)
    state = chain.init(parameters)
    for gradients, rate in zip(GRADIENTS, RATES, strict=True):
        updates, state = chain.update(dict(zip(("kernel", "bias"), gradients, strict=True)), state, parameters)
        parameters = {name: parameters[name] - rate * updates[name] for name in parameters}
    return [np.asarray(parameters["kernel"]), np.asarray(parameters["bias"])]


@pytest.mark.parametrize(
    "settings",
    [
        Optimizer("adamw", weight_decay=0.3, clip_norm=0.5),
        Optimizer("adamw", weight_decay=0.3, moment_dtype="bfloat16"),
        Optimizer("sgd", clip_norm=0.5),
        Optimizer("sgd", moment_dtype="bfloat16"),
        Optimizer("lamb", weight_decay=0.3),
        Optimizer("adafactor", weight_decay=0.3),
        Optimizer("adafactor", beta_2=0.6, moment_dtype="bfloat16"),
    ],
    ids=lambda settings: f"{settings.kind} {settings.moment_dtype}",
)
def test_optax_agrees(settings, by_loops):
    for mine, other, start in zip(ours(settings), optax_result(settings), START, strict=True):
        tolerance = 1e-6
        if settings.moment_dtype == "bfloat16":  # optax rounds beta * mean, too, before it adds the gradient
            tolerance = 2.0**-6 * np.max(np.abs(other - start))
        assert np.max(np.abs(mine - other)) < tolerance


def test_means_are_kept_in_bfloat16_where_asked():
    for kind in ("adamw", "lamb", "sgd", "adafactor", "muon"):
        optimizer = build_optimizer(Optimizer(kind, moment_dtype="bfloat16"), 0.0, variables())
        halves = [v for v in optimizer.variables if v.dtype == "bfloat16"]
        assert len(halves) == 2, kind


def test_a_layers_share_scales_its_rate_and_decay(by_loops):
    settings = Optimizer("adamw", weight_decay=0.5)
    whole, half = variables(), variables()
    build_optimizer(settings, 0.05, whole).apply([tf.constant(g) for g in GRADIENTS[0]], whole)
    shares = {half[0].path.split("/")[0]: 0.5}
    build_optimizer(settings, 0.1, half, shares).apply([tf.constant(g) for g in GRADIENTS[0]], half)
    assert all(np.allclose(a, b, atol=1e-7) for a, b in zip(whole, half, strict=True))


@pytest.mark.parametrize("kind", ["adamw", "sgd", "lamb", "adafactor", "muon"])
def test_a_scale_multiplies_all_gradients_of_one_update(kind, by_loops):
    first, second = ([tf.constant(gradient) for gradient in gradients] for gradients in GRADIENTS[:2])
    found = []
    for inside in (True, False):
        weights = variables()
        optimizer = build_optimizer(Optimizer(kind, weight_decay=0.3), 0.05, weights)
        if inside:
            optimizer.apply_scaled(first, weights, tf.constant(0.25))
        else:
            optimizer.apply([0.25 * gradient for gradient in first], weights)
        optimizer.apply(second, weights)
        found.append(weights)
    assert max_difference(*found) < 1e-6


@pytest.mark.parametrize("kind", ["adamw", "sgd", "adafactor", "muon"])
def test_decay_reaches_kernels_alone(kind, by_loops):
    kernel, bias = weights = variables()
    optimizer = build_optimizer(Optimizer(kind, weight_decay=0.5), 0.1, weights)
    optimizer.apply([tf.zeros(v.shape) for v in weights], weights)
    assert np.allclose(kernel, START[0] * (1 - 0.1 * 0.5), atol=1e-6)
    assert np.array_equal(bias, START[1])


@pytest.mark.parametrize("kind", ["adamw", "lamb", "adafactor", "muon"])
def test_what_hangs_on_the_number_of_updates_is_computed_once_for_all_variables(kind, by_loops):
    few, many = variables(), [variable for _ in range(3) for variable in variables()]
    powers = []
    for weights in (few, many):
        optimizer = build_optimizer(Optimizer(kind), 0.1, weights)
        update = tf.function(lambda: optimizer.apply(list(map(tf.ones_like, weights)), weights))  # noqa: B023
        operations = update.get_concrete_function().graph.get_operations()
        powers.append(sum(operation.type == "Pow" for operation in operations))
    assert powers[0] == powers[1] > 0


@pytest.mark.parametrize("last", ["kernel", "scale"])
@pytest.mark.parametrize("kind", ["adamw", "sgd", "lamb", "adafactor", "muon"])
def test_nothing_as_large_as_a_weight_is_made_before_its_gradient_and_scale(kind, last):
    """While the backward pass still holds the old weights, which a change would have TensorFlow copy."""
    weights = variables()
    optimizer = build_optimizer(Optimizer(kind, 0.1, weight_decay=0.1), 0.0, weights)

    @tf.function
    def update(kernel, bias, scale):
        optimizer.apply_scaled([kernel, bias], weights, scale if last == "scale" else None)

    graph = update.get_concrete_function(*(tf.TensorSpec(w.shape) for w in weights), tf.TensorSpec(())).graph
    behind = {graph.get_operation_by_name(last)}  # operations that wait for the kernel's gradient, or the scale of all
    early = []
    for operation in graph.get_operations():  # in the order of their making: inputs first
        if behind & {operation, *operation.control_inputs, *(tensor.op for tensor in operation.inputs)}:
            behind.add(operation)
        elif operation.type not in ("ReadVariableOp", "Placeholder"):
            early += [operation.name for output in operation.outputs if output.shape == (64, 48)]
    assert not early and len(behind) > 3


def test_average_follows_its_formula():
    variable, average = keras.Variable([2.0, -1.0]), keras.Variable([2.0, -1.0])
    expected = np.array([2.0, -1.0])
    for step, value in enumerate(RNG.standard_normal((30, 2))):
        variable.assign(value)
        average_towards([average], [variable], 0.7, step, tf.distribute.get_strategy())
        kept = min(0.7, (1 + step) / (10 + step))
        expected = kept * expected + (1 - kept) * value
    assert np.allclose(average, expected, atol=1e-6)


@pytest.mark.parametrize("shape", [(48, 16), (16, 48), (32, 32), (3, 3, 8, 16), (1, 1, 8, 16)])
def test_muon_is_keras_own_on_one_matrix(shape):
    """In float32; Keras's mean is ours over (1 - momentum), which the orthogonal matrix does not see. A convolution is
    the matrix of its outputs, which Keras leaves to its caller."""
    rng = np.random.default_rng(0)
    start, *gradients = (rng.standard_normal(shape).astype("float32") for _ in range(6))
    mine = keras.layers.Layer(name="encoder_block_00").add_weight(name="kernel", shape=shape)
    other = keras.Variable(start.reshape(-1, shape[-1]), name="kernel")
    mine.assign(start)
    optimizer = build_optimizer(Optimizer("muon", momentum=0.95, weight_decay=0.3), 0.02, [mine])
    theirs = keras.optimizers.Muon(0.02, weight_decay=0.3, rms_rate=0.2)
    for gradient in gradients:
        optimizer.apply([tf.constant(gradient)], [mine])
        theirs.apply([tf.constant(gradient.reshape(-1, shape[-1]))], [other])
    assert max_difference(np.reshape(mine, (-1, shape[-1])), other) < 1e-5


def test_muon_moves_along_the_faint_directions_of_a_matrix():
    """Singular values from 1 to 1e-4 end where the polynomials put them, one by one, and in bfloat16 near it."""
    rng = np.random.default_rng(1)
    left, right = (np.linalg.qr(rng.standard_normal((side, 24)))[0] for side in (24, 96))
    values = np.logspace(0, -4, 24)
    matrix, values = (left * values) @ right.T, values / np.linalg.norm(values)
    for _ in range(muon.STEPS):
        values = sum(c * values**power for c, power in zip(muon.COEFFICIENTS, (1, 3, 5), strict=True))
    expected, momentum = (left * values) @ right.T, tf.constant(matrix, tf.float32)
    apart = [max_difference(muon.orthogonalised(momentum, kind), expected) for kind in ("float32", "bfloat16")]
    assert apart[0] < 1e-5 and 1e-3 < apart[1] < 0.1


@pytest.mark.parametrize("matmul_dtype", ["float32", "bfloat16"])
def test_muon_turns_each_matrix_of_a_fused_kernel(matmul_dtype):
    momentum = tf.constant(np.random.default_rng(0).standard_normal((16, 48)), tf.float32)
    whole = muon.orthogonal_step(momentum, ["encoder_block_00", "attention", "qkv", "kernel"], matmul_dtype)
    for part, of in zip(tf.split(whole, 3, axis=1), tf.split(momentum, 3, axis=1), strict=True):
        lengths = np.linalg.svd(part, compute_uv=False) / (0.2 * 4)
        assert lengths.min() > 0.5 and lengths.max() < 1.3
        assert float(tf.reduce_sum(part * of)) > 0


def test_muon_takes_the_matrices_and_convolutions_of_blocks_and_units_and_no_depthwise_ones():
    stem, size = keras_vit.ResNetStem((1,), 0.5), {"patch_size": 1, "image_size": 8, "mlp_kernel_size": 3}
    model = keras_vit.build(keras_vit.Variant("t", 16, 1, 24, 2, stem=stem, **size), classes=3)
    optimizer = build_optimizer(Optimizer("muon"), 0.1, model.trainable_variables)
    single = {v.path for v, slots in zip(model.trainable_variables, optimizer._slots, strict=True) if len(slots) == 1}
    block, unit = "encoder_block_00", "stem_stage1_unit1"
    expected = {f"{block}/{name}/kernel" for name in ("attention/qkv", "attention/out", "mlp/fc1", "mlp/fc2")}
    assert single == expected | {f"{unit}/{name}/kernel" for name in ("conv1", "conv2", "conv3", "proj")}
