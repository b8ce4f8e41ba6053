"""A Keras model -> a version folder of files that were compared with it."""

import functools
import json
import os
from dataclasses import replace
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from keras_vit.composed import flattened
from keras_vit.export import parity, saved_model
from keras_vit.export.card import model_card
from keras_vit.export.formats import FORMATS, Settings, default_formats
from keras_vit.export.origin import Origin
from keras_vit.export.precision import whole_float32
from keras_vit.export.report import ExportReport, files_of, manifest
from keras_vit.export.versions import write_version
from keras_vit.exported.folders import require_formats
from keras_vit.models.interface import describe
from keras_vit.preprocess import preprocess_input, resize
from keras_vit.private import layers_of

DTYPES = ("float32", "bfloat16")


@whole_float32()
def export(
    model: keras.Model,
    output: str | os.PathLike,
    images=None,
    labels=None,
    formats=None,
    dtype: str | None = None,
    batch: int | None = 1,
    origin: Origin | None = None,
    calibration=None,
) -> ExportReport:
    """Write the next version of a model, after comparing every file with the Keras model.

    Args:
        model: a model of this package.
        output: the folder of the versions, `saved_models/NAME`; a version in it is never overwritten.
        images: (N, H, W, C) real images of the model's size, pixels 0..255, to compare on; random ones where None.
        labels: (N,) the images' classes, for the accuracy; unknown where None.
        formats: some of `FORMATS`: `saved_model` (the version's folder itself), `tflite` (`model.tflite` in it),
            `tflite-fp16`, `tflite-int8-dynamic`, which are written where None (of a free image size `saved_model`
            alone); `onnx` (`model.onnx`), `openvino` (`model.xml`); `openvino-int8`
            (`model-int8.xml`), `tflite-int8`, `tflite-int16x8`, for which `calibration` is needed.
        dtype: `float32` or `bfloat16`, which the SavedModel stores and computes in; the model's own where None.
        batch: images a call of the TFLite files; None for any number.
        origin: of the weights, for the manifest and the model card.
        calibration: (M, H, W, C) real images, pixels 0..255, best other than `images`: what the scales of integer
            activations are measured on; a hundred are enough. The card says how many are among `images`.

    Returns:
        A report to print; the same figures stand in the version's `manifest.json`.

    Raises:
        ValueError: an argument is out of range, a format cannot hold the model, or a file disagrees with the
            model; nothing is left behind then.
    """
    model = flattened(model)
    if dtype not in (None, *DTYPES):
        raise ValueError(f"dtype expected one of {DTYPES}, received {dtype!r}.")
    if batch is not None and (not isinstance(batch, int) or batch < 1):
        raise ValueError(f"batch expected a positive int or None, received {batch!r}.")
    if formats is None:
        formats = default_formats(None in describe(model).input_shape)
    require_formats(formats)
    _require_float_or_alone(model, formats, dtype)
    if calibration is None and (missing := [name for name in formats if FORMATS[name].calibrated]):
        raise ValueError(f"calibration expected real images for {', '.join(missing)}, received None.")
    measured = None if calibration is None else parity.take_pixels(describe(model), calibration, "calibration")[1]
    sample, chosen = parity.take_sample(model, images, labels), Settings(dtype, batch, measured)
    origin, reports = origin or Origin(), []

    def fill(folder: Path) -> None:
        rows = tuple(row for name in formats for row in _write(name, model, folder, sample, chosen))
        counted, shared = (0, 0) if measured is None else (len(measured), _shared(measured, sample.inputs))
        real = images is not None
        report = ExportReport(folder, model.name, len(sample.pixels), real, sample.accuracy, rows, counted, shared)
        (folder / "model_card.md").write_text(model_card(model, report, origin), encoding="utf-8")
        text = json.dumps(manifest(model, folder, report, origin), indent=1, ensure_ascii=False)
        (folder / "manifest.json").write_text(text + "\n", encoding="utf-8")
        reports.append(report)

    path = write_version(output, fill)
    return replace(reports[0], path=path)


