"""This package's contestants: forward passes on any backend, compiled, by Keras's `predict` and by exports;
training by the engine, or compiled whole on JAX."""

import dataclasses
import os
import tempfile
from pathlib import Path

import keras
import numpy as np

from benchmarks.harness.keras_steps import (
    CLASSES,
    DECAY,
    RATE,
    batch_of,
    device_peak,
    forward,
    jax_step,
    require_device,
)
from keras_vit.kernels.compiled import compiled as compiled_forward
from keras_vit.models.builders import build
from keras_vit.models.variants import find_variant

PREDICTED = 8  # batches of a call of `predict`
MEASURED = 4  # images that int8's scales are measured on


def prepare(contestant: dict):
    """The model's forward pass or training step."""
    return _prepare(contestant)


def recompute(contestant: dict):
    """A training step whose backward pass computes each block's insides again."""
    return _prepare(contestant, recompute=True)


def lora(contestant: dict):
    """A training step of LoRA of rank 8 on queries and values; the other weights are frozen."""
    from keras_vit.train.recipe import Adapt

    return _prepare(contestant, adapt=Adapt("lora", rank=8))


def probe(contestant: dict):
    """A training step of the classifier only."""
    from keras_vit.train.recipe import Adapt

    return _prepare(contestant, adapt=Adapt("probe"))


def cores(contestant: dict):
    """A training step, or the forward pass of `keras_vit.compiled`, whose parts the cores compute side by side."""
    from keras_vit.train.strategy import usable_cores

    if contestant["task"] == "forward":
        return compiled(contestant, parts=usable_cores())
    return _prepare(contestant, strategy="cores")


def compiled(contestant: dict, **options):
    """The forward pass of `keras_vit.compiled`, with its options."""
    import tensorflow as tf

    require_device(contestant["device"])
    answer = compiled_forward(_classifier(contestant), **options)
    images = tf.constant(batch_of(contestant["image_size"], contestant["batch"])[0])
    return (lambda: answer(images).numpy()), device_peak(contestant["device"])


def xla(contestant: dict):
    """The forward pass with all of it compiled by XLA."""
    return compiled(contestant, whole=True)


def frozen(contestant: dict):
    """The forward pass with the weights as they are then."""
    return compiled(contestant, frozen=True)


def predict(contestant: dict):
    """Keras's `predict` of `PREDICTED` batches: its users give it many, which share what a call costs.

    They come from NumPy, on TensorFlow as a dataset without tuning, for whose end `predict` waits otherwise.
    """
    require_device(contestant["device"])
    batch = contestant["batch"]
    model, images = _classifier(contestant), batch_of(contestant["image_size"], PREDICTED * batch)[0]
    if keras.backend.backend() == "tensorflow":
        from keras_vit.data.settings import batches_of_array

        images, batch = batches_of_array(images, batch), None
    call = lambda: model.predict(images, batch_size=batch, verbose=0)  # noqa: E731
    return call, device_peak(contestant["device"]), PREDICTED


def saved_model(contestant: dict):
    """The SavedModel that `keras-vit export` writes, loaded from disk."""
    _require_tensorflow("the SavedModel")
    import tensorflow as tf

    from keras_vit.export.precision import in_dtype
    from keras_vit.export.saved_model import load_signatures, write_saved_model

    require_device(contestant["device"])
    model, dtype = _classifier(contestant), contestant["dtype"]
    with tempfile.TemporaryDirectory() as folder:
        write_saved_model(in_dtype(model, dtype) if dtype == "bfloat16" else model, folder)
        answer = load_signatures(folder)["serving_default"]
    images = tf.constant(batch_of(contestant["image_size"], contestant["batch"])[0])
    return (lambda: answer(images=images)["logits"].numpy()), device_peak(contestant["device"])


def saved_model_frozen(contestant: dict):
    """The SavedModel in a process whose TensorFlow is told that weights do not change, as a server's may be."""
    os.environ["TF_ONEDNN_ASSUME_FROZEN_WEIGHTS"] = "1"  # read with the first product
    return saved_model(contestant)


