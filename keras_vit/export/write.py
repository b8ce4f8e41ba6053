"""Export a Keras model to a version folder of files, each compared with the model."""

import json
import os
from dataclasses import replace
from pathlib import Path

import keras
import numpy as np

from keras_vit.composed import flattened
from keras_vit.export import parity
from keras_vit.export.adapters import check_adapters, owner_of
from keras_vit.export.card import model_card
from keras_vit.export.expected import Expected
from keras_vit.export.formats import FORMATS, default_formats, require_formats
from keras_vit.export.origin import Origin
from keras_vit.export.precision import without_tensor_float_32
from keras_vit.export.report import ExportReport, files_of, manifest
from keras_vit.export.tolerance import REDUCED
from keras_vit.export.versions import write_version
from keras_vit.export.write_options import WriteOptions
from keras_vit.models.adapt import merged_if_adapted
from keras_vit.models.model_interface import model_interface
from keras_vit.private import layers_of

DTYPES = ("float32", "bfloat16")


@without_tensor_float_32()
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
    evaluation: dict | None = None,
    adapters: dict[str, keras.Model] | None = None,
) -> ExportReport:
    """Write the next version of a model, and compare every file with the Keras model.

    Args:
        model: a model of this package. LoRA adapters and SSF factors are merged into its kernels.
        output: folder of the versions, `saved_models/NAME`. No version in it is overwritten.
        images: (N, H, W, C) real images in the model's size with pixels in 0..255, for the comparison; random pixels
            if None.
        labels: (N,) classes of the images, for the accuracy; None if unknown.
        formats: names of formats, keys of `FORMATS`. If None, the SavedModel and the TFLite formats without
            calibration are written; of a model with a free image size, or without `ai-edge-litert`, only the
            SavedModel.
        dtype: `float32` or `bfloat16`, in which the SavedModel stores weights and computes; the model's own if None.
        batch: batch size of the TFLite files; None if it is free.
        origin: origin of the weights, for the manifest and the model card.
        calibration: (M, H, W, C) real images with pixels in 0..255, preferably not among `images`. The ranges of
            integer activations are measured on them. A hundred images are enough.
        evaluation: content of a `results.json` of `keras-vit evaluate --data` about these weights, for the model card.
        adapters: models of `keras_vit.load_adapter` on `model`, by name. The SavedModel stores common weights once, and
            gets the signatures NAME and NAME_classify_bytes for each of them. Other formats are not written.

    Returns:
        The report, which prints as a table. `manifest.json` in the version folder has the same values.

    Raises:
        ValueError: an argument is out of range, a format cannot store the model, or a file differs from the model. No
            files are left.
    """
    model = merged_if_adapted(flattened(model))
    interface, adapters = model_interface(model), adapters or {}
    _check_options(dtype, batch)
    formats = _default_formats(interface, adapters) if formats is None else formats
    _check_formats(model, formats, dtype, calibration, adapters)
    if calibration is not None:
        _, calibration = parity.take_pixels(interface, calibration, "calibration")
    sample, options = parity.take_sample(model, images, labels), WriteOptions(dtype, batch, calibration, adapters)
    reports = []

    def fill(folder: Path) -> None:
        rows = tuple(row for name in formats for row in _write(name, model, folder, sample, options))
        count, shared = (0, 0) if calibration is None else (len(calibration), _shared(calibration, sample.inputs))
        real = images is not None
        report = ExportReport(folder, model.name, len(sample.pixels), real, sample.accuracy, rows, count, shared)
        _describe(folder, model, report, origin or Origin(), evaluation, adapters)
        reports.append(report)

    path = write_version(output, fill)
    return replace(reports[0], path=path)


def _check_options(dtype, batch) -> None:
    """Raise a ValueError if an option is out of range."""
    if dtype not in (None, *DTYPES):
        raise ValueError(f"dtype expected one of {DTYPES}, received {dtype!r}.")
    if batch is not None and (not isinstance(batch, int) or batch < 1):
        raise ValueError(f"batch expected a positive int or None, received {batch!r}.")


def _default_formats(interface, adapters):
    return ("saved_model",) if adapters else default_formats(None in interface.input_shape)


def _check_formats(model, formats, dtype, calibration, adapters) -> None:
    """Raise a ValueError if a format is unknown, does not accept the model, or has no calibration images."""
    require_formats(formats)
    check_adapters(model, adapters, formats)
    modes = sorted({layer.quantization_mode for layer in layers_of(model) if layer.quantization_mode})
    if modes and (dtype is not None or list(formats) != ["saved_model"]):
        raise ValueError(
            f"formats expected ['saved_model'] and dtype None of a model quantized to {', '.join(modes)}, received "
            f"{list(formats)} and {dtype!r}: export the float model, whose integer formats quantize it themselves."
        )
    if calibration is None and (missing := [name for name in formats if FORMATS[name].calibrated]):
        raise ValueError(f"calibration expected real images for {', '.join(missing)}, received None.")


def _describe(folder: Path, model, report: ExportReport, origin: Origin, evaluation, adapters: dict) -> None:
    """Write the model card and the manifest."""
    (folder / "model_card.md").write_text(model_card(model, report, origin, evaluation), encoding="utf-8")
    content = manifest(model, folder, report, origin)
    content |= {"adapters": {name: model_interface(m).labels for name, m in adapters.items()}} if adapters else {}
    text = json.dumps(content, indent=1, ensure_ascii=False)
    (folder / "manifest.json").write_text(text + "\n", encoding="utf-8")


def _write(name: str, model, folder: Path, sample: parity.Sample, options: WriteOptions) -> list[parity.Comparison]:
    """Write one format and compare all its signatures with the model.

    Raises:
        ValueError: a difference exceeds the tolerance.
    """
    row = FORMATS[name]
    exact = all(layer.compute_dtype == "float32" for layer in model.layers)
    exact = exact and not (name == "saved_model" and options.dtype == "bfloat16")
    tolerance = row.tolerance if exact else row.tolerance.or_looser(REDUCED)
    before = set(files_of(folder))
    row.module.write(model, folder / row.file, replace(options, precision=row.precision))
    size = sum(file.stat().st_size for file in files_of(folder) if file not in before)
    comparisons, signatures = [], row.module.load(folder / row.file)
    expected = {None: Expected(model, sample)}
    expected |= {adapter: Expected(m, parity.take_sample(m, sample.pixels)) for adapter, m in options.adapters.items()}
    if name == "saved_model" and (missing := sorted(expected[None].signatures - signatures.keys())):
        raise ValueError(f"{name} expected the signatures of the model, received none named {', '.join(missing)}.")
    for signature, function in signatures.items():
        adapter, meaning = owner_of(signature, options.adapters)
        labels = sample.labels if adapter is None else None
        for output, values, received in expected[adapter].compare(name, meaning, function):
            figures = parity.figures(output, values, received, labels)
            comparison = parity.Comparison(name, signature, output, size, **figures)
            parity.require(comparison, tolerance, values)
            if signature != "serving_default":
                comparisons.append(comparison)
            elif output == sample.output:  # the report shows logits only, not the probabilities, too
                comparisons.append(replace(comparison, latency=parity.latency(function, sample.inputs)))
    return comparisons


def _shared(calibration: np.ndarray, compared: np.ndarray) -> int:
    """Return how many calibration images are also compared on."""
    known = {image.tobytes() for image in compared}
    return sum(image.tobytes() in known for image in calibration)
