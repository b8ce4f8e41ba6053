"""The table of formats: how each is written and judged; `keras_vit.exported` reads them back."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from keras_vit.export import onnx, openvino, parity, saved_model, tflite
from keras_vit.export.precision import in_dtype
from keras_vit.exported.folders import FILES
from keras_vit.exported.run import load_signatures, signatures_of


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
        free_size: whether it holds a model of a free image size.
        by_default: whether it is written where no formats are named.
        calibrated: whether it needs images to measure the scales of integers on.
    """

    write: Callable
    load: Callable
    tolerance: parity.Tolerance
    free_size: bool = True
    by_default: bool = True
    calibrated: bool = False


def _saved_model(model, folder: Path, chosen: Settings) -> None:
    saved_model.write_saved_model(model if chosen.dtype is None else in_dtype(model, chosen.dtype), folder)


def _tflite(name: str, precision: str, tolerance: parity.Tolerance) -> Format:
    file, calibrated = FILES[name], precision in tflite.CALIBRATED

    def write(model, folder: Path, chosen: Settings) -> None:
        images = {"calibration": chosen.calibration} if calibrated else {}
        (folder / file).write_bytes(tflite.convert(model, precision, batch=chosen.batch, **images))

    return Format(
        write=write,
        load=functools.partial(load_signatures, name),
        tolerance=tolerance,
        free_size=False,
        by_default=not calibrated,
        calibrated=calibrated,
    )


def _one_file(name: str, write, calibrated: bool = False) -> Format:
    def written(model, folder: Path, chosen: Settings) -> None:
        write(model, folder / FILES[name], **({"calibration": chosen.calibration} if calibrated else {}))

    return Format(
        write=written,
        load=functools.partial(load_signatures, name),
        tolerance=parity.CALIBRATED if calibrated else parity.EXACT,
        by_default=False,
        calibrated=calibrated,
    )


FORMATS = {
    "saved_model": Format(_saved_model, signatures_of, parity.EXACT),
    "tflite": _tflite("tflite", "float32", parity.EXACT),
    "tflite-fp16": _tflite("tflite-fp16", "float16", parity.REDUCED),
    "tflite-int8-dynamic": _tflite("tflite-int8-dynamic", "int8-dynamic", parity.REDUCED),
    "onnx": _one_file("onnx", onnx.write_onnx),
    "openvino": _one_file("openvino", openvino.write_openvino),
    "openvino-int8": _one_file("openvino-int8", openvino.write_openvino, calibrated=True),
    "tflite-int8": _tflite("tflite-int8", "int8", parity.CALIBRATED),
    "tflite-int16x8": _tflite("tflite-int16x8", "int16x8", parity.CALIBRATED),
}


def default_formats(free_size: bool) -> tuple[str, ...]:
    """Those that are written where none are named, of a model of a free image size or of a known one."""
    return tuple(name for name, form in FORMATS.items() if form.by_default and (form.free_size or not free_size))