def openvino(contestant: dict, calibration: np.ndarray | None = None):
    """The file that `keras-vit export` writes for OpenVINO, which computes in the contestant's type."""
    _require_tensorflow("the file for OpenVINO")
    from keras_vit.export.openvino import runner, write_openvino

    require_device(contestant["device"])
    images = batch_of(contestant["image_size"], contestant["batch"])[0]
    with tempfile.TemporaryDirectory() as folder:
        write_openvino(_classifier(contestant), Path(folder) / "model.xml", calibration)
        answer = runner(Path(folder) / "model.xml", "float32" if contestant["dtype"] == "float32" else "bfloat16")
    return (lambda: answer(images=images)["logits"]), device_peak(contestant["device"])


def openvino_int8(contestant: dict):
    """The same in integers of 8 bits, all else in the contestant's type; how fast it is does not hang on the scales."""
    return openvino(contestant, batch_of(contestant["image_size"], MEASURED)[0])


def _require_tensorflow(what: str) -> None:
    if keras.backend.backend() != "tensorflow":
        raise ValueError(f"{what} is of Keras on TensorFlow alone, not on {keras.backend.backend()}")


def row_of(contestant: dict):
    """The row of the table that a contestant means, as deep as it says."""
    row, _ = find_variant(contestant["model"])
    return row if contestant["depth"] is None else dataclasses.replace(row, depth=contestant["depth"])


def _prepare(contestant, **options):
    require_device(contestant["device"])
    row, size, batch, dtype = row_of(contestant), *(contestant[name] for name in ("image_size", "batch", "dtype"))
    peak = device_peak(contestant["device"])
    if contestant["task"] == "train" and keras.backend.backend() == "tensorflow":
        return _engine_step(row, size, batch, dtype, **options), peak
    shape, (images, labels) = (size, size, 3), batch_of(size, batch)
    if contestant["task"] == "train":
        model = build(row, input_shape=shape, classes=CLASSES, classifier_activation=None, dtype=dtype)
        return jax_step(model, images, labels), peak
    return forward(_classifier(contestant), images), peak


def _classifier(contestant):
    """A model without weights that are all zeros, as a new one's biases are: nobody computes with them as constants."""
    size = contestant["image_size"]
    model = build(row_of(contestant), input_shape=(size, size, 3), classes=CLASSES, dtype=contestant["dtype"])
    generator = np.random.default_rng(0)
    for weight in model.weights:
        if not weight.numpy().any():
            weight.assign(generator.normal(0, 0.02, weight.shape))
    return model


def _engine_step(row, size, batch, dtype, recompute=False, strategy="one", adapt=None):
    """An update as `keras-vit train` makes it."""
    import tensorflow as tf

    from keras_vit.models.variants import ConvNet
    from keras_vit.train.recipe import Data, Model, Optimizer, Recipe
    from keras_vit.train.stages import spans_of
    from keras_vit.train.state import first_state
    from keras_vit.train.step import compiled_steps
    from keras_vit.train.strategy import choose

    devices = choose(strategy, batch)
    pooling = "gap" if isinstance(row, ConvNet) or row.axial else "token"
    recipe = Recipe(
        "benchmark", Model(row, image_size=size, pooling=pooling), Data(batch_size=batch),
        optimizer=Optimizer("adamw", RATE, weight_decay=DECAY), precision=dtype, steps=1_000_000, recompute=recompute,
        adapt=adapt,
    )  # fmt: skip
    state = first_state(recipe, tuple(map(str, range(CLASSES))), recipe.steps, devices.strategy)
    run = compiled_steps(recipe, state, devices.strategy, spans_of(recipe, recipe.steps)[0], devices.cores)
    images, labels = batch_of(size, batch)
    # The same batch again and again, so that no data pipeline counts.
    batches = iter(tf.data.Dataset.from_tensors((images, tf.one_hot(labels, CLASSES))).repeat())

    def call():
        run(batches, tf.constant(1))
        return state.counters.tally.numpy()

    return call