def _require_float_or_alone(model, formats, dtype):
    """Raise a ValueError where a quantized model is asked for in anything but a SavedModel of its own types."""
    modes = sorted({layer.quantization_mode for layer in layers_of(model) if layer.quantization_mode})
    if modes and (dtype is not None or list(formats) != ["saved_model"]):
        raise ValueError(
            f"formats expected ['saved_model'] and dtype None of a model quantized to {', '.join(modes)}, received "
            f"{list(formats)} and {dtype!r}: export the float model, whose integer formats quantize it themselves."
        )


def _write(name: str, model, folder: Path, sample: parity.Sample, chosen: Settings) -> list[parity.Comparison]:
    """Write one format and compare all its signatures; raises where one is past the tolerance."""
    form = FORMATS[name]
    exact = all(layer.compute_dtype == "float32" for layer in model.layers)
    exact = exact and not (name == "saved_model" and chosen.dtype == "bfloat16")
    tolerance = form.tolerance if exact else form.tolerance.or_looser(parity.REDUCED)
    before = set(files_of(folder))
    form.write(model, folder, chosen)
    size = sum(file.stat().st_size for file in files_of(folder) if file not in before)
    rows, inside = [], functools.cache(lambda: _inside(model, sample))
    for signature, function in form.load(folder).items():
        if signature in _READ:
            answers = _READ[signature](model, sample, function)
        else:
            answers = _compared(inside()[signature], sample, function)
        for output, expected, received in answers:
            found = parity.figures(output, expected, received, sample.labels)
            row = parity.Comparison(name, signature, output, size, **found)
            parity.require(row, tolerance, expected)
            timed = signature == "serving_default"
            rows.append(replace(row, latency=parity.latency(function, sample.inputs)) if timed else row)
    return rows


def _shared(measured: np.ndarray, compared: np.ndarray) -> int:
    """How many images of the first array are in the second, too."""
    known = {image.tobytes() for image in compared}
    return sum(image.tobytes() in known for image in measured)


def _floats(model, sample, function):
    received = parity.in_batches(lambda images: function(images=images), sample.inputs)
    return [(sample.output, sample.expected[sample.output], received[sample.output])]


def _encoded(model, sample, function):
    """The images as PNG files, which hold 8-bit pixels without loss; what is no 8-bit pixel is rounded first."""
    interface = describe(model)
    pixels = np.clip(np.round(sample.pixels), 0, 255)
    files = [tf.io.encode_png(image.astype("uint8")).numpy() for image in pixels]
    received = parity.in_batches(lambda data: function(image_bytes=tf.constant(data)), files)["probabilities"]
    seen = np.asarray(resize(pixels, interface.image_size))
    if np.array_equal(seen, sample.pixels):
        return [("probabilities", sample.expected["probabilities"], received)]
    inputs = seen if interface.takes_pixels else preprocess_input(seen)
    return [("probabilities", parity.keras_answer(model, inputs)["probabilities"], received)]


_READ = {"serving_default": _floats, "classify_bytes": _encoded}


def _inside(model, sample) -> dict[str, dict[str, np.ndarray]]:
    """What the Keras model answers to the other signatures, by signature and output, computed untraced in one pass."""
    infer = saved_model.inference_function(model)

    def others(images):
        answers = {signature: found for signature, found in infer(images).items() if signature not in _READ}
        return {(signature, name): value for signature, found in answers.items() for name, value in found.items()}

    expected = {}
    for (signature, name), values in parity.in_batches(others, sample.inputs).items():
        expected.setdefault(signature, {})[name] = values
    return expected


def _compared(expected, sample, function):
    received = parity.in_batches(lambda images: function(images=images), sample.inputs)
    return [(name, expected[name], received[name]) for name in sorted(expected)]
