"""The expected outputs of every signature, from code that no export is made of.

N images, k best classes.
"""

import functools
from collections.abc import Callable

import keras
import numpy as np
import tensorflow as tf

from keras_vit.analysis import rollout_maps
from keras_vit.export import parity
from keras_vit.layers import EncoderBlock
from keras_vit.models.features import feature_model
from keras_vit.models.model_interface import model_interface
from keras_vit.preprocessing.inputs import preprocess_input, resize

TOP_K = 5
CAPTURED = 4  # images whose attention weights are in memory at once


class Expected:
    """The expected outputs of a model's signatures for a sample of images, each computed when it is first needed.

    Args:
        model: the Keras model.
        sample: the images, and the model's own outputs for them.
    """

    def __init__(self, model: keras.Model, sample: parity.Sample):
        self._model, self._sample = model, sample

    def compare(self, name: str, signature: str, function: Callable) -> list[tuple[str, np.ndarray, np.ndarray]]:
        """Call a signature and return (output, expected values, received values) for each output to compare.

        Args:
            name: the format.
            signature: the signature.
            function: of named tensors, returns outputs by name.

        Raises:
            ValueError: the signature is unknown, or it has other outputs or other shapes than expected.
        """
        what = f"{name} ({signature})"
        if signature not in self.signatures:
            raise ValueError(f"{what} expected one of the signatures {sorted(self.signatures)}.")
        if signature == "classify_bytes":
            return self._compare_files(what, function)
        if signature == "serving_default":
            expected = self._answer
        else:
            expected = self._features if signature == "features" else self._attention
        received = in_two_batch_sizes(lambda images: function(images=images), self._sample.inputs, expected, what)
        return [(output, expected[output], received[output]) for output in expected]

    @property
    def signatures(self) -> set[str]:
        """The signatures that a SavedModel of the model must have."""
        seen = model_interface(self._model)
        reads_files = seen.classes is not None and seen.image_size is not None and seen.input_shape[2] in (1, 3)
        found = {"serving_default", *["classify_bytes"] * reads_files, *["features"] * bool(self._stages)}
        return {*found, *["attention"] * self._attends}

    @property
    def _answer(self):
        """The model's own output first, which reports show."""
        return dict(sorted(self._sample.expected.items(), key=lambda item: item[0] != self._sample.output))

    @functools.cached_property
    def _stages(self) -> dict[str, str]:
        """Output of `features` -> the layer whose output it is."""
        names = [layer.name for layer in self._model.layers]
        blocks = sorted(name for name in names if name.startswith("encoder_block_"))
        choices = {"pooled": ("pooled_norm", "pooling"), "tokens": ("encoder_norm", *blocks[-1:])}
        found = {output: [name for name in layers if name in names] for output, layers in choices.items()}
        return {output: layers[0] for output, layers in found.items() if layers}

    @functools.cached_property
    def _features(self):
        features = feature_model(self._model, list(self._stages.values()))

        def outputs(images):
            found = features(images, training=False)
            found = found if len(self._stages) > 1 else [found]
            as_float32 = (keras.ops.convert_to_numpy(keras.ops.cast(value, "float32")) for value in found)
            return dict(zip(self._stages, as_float32, strict=True))

        return parity.in_batches(outputs, self._sample.inputs)

    @property
    def _attends(self) -> bool:
        blocks = [layer for layer in self._model.layers if layer.name.startswith("encoder_block_")]
        return bool(blocks) and all(isinstance(block, EncoderBlock) for block in blocks)

    @functools.cached_property
    def _attention(self):
        rollout = lambda images: {"rollout": rollout_maps(self._model, images)}  # noqa: E731
        return parity.in_batches(rollout, self._sample.inputs, CAPTURED)

    def _compare_files(self, what, function):
        """Send the images as PNG files, which hold 8-bit pixels without loss; other pixels are rounded first."""
        interface, sample = model_interface(self._model), self._sample
        pixels = np.clip(np.round(sample.pixels), 0, 255)
        files = np.array([tf.io.encode_png(image.astype("uint8")).numpy() for image in pixels], object)
        seen = np.asarray(resize(pixels, interface.image_size))
        if np.array_equal(seen, sample.pixels):
            probabilities = sample.expected["probabilities"]
        else:
            inputs = seen if interface.takes_pixels else preprocess_input(seen)
            probabilities = parity.keras_answer(self._model, inputs)["probabilities"]
        best = np.zeros((len(files), min(TOP_K, interface.classes)))
        shapes = {"probabilities": probabilities, "scores": best, "labels": best, "error": np.zeros(len(files))}
        call = lambda data: function(image_bytes=tf.constant(list(data)))  # noqa: E731
        received = in_two_batch_sizes(call, files, shapes, what)
        if np.isfinite(received["probabilities"]).all():  # else the comparison of the probabilities refuses them
            _require_best(what, received, interface.labels)
        return [("probabilities", probabilities, received["probabilities"])]


def _require_best(what, received, labels):
    """Raise a ValueError unless scores and labels are the best of the received probabilities, without errors."""
    probabilities, count = received["probabilities"], received["scores"].shape[1]
    order = np.argsort(-probabilities, axis=1, kind="stable")[:, :count]  # (N, k), ties by index as TensorFlow has them
    names = np.array([label.encode() for label in labels], object)[order]
    wanted = {"scores": np.take_along_axis(probabilities, order, axis=1), "labels": names, "error": b""}
    for output, values in wanted.items():
        if not np.all(received[output] == values):
            raise ValueError(f"{what} expected {output} that follow from its probabilities, received others.")


def in_two_batch_sizes(function, inputs: np.ndarray, expected: dict, what: str) -> dict[str, np.ndarray]:
    """Return a signature's outputs for all inputs, called with one input first and with two or more afterwards.

    Args:
        function: of a batch of inputs, returns outputs by name.
        inputs: (N, ...).
        expected: outputs by name, (N, ...) each.
        what: the format and the signature, for the error.

    Raises:
        ValueError: the outputs have other names, or a shape differs, the batch size included.
    """
    rows = [i % len(inputs) for i in range(max(3, len(inputs)))]
    parts = [rows[:1], *(rows[i : i + parity.BATCH] for i in range(1, len(rows), parity.BATCH))]
    received = {name: [] for name in expected}
    for part in parts:
        outputs = {name: np.asarray(value) for name, value in function(inputs[part]).items()}
        if outputs.keys() != expected.keys():
            raise ValueError(f"{what} expected the outputs {sorted(expected)}, received {sorted(outputs)}.")
        for name, values in outputs.items():
            shape = (len(part), *expected[name].shape[1:])
            if values.shape != shape:
                raise ValueError(f"{what} expected {name} of shape {shape}, received {values.shape}.")
            received[name].append(values)
    return {name: np.concatenate(values)[: len(inputs)] for name, values in received.items()}
