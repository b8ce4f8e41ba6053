"""Describe a model in the metadata of a single file, which may be copied without its manifest."""

import json
from dataclasses import asdict

from keras_vit.models.model_interface import ModelInterface

KEY = "keras_vit.json"


def metadata(interface: ModelInterface, precision: str) -> str:
    """Return input, normalisation, precision, labels and their thresholds as JSON, in the same form for every format.

    Args:
        interface: inputs and outputs of the model.
        precision: precision of the stored weights.
    """
    description = {
        "input": {"name": "images", "shape": interface.input_shape, "range": interface.input_range},
        "normalisation": {"of_pixels": [0, 255], **_normalisation(interface)},
        "preprocessing": asdict(interface.preprocessing),
        "precision": precision,
        "labels": interface.labels,
        **({"thresholds": interface.thresholds} if interface.thresholds else {}),
        **({"targets": interface.targets} if interface.targets else {}),
    }
    return json.dumps(description, ensure_ascii=False)


def _normalisation(interface: ModelInterface) -> dict:
    """Return mean and std of pixels in 0..255: one value, or one per channel."""
    spec, channels = interface.preprocessing, interface.input_shape[2]
    if interface.takes_pixels:
        return {"mean": 0.0, "std": 1.0}
    values = {name: [255 * x for x in spec.per_channel(getattr(spec, name), channels)] for name in ("mean", "std")}
    return {name: numbers[0] if len(set(numbers)) == 1 else numbers for name, numbers in values.items()}
