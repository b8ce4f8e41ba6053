"""The part of a report about images with known values: predicted and true values of a regression.

N images, T targets.
"""

import numpy as np

from keras_vit.analysis.arrays import as_model_input
from keras_vit.analysis.plots.values import plot_values
from keras_vit.analysis.report_inputs import PartResult, ReportInputs
from keras_vit.models.model_interface import named_outputs

MAX_ERRORS = 50  # listed in `analysis.json` and on the page


def require_values(inputs: ReportInputs, images, values) -> tuple[np.ndarray, np.ndarray]:
    """Return images and their values as arrays, or raise a ValueError if they do not match the model."""
    images, values = as_model_input(inputs.model, images), np.asarray(values, "float64")
    targets = inputs.interface.targets
    if values.shape != (len(images), len(targets)) or not np.isfinite(values).all():
        raise ValueError(f"test_labels expected the finite values ({len(images)}, {len(targets)}) of "
                         f"{', '.join(targets)}, received shape {values.shape}.")  # fmt: skip
    return images, values


def values_part(inputs: ReportInputs, images, values) -> PartResult:
    """Draw predicted over true values, and list the errors of each target and the largest errors.

    Args:
        inputs: the report's inputs.
        images: (N, H, W, C) in the model's input range.
        values: (N, T) true values.
    """
    targets = inputs.interface.targets
    predicted = named_outputs(inputs.model).predict(images, batch_size=inputs.batch_size, verbose=0)["values"]
    plot_values(values, predicted, targets, inputs.output / "values.png")
    errors = predicted.astype("float64") - values
    spread = values.std(axis=0)
    worst = np.argsort(-(np.abs(errors) / np.maximum(spread, 1e-12)).max(axis=1), kind="stable")
    rows = []
    for i, name in enumerate(targets):
        squared = float(np.mean(errors[:, i] ** 2))
        r2 = 1 - squared / spread[i] ** 2 if spread[i] else None
        rows.append({"target": name, "mae": float(np.abs(errors[:, i]).mean()), "rmse": squared**0.5, "r2": r2})
    found = {
        "images": len(values),
        "targets": rows,
        "largest_errors": [
            {"image": int(i), "true": values[i].tolist(), "predicted": predicted[i].astype("float64").tolist()}
            for i in worst[:MAX_ERRORS]
        ],
    }
    caption = "Predicted values of the test images over the true ones. Right predictions lie on the dashed line."
    return PartResult({"values": found}, {"values.png": caption})
