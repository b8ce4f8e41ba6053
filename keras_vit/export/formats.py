"""The table of formats: how each is written, read back and judged."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from keras_vit.export import onnx, openvino, parity, saved_model, tflite
from keras_vit.export.precision import in_dtype


@dataclass(frozen=True)
class Settings:
    """What a caller may choose beside the formats.

    Args:
        dtype: that the SavedModel stores and computes in; the model's own where None.
        batch: images a call of a TFLite file; None for any number.
        calibration: (N, H, W, C) images in the model's range, to measure the scales of integers on; None without.
    """

    dtype: str | None = None
    batch: int | None = 1
    calibration: np.ndarray | None = None


@dataclass(frozen=True)
class Format:
    """One kind of file.

    Args:
        write: (model, folder, settings) -> anything; writes the files into the version's folder.
        load: folder -> functions by signature; reads the files back.
        tolerance: what it may differ by where the model itself computes in float32.
        file: whose presence in a version's folder says that the format is there.
        free_size: whether it holds a model of a free image size.
        by_default: whether it is written where no formats are named.
        calibrated: whether it needs images to measure the scales of integers on.
    """

    write: Callable
    load: Callable
    tolerance: parity.Tolerance
    file: str = ""
    free_size: bool = True
    by_default: bool = True
    calibrated: bool = False


def _saved_model(model, folder: Path, chosen: Settings) -> None:
    saved_model.write_saved_model(model if chosen.dtype is None else in_dtype(model, chosen.dtype), folder)


def _tflite(file: str, precision: str, tolerance: parity.Tolerance) -> Format:
    calibrated = precision in tflite.CALIBRATED

    def write(model, folder: Path, chosen: Settings) -> None:
        images = {"calibration": chosen.calibration} if calibrated else {}
        (folder / file).write_bytes(tflite.convert(model, precision, batch=chosen.batch, **images))

    return Format(
        write=write,
        load=lambda folder: {"serving_default": tflite.runner((folder / file).read_bytes())},
        tolerance=tolerance,
        file=file,
        free_size=False,
        by_default=not calibrated,
        calibrated=calibrated,
    )


def _one_file(file: str, write, runner, calibrated: bool = False) -> Format:
    def written(model, folder: Path, chosen: Settings) -> None:
        write(model, folder / file, **({"calibration": chosen.calibration} if calibrated else {}))

    return Format(
        write=written,
        load=lambda folder: {"serving_default": runner(folder / file)},
        tolerance=parity.CALIBRATED if calibrated else parity.EXACT,
        file=file,
        by_default=False,
        calibrated=calibrated,
    )


FORMATS = {
    "saved_model": Format(_saved_model, saved_model.signatures_of, parity.EXACT, file="saved_model.pb"),
    "tflite": _tflite("model.tflite", "float32", parity.EXACT),
    "tflite-fp16": _tflite("model-fp16.tflite", "float16", parity.REDUCED),
    "tflite-int8-dynamic": _tflite("model-int8-dynamic.tflite", "int8-dynamic", parity.REDUCED),
    "onnx": _one_file("model.onnx", onnx.write_onnx, onnx.runner),
    "openvino": _one_file("model.xml", openvino.write_openvino, openvino.runner),
    "openvino-int8": _one_file("model-int8.xml", openvino.write_openvino, openvino.runner, calibrated=True),
    "tflite-int8": _tflite("model-int8.tflite", "int8", parity.CALIBRATED),
    "tflite-int16x8": _tflite("model-int16x8.tflite", "int16x8", parity.CALIBRATED),
}


def default_formats(free_size: bool) -> tuple[str, ...]:
    """Those that are written where none are named, of a model of a free image size or of a known one."""
    return tuple(name for name, form in FORMATS.items() if form.by_default and (form.free_size or not free_size))
