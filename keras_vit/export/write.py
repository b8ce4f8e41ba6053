"""A Keras model -> a version folder of files that were compared with it."""

import json
import os
from dataclasses import replace
from pathlib import Path

import keras
import numpy as np

from keras_vit.composed import flattened
from keras_vit.export import parity
from keras_vit.export.card import model_card
from keras_vit.export.expected import Expected
from keras_vit.export.formats import FORMATS, Settings, default_formats
from keras_vit.export.origin import Origin
from keras_vit.export.precision import whole_float32
from keras_vit.export.report import ExportReport, files_of, manifest
from keras_vit.export.versions import write_version
from keras_vit.exported.folders import require_formats
from keras_vit.models.model_interface import model_interface
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
        formats = default_formats(None in model_interface(model).input_shape)
    require_formats(formats)
    _require_float_or_alone(model, formats, dtype)
    if calibration is None and (missing := [name for name in formats if FORMATS[name].calibrated]):
        raise ValueError(f"calibration expected real images for {', '.join(missing)}, received None.")
    measured = (
        None if calibration is None else parity.take_pixels(model_interface(model), calibration, "calibration")[1]
    )
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
    rows, expected, signatures = [], Expected(model, sample), form.load(folder)
    if name == "saved_model" and (missing := sorted(expected.signatures - signatures.keys())):
        raise ValueError(f"{name} expected the signatures of the model, received none named {', '.join(missing)}.")
    for signature, function in signatures.items():
        for output, values, received in expected.compare(name, signature, function):
            found = parity.figures(output, values, received, sample.labels)
            row = parity.Comparison(name, signature, output, size, **found)
            parity.require(row, tolerance, values)
            if signature != "serving_default":
                rows.append(row)
            elif output == sample.output:  # probabilities are compared, and not reported beside their logits
                rows.append(replace(row, latency=parity.latency(function, sample.inputs)))
    return rows


def _shared(measured: np.ndarray, compared: np.ndarray) -> int:
    """How many images of the first array are in the second, too."""
    known = {image.tobytes() for image in compared}
    return sum(image.tobytes() in known for image in measured)
