"""Write `model_card.md`, the description of a version."""

import keras

from keras_vit.export.card_evaluation import evaluation_section, markdown_table
from keras_vit.export.origin import Origin
from keras_vit.export.report import ExportReport, temperature_of
from keras_vit.models.model_interface import model_interface

_CALIBRATED = (
    "The ranges of integer activations were measured on {}. `tflite-int8` computes the matmuls with weights in int8 "
    "and the rest in float32. `openvino-int8` also computes the matmuls of attention in int8. `tflite-int16x8` "
    "computes in integers throughout, for which common processors have no fast kernels."
)

_RESIZED = (
    "The first accuracy was measured on centre crops of images whose shorter side was resized to {} pixels "
    "(`data.resize` of the recipe). This export resizes the whole image, without its aspect ratio."
)
_ERROR = (
    "`error`: the root mean square of the difference, relative to the spread of the Keras model's outputs around their "
    "mean. The spread counts at least a quarter of their own root mean square (2 % for rollouts)."
)


def model_card(model: keras.Model, report: ExportReport, origin: Origin, evaluation: dict | None = None) -> str:
    """Return the model card in Markdown.

    Args:
        model: the Keras model.
        report: report of the export.
        origin: origin of the weights.
        evaluation: content of a `results.json` about the weights; None without.
    """
    interface = model_interface(model)
    low, high = interface.input_range
    sides = " x ".join("any" if side is None else str(side) for side in interface.input_shape)
    kind = "feature extractor" if interface.classes is None else f"classifier of {interface.classes:,} classes"
    kind = f"regression of {', '.join(interface.targets)}" if interface.targets else kind
    return "\n".join(
        [
            f"# {model.name}",
            "",
            f"An image {kind} with {model.count_params():,} parameters.",
            "",
            f"- Input: images {sides} (height, width, channels), pixels {low:g} to {high:g}.",
            f"- Preprocessing: {interface.preprocessing}.",
            *([f"- Classes: {_listed(interface.labels)}."] if interface.labels else []),
            f"- Weights: {origin.weights or 'not recorded'}"
            + (f" (SHA-256 {origin.sha256})." if origin.sha256 else "."),
            *_temperature(temperature_of(model)),
            f"- Trained on: {origin.trained_on or 'not recorded'}.",
            "",
            "## Figures",
            "",
            "| figure | value | images |",
            "|---|---|---|",
            *_figures(interface, origin, report),
            "",
            *([_RESIZED.format(origin.resize), ""] if origin.resize else []),
            *(evaluation_section(evaluation) if evaluation else []),
            "## Parity",
            "",
            f"Every file against the Keras model on {report.images:,} "
            + ("real images." if report.real else "images of random pixels."),
            "",
            *markdown_table(report.table()),
            "",
            *([_ERROR, ""] if any(row.error is not None for row in report.rows) else []),
            *([_CALIBRATED.format(_calibration(report)), ""] if report.calibration else []),
        ]
    )


def _temperature(value):
    return [] if value in (None, 1.0) else [f"- Temperature of the probabilities: {value:.4g}, in the weights."]


def _calibration(report):
    if not report.shared:
        return f"{report.calibration:,} other images"
    return f"{report.calibration:,} images, {report.shared:,} of them also compared on"


def _figures(interface, origin, report):
    if interface.targets:
        rows = (origin.errors or {}).items()
        return [
            f"| {name} on the test split, after training | {value:.4g} | {origin.images:,} |" for name, value in rows
        ]
    return [
        _figure("accuracy on the test split, after training", origin.accuracy, origin.images),
        _figure("accuracy of the Keras model, at export", report.accuracy, report.images),
    ]


def _figure(name, share, images):
    return f"| {name} | unmeasured | |" if share is None else f"| {name} | {share:.2%} | {images:,} |"


def _listed(labels, most: int = 12):
    more = f", and {len(labels) - most:,} more" if len(labels) > most else ""
    return ", ".join(labels[:most]) + more
