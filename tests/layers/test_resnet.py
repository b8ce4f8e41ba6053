"""The convolutional layers against their formulas, written out plainly."""

from concurrent.futures import ThreadPoolExecutor

import keras
import numpy as np
import pytest
from support import max_difference

from keras_vit import layers
from keras_vit.layers.override import Override, overriding


def standardised(kernel, epsilon, on):
    deviation = kernel.astype("float64") - kernel.mean((0, 1, 2), dtype="float64")
    variance = (deviation**2).mean((0, 1, 2))
    return deviation / (np.sqrt(variance) + epsilon if on == "std" else np.sqrt(variance + epsilon))


def convolved(x, kernel, stride, pads):
    """`pads` zeros ((top, bottom), (left, right)), then a valid convolution."""
    x = np.pad(x.astype("float64"), ((0, 0), *pads, (0, 0)))
    rows, columns = ((x.shape[i + 1] - kernel.shape[i]) // stride + 1 for i in (0, 1))
    out = np.zeros((len(x), rows, columns, kernel.shape[3]))
    for i in range(rows):
        for j in range(columns):
            window = x[:, i * stride : i * stride + kernel.shape[0], j * stride : j * stride + kernel.shape[1]]
            out[:, i, j] = np.einsum("bhwc,hwcf->bf", window, kernel)
    return out


@pytest.mark.parametrize(
    ("padding", "pads"),
    [("same", ((2, 3), (3, 3))), ("symmetric", ((3, 3), (3, 3)))],  # TensorFlow's SAME on 8 x 9 pixels is uneven
)
@pytest.mark.parametrize(("epsilon", "on"), [(1e-2, "std"), (1e-2, "variance")])
def test_standardised_convolution(padding, pads, epsilon, on):
    x = np.random.default_rng(0).normal(size=(2, 8, 9, 3)).astype("float32")
    layer = layers.StdConv(5, 7, 2, padding, epsilon, on)
    layer.build(x.shape)
    kernel = keras.ops.convert_to_numpy(layer.kernel)
    expected = convolved(x, standardised(kernel, epsilon, on), 2, pads)
    assert layer(x).shape == expected.shape == layer.compute_output_shape(x.shape)
    assert max_difference(layer(x), expected) < 1e-4


@pytest.mark.parametrize("channels", [64, 1024])  # 2 in a group, and as many as there are groups
def test_group_norm(channels):
    x = np.random.default_rng(0).normal(3.0, 2.0, size=(2, 4, 5, channels)).astype("float32")
    layer = layers.GroupNorm(1e-2)
    layer.build(x.shape)
    gamma, beta = np.random.default_rng(1).normal(size=(2, channels)).astype("float32")
    layer.gamma.assign(gamma)
    layer.beta.assign(beta)
    groups = x.astype("float64").reshape(2, 4, 5, 32, channels // 32)
    mean, variance = groups.mean((1, 2, 4), keepdims=True), groups.var((1, 2, 4), keepdims=True)
    expected = ((groups - mean) / np.sqrt(variance + 1e-2)).reshape(x.shape) * gamma + beta
    assert max_difference(layer(x), expected) < 1e-5
    assert max_difference(layer(x, relu=True), np.maximum(expected, 0)) < 1e-5
    half = layers.GroupNorm.from_config({**layer.get_config(), "dtype": "bfloat16"})
    half.build(x.shape)
    half.set_weights(layer.get_weights())
    rounded = half(x, relu=True)
    assert keras.backend.standardize_dtype(rounded.dtype) == "bfloat16"
    assert max_difference(keras.ops.cast(rounded, "float32"), np.maximum(expected, 0)) < 0.05


def test_the_stems_pools_pad_differently():
    x = -np.ones((1, 4, 4, 2), "float32")
    hybrid, bit = layers.StemPool("same")(x), layers.StemPool("zeros")(x)
    assert hybrid.shape == bit.shape == (1, 2, 2, 2)
    assert max_difference(hybrid, -np.ones((1, 2, 2, 2))) == 0
    assert keras.ops.convert_to_numpy(bit)[0, :, :, 0].tolist() == [[0, 0], [0, -1]]


@pytest.mark.parametrize("unit", [layers.ResidualUnit, layers.PreActivationUnit])
def test_a_unit_projects_its_shortcut_only_where_the_shape_changes(unit):
    for arguments, channels, projects in (((32, 1), 128, False), ((32, 2), 128, True), ((32, 1), 64, True)):
        layer = unit(*arguments)
        layer.build((1, 4, 4, channels))
        assert layer.projects == projects
        assert any("proj" in variable.path for variable in layer.variables) == projects


def test_a_v1_unit_starts_as_its_shortcut():
    x = np.random.default_rng(0).normal(size=(1, 4, 4, 128)).astype("float32")
    assert max_difference(layers.ResidualUnit(32)(x), np.maximum(x, 0)) == 0
    assert max_difference(layers.PreActivationUnit(32)(x), x) > 0.1


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: layers.StdConv(3, padding="full"), "padding expected 'same' or 'symmetric', received 'full'"),
        (
            lambda: layers.StdConv(3, (3, 2), padding="symmetric"),
            r"kernel_size expected odd sides with padding='symmetric', received \(3, 2\)",
        ),
        (
            lambda: layers.StdConv(3, epsilon_on="mean"),
            "epsilon_on expected 'std', 'variance' or 'none', received 'mean'",
        ),
        (lambda: layers.StemPool("valid"), "padding expected 'same', 'zeros' or 'symmetric', received 'valid'"),
        (lambda: layers.GroupNorm().build((1, 2, 2, 40)), "a multiple of 32, received 40"),
        (lambda: layers.GroupNorm().build((1, 2, 64)), r"expected its input to be a feature map .*\(1, 2, 64\)"),
    ],
)
def test_mistakes_get_a_sentence(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()


def test_a_stem_of_constants_stays_finite():
    kernel = np.ones((3, 3, 4, 8), "float32")
    layer = layers.StdConv(8, 3)
    layer.build((1, 4, 4, 4))
    layer.kernel.assign(kernel)
    assert np.isfinite(keras.ops.convert_to_numpy(layer(np.ones((1, 4, 4, 4), "float32")))).all()


def test_a_convolution_takes_another_kernel_in_one_thread_alone_and_never_to_train():
    convolution, x = layers.StdConv(4, 3), keras.random.normal((2, 6, 6, 3), seed=1)
    plain = keras.ops.convert_to_numpy(convolution(x))
    kernel = keras.ops.zeros_like(convolution.kernel)
    with overriding([Override(convolution, "standardized_kernel", lambda: kernel)]), ThreadPoolExecutor(1) as other:
        assert not keras.ops.convert_to_numpy(convolution(x)).any()
        assert max_difference(convolution(x, training=True), plain) < 1e-5
        assert max_difference(other.submit(convolution, x).result(), plain) == 0
    assert max_difference(convolution(x), plain) == 0
