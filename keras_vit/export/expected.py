"""Compute the expected outputs of every signature by code that exports do not use.

N images, k best classes.
"""

import functools
from collections.abc import Callable

import keras
import numpy as np
import tensorflow as tf

from keras_vit.analysis import rollout_maps
from keras_vit.analysis.capturing import attends_by_shares
from keras_vit.export import parity
from keras_vit.models.features import feature_model
from keras_vit.models.model_interface import model_interface
from keras_vit.preprocessing.inputs import load_image

TOP_K = 5
ROLLOUT_BATCH = 4  # images whose attention weights are in memory at the same time


class Expected:
    """The expected outputs of a model's signatures, each computed on first use.

    Args:
        model: the Keras model.
        sample: the images, and the model's outputs.
    """

    def __init__(self, model: keras.Model, sample: parity.Sample):
        self._model, self._sample = model, sample

    def compare(self, name: str, signature: str, function: Callable) -> list[tuple[str, np.ndarray, np.ndarray]]:
        """Call a signature and return (output, expected values, received values) for each output to compare.

        Args:
            name: name of the format.
            signature: name of the signature.
            function: a function of named arrays that returns outputs by name.

        Raises:
            ValueError: the signature is unknown, or its outputs have unexpected names or shapes.
        """
        what = f"{name} ({signature})"
        if signature not in self.signatures:
            raise ValueError(f"{what} expected one of the signatures {sorted(self.signatures)}.")
        if signature in ("classify_bytes", "regress_bytes"):
            return self._compare_files(what, function)
        if signature == "serving_default":
            expected = self._outputs
        else:
            expected = self._features if signature == "features" else self._attention
        received = in_two_batch_sizes(lambda images: function(images=images), self._sample.inputs, expected, what)
        return [(output, expected[output], received[output]) for output in expected]

    @property
    def signatures(self) -> set[str]:
        """Return the signatures that a SavedModel of the model must have."""
        interface = model_interface(self._model)
        reads_files = interface.image_size is not None and interface.input_shape[2] in (1, 3)
        present = {"classify_bytes": reads_files and interface.classes is not None,
                   "regress_bytes": reads_files and interface.targets,
                   "features": self._feature_layers, "attention": self._has_attention}  # fmt: skip
        return {"serving_default", *(name for name, is_present in present.items() if is_present)}

    @property
    def _outputs(self):
        """The output that reports show comes first."""
        return dict(sorted(self._sample.expected.items(), key=lambda item: item[0] != self._sample.output))

    @functools.cached_property
    def _feature_layers(self) -> dict[str, str]:
        """Output of the signature `features` -> name of its layer."""
        names = [layer.name for layer in self._model.layers]
        blocks = sorted(name for name in names if name.startswith("encoder_block_"))
        candidates = {"pooled": ("pooled_norm", "pooling"), "tokens": ("encoder_norm", *blocks[-1:])}
        present = {output: [name for name in layers if name in names] for output, layers in candidates.items()}
        return {output: layers[0] for output, layers in present.items() if layers}

    @functools.cached_property
    def _features(self):
        features = feature_model(self._model, list(self._feature_layers.values()))

        def outputs(images):
            values = features(images, training=False)
            values = values if len(self._feature_layers) > 1 else [values]
            as_float32 = (keras.ops.convert_to_numpy(keras.ops.cast(value, "float32")) for value in values)
            return dict(zip(self._feature_layers, as_float32, strict=True))

        return parity.in_batches(outputs, self._sample.inputs)

    @property
    def _has_attention(self) -> bool:
        return attends_by_shares(self._model)

    @functools.cached_property
    def _attention(self):
        rollout = lambda images: {"rollout": rollout_maps(self._model, images)}  # noqa: E731
        return parity.in_batches(rollout, self._sample.inputs, ROLLOUT_BATCH)

    def _compare_files(self, what, function):
        """Compare on PNG files, which store 8-bit pixels without loss. Other pixels are rounded first."""
        interface, sample = model_interface(self._model), self._sample
        pixels = np.clip(np.round(sample.pixels), 0, 255)
        files = np.array([tf.io.encode_png(image.astype("uint8")).numpy() for image in pixels], object)
        shape, spec = interface.image_shape, interface.preprocessing
        resized = np.stack([load_image(data, shape, spec) for data in files])
        outputs = sample.expected
        if not np.array_equal(resized, sample.pixels):
            outputs = parity.keras_outputs(self._model, interface.inputs_of(resized))
        if interface.targets:
            return self._compare_values(what, function, files, outputs["values"])
        probabilities = outputs["probabilities"]
        best = np.zeros((len(files), min(TOP_K, interface.classes)))
        shapes = {"probabilities": probabilities, "scores": best, "labels": best, "error": np.zeros(len(files))}
        received = in_two_batch_sizes(_of_files(function), files, shapes, what)
        if np.isfinite(received["probabilities"]).all():  # otherwise the comparison of the probabilities fails
            _require_best(what, received, interface.labels)
        return [("probabilities", probabilities, received["probabilities"])]

    def _compare_values(self, what, function, files, values):
        names = np.array([name.encode() for name in model_interface(self._model).targets], object)
        shapes = {"values": values, "targets": np.zeros(values.shape), "error": np.zeros(len(files))}
        received = in_two_batch_sizes(_of_files(function), files, shapes, what)
        for output, wanted in (("targets", names), ("error", b"")):
            if not np.all(received[output] == wanted):
                raise ValueError(f"{what} expected {output} of the model, received others.")
        return [("values", values, received["values"])]


def _of_files(function):
    """Return a function of encoded files that calls a signature with them."""
    return lambda data: function(image_bytes=tf.constant(list(data)))


def _require_best(what, received, labels):
    """Raise a ValueError unless scores and labels match the highest probabilities and `error` is empty."""
    probabilities, count = received["probabilities"], received["scores"].shape[1]
    order = np.argsort(-probabilities, axis=1, kind="stable")[:, :count]  # (N, k), ties by index as in TensorFlow
    names = np.array([label.encode() for label in labels], object)[order]
    wanted = {"scores": np.take_along_axis(probabilities, order, axis=1), "labels": names, "error": b""}
    for output, values in wanted.items():
        if not np.all(received[output] == values):
            raise ValueError(f"{what} expected {output} that follow from its probabilities, received others.")


def in_two_batch_sizes(function, inputs: np.ndarray, expected: dict, what: str) -> dict[str, np.ndarray]:
    """Call a signature with one input, then with batches of two or more. Return its outputs for all inputs.

    Args:
        function: a function of a batch of inputs that returns outputs by name.
        inputs: (N, ...) inputs.
        expected: the expected outputs by name, (N, ...) each.
        what: name of the format and the signature in error messages.

    Raises:
        ValueError: the outputs have unexpected names or shapes.
    """
    indices = [i % len(inputs) for i in range(max(3, len(inputs)))]
    batches = [indices[:1], *(indices[i : i + parity.BATCH] for i in range(1, len(indices), parity.BATCH))]
    received = {name: [] for name in expected}
    for batch in batches:
        outputs = {name: np.asarray(value) for name, value in function(inputs[batch]).items()}
        if outputs.keys() != expected.keys():
            raise ValueError(f"{what} expected the outputs {sorted(expected)}, received {sorted(outputs)}.")
        for name, values in outputs.items():
            shape = (len(batch), *expected[name].shape[1:])
            if values.shape != shape:
                raise ValueError(f"{what} expected {name} of shape {shape}, received {values.shape}.")
            received[name].append(values)
    return {name: np.concatenate(values)[: len(inputs)] for name, values in received.items()}
