"""What several test files need: where the goldens lie, and a few models and inputs."""

import json
import os
import platform
import subprocess
import sys
import warnings
from pathlib import Path

import keras
import numpy as np
import pytest

import keras_vit
from keras_vit.private import layers_of

ROOT = Path(__file__).parent.parent
GOLDENS = Path(__file__).parent / "goldens"
MANIFEST = json.loads((GOLDENS / "manifest.json").read_text())
TOLERANCE = 2e-5  # of g1, g2, g3 and g7: tests/goldens/README.md

needs_tensorflow = pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="TensorFlow's own machinery")
needs_onednn = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64" or os.environ.get("TF_ENABLE_ONEDNN_OPTS") == "0",
    reason="oneDNN is in TensorFlow's wheels for Linux on x86, where it is not turned off",
)


def quick_first(values, quick, broad=()) -> list:
    """Return values as pytest parameters: quick ones without a mark, then `broad` ones, the others `large`."""
    mark = lambda value: pytest.mark.broad if value in broad else pytest.mark.large  # noqa: E731
    return [value if value in quick else pytest.param(value, marks=mark(value)) for value in values]


def first_quick(values, count=1) -> list:
    """Return values as pytest parameters: the first `count` for `make test`, the others marked `broad`."""
    values = list(values)
    further = [value if isinstance(value, tuple) else (value,) for value in values[count:]]
    return values[:count] + [pytest.param(*value, marks=pytest.mark.broad) for value in further]


def need_rounded_bfloat16() -> None:
    """Skip a test where TensorFlow cuts its products in bfloat16 off in place of rounding them.

    It does so on a processor without AVX-512: errors of up to a unit in the last place, where a half is meant.
    """
    import tensorflow as tf

    ones, small = tf.ones((64, 64), tf.bfloat16), tf.fill((64, 64), tf.constant(1.5 / 64 * 2**-8, tf.bfloat16))
    halves = tf.linalg.diag(tf.ones(64, tf.bfloat16)) + small  # a column's sum is 1 + 1.5 * 2**-8
    if float(tf.matmul(ones, halves)[0, 0]) == 1.0:
        pytest.skip("TensorFlow cuts products in bfloat16 off on this processor")


def golden(name: str) -> dict[str, np.ndarray]:
    """Inputs and expected outputs of a golden."""
    with np.load(GOLDENS / f"{name}.io.npz") as file:
        return dict(file)


def golden_model(name: str, file: str | None = None, **options) -> keras.Model:
    """The model of a plain-ViT golden, with its weights, giving logits."""
    row = MANIFEST[name]
    variant = keras_vit.Variant(
        name,
        width=row["hidden"],
        depth=row["layers"],
        mlp_dim=row["mlp_dim"],
        num_heads=row["heads"],
        patch_size=row["patch"][0],
        image_size=row["image"][0],
    )
    defaults = {
        "weights": str(GOLDENS / f"{file or name}.weights.npz"),
        "pooling": row["classifier"],
        "classes": row["num_classes"],
        "classifier_activation": None,
        "representation_size": row.get("representation_size"),
    }
    return keras_vit.build(variant, **{**defaults, **options})


def randomise(model: keras.Model, seed: int = 0) -> keras.Model:
    """Give every weight a value that matters; builders start heads at zero."""
    rng = np.random.default_rng(seed)
    for variable in model.trainable_variables:
        start = 1.0 if variable.path.endswith("gamma") else 0.0
        variable.assign(start + 0.1 * rng.standard_normal(variable.shape).astype("float32"))
    return model


def various(model: keras.Model) -> keras.Model:
    """Scale and shift the head of a model, if it has one, so that its classes vary over random images."""
    head = next((layer for layer in model.layers if layer.name == "head"), None)
    if head is not None:
        images = np.random.default_rng(5).uniform(-1, 1, (32, *model.input_shape[1:])).astype("float32")
        features = keras.Model(model.input, head.input)(images)
        scale = 2 / keras.ops.std(keras.ops.matmul(features, head.kernel), axis=0)
        head.kernel.assign(head.kernel * scale)
        head.bias.assign(-keras.ops.mean(keras.ops.matmul(features, head.kernel), axis=0))
    return model


def max_difference(a, b) -> float:
    """Largest absolute difference, over all outputs where there are several."""
    as_array = lambda x: keras.ops.convert_to_numpy(x).astype("float64")  # noqa: E731
    return max(float(np.max(np.abs(as_array(x) - as_array(y)))) for x, y in zip(as_list(a), as_list(b), strict=True))


def as_list(x) -> list:
    return list(x) if isinstance(x, list | tuple) else [x]


AT_ONCE = "import atexit, gc; atexit.register(gc.freeze)\n"  # code that ends a process without a search for garbage


def run_python(code: str, backend: str = "tensorflow", options=()) -> str:
    """Run code in a fresh interpreter, with its `options`, on a Keras backend; its standard output."""
    environment = {**os.environ, "KERAS_BACKEND": backend, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, *options, "-c", AT_ONCE + code]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, (done.stdout + done.stderr)[-6000:]
    return done.stdout


def quantize(model: keras.Model, mode: str) -> keras.Model:
    """Quantize a model without Keras's warnings about its layers that are no dense ones."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.quantize(mode)
    return model


def trained_on_cpu(model: keras.Model, *more: keras.layers.Layer):
    """A `with` in which a model trains by the implementations for CPUs."""
    from keras_vit.kernels.dispatch import training_overrides
    from keras_vit.layers.override import overriding

    return overriding(training_overrides([*layers_of(model), *more]))


def adapt(model: keras.Model, rank: int = 2) -> keras.Model:
    """Give LoRA's adapters to every dense layer of a model, which change its answer."""
    rng = np.random.default_rng(3)
    for layer in layers_of(model):
        if isinstance(layer, keras.layers.Dense):
            layer.enable_lora(rank, lora_alpha=3)
            layer.lora_kernel_b.assign(0.3 * rng.standard_normal(layer.lora_kernel_b.shape))
    return model
