"""Report an export: a table to print, and `manifest.json`."""

import json
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

import keras

from keras_vit import __version__
from keras_vit.export.origin import Origin, digest
from keras_vit.export.parity import Comparison
from keras_vit.layers import Head, OrdinalHead, RegressionHead
from keras_vit.models.model_interface import model_interface

_COLUMNS = (
    *("format", "signature", "output", "size", "max |diff|", "mean |diff|", "error"),
    *("agreement", "accuracy", "ms/image"),
)


@dataclass(frozen=True)
class ExportReport:
    """The written formats and their comparison with the Keras model. `str` returns the table.

    Args:
        path: the version folder.
        model: name of the Keras model.
        images: number of images of the comparison.
        real: False if the images are random pixels.
        accuracy: accuracy of the Keras model on the images, in [0, 1]; None without labels.
        rows: the comparisons, one per format, signature and output.
        calibration: number of calibration images.
        shared: number of calibration images that are also compared on.
    """

    path: Path
    model: str
    images: int
    real: bool
    accuracy: float | None
    rows: tuple[Comparison, ...]
    calibration: int = 0
    shared: int = 0

    def table(self) -> list[tuple[str, ...]]:
        """Return the cells, first the names of the columns. Empty columns are left out."""
        lines = [_COLUMNS]
        if self.accuracy is not None:
            lines.append(("keras", *[""] * 7, _percent(self.accuracy), ""))
        for row in self.rows:
            differences = (_difference(row.max_difference), _difference(row.mean_difference))
            shares = (_percent(row.error), _percent(row.agreement), _percent(row.accuracy))
            time = "" if row.latency is None else f"{row.latency:.2f}"
            lines.append((row.format, row.signature, row.output, _file_size(row.size), *differences, *shares, time))
        shown = [column for column in zip(*lines, strict=True) if any(column[1:])]
        return list(zip(*shown, strict=True))

    def __str__(self):
        shown = list(zip(*self.table(), strict=True))
        widths = [max(map(len, column)) for column in shown]
        aligns = ["<" if column[0] in _COLUMNS[:3] else ">" for column in shown]
        table = [
            "  ".join(f"{cell:{a}{w}}" for cell, a, w in zip(line, aligns, widths, strict=True))
            for line in zip(*shown, strict=True)
        ]
        images = f"{self.images} {'images' if self.real else 'images of random pixels'}"
        return "\n".join([f"{self.path}: {self.model}, compared on {images}", *map(str.rstrip, table)])

    def as_dict(self) -> dict:
        """Return the table as JSON values."""
        return {
            "images": self.images,
            "real": self.real,
            "calibration_images": self.calibration,
            "calibration_images_compared_on": self.shared,
            "keras_accuracy": self.accuracy,
            "rows": [asdict(row) for row in self.rows],
        }


def _percent(share: float | None) -> str:
    return "" if share is None else f"{share:.2%}"


def _difference(value: float) -> str:
    return f"{value:.1e}" if value else "0"


def _file_size(size: int) -> str:
    return f"{size / 1e6:.2f} MB" if size >= 1e6 else f"{size / 1e3:.1f} kB"


def manifest(model: keras.Model, folder: Path, report: ExportReport, origin: Origin) -> dict:
    """Return the content of `manifest.json`: interface and config of the model, origin, versions, checksums, parity."""
    interface = model_interface(model)
    return {
        "model": model.name,
        "parameters": model.count_params(),
        "source": asdict(origin),
        "input": {
            "shape": interface.input_shape,
            "image_size": interface.image_size,
            "range": interface.input_range,
            "preprocessing": asdict(interface.preprocessing),
            "exif": True,  # `classify_bytes` applies EXIF orientations; older exports have no such entry
        },
        "classes": interface.classes,
        "labels": interface.labels,
        "temperature": temperature_of(model),
        **({"thresholds": interface.thresholds} if interface.thresholds else {}),
        **({"targets": interface.targets} if interface.targets else {}),
        **({"ordered": True} if interface.ordered else {}),
        "versions": {
            "keras_vit": __version__,
            "keras": keras.__version__,
            "tensorflow": version("tensorflow"),
        },
        "config": json.loads(model.to_json()),
        "files": {str(file.relative_to(folder)): _entry(file) for file in files_of(folder)},
        "parity": report.as_dict(),
    }


def temperature_of(model: keras.Model) -> float | None:
    """Return the temperature in the weights of the head, 1 without calibration; None without a head of this package."""
    heads = [layer for layer in model.layers if isinstance(layer, Head)]
    return next((head.temperature for head in heads if not isinstance(head, OrdinalHead | RegressionHead)), None)


def files_of(folder: Path) -> list[Path]:
    """Return all files below a folder, sorted."""
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _entry(path: Path) -> dict:
    return {"size": path.stat().st_size, "sha256": digest(path)}
