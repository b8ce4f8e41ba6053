"""Describe a model in the metadata of a single file, which may be copied without its manifest."""

import json

from keras_vit.models.model_interface import ModelInterface

KEY = "keras_vit.json"


def metadata(interface: ModelInterface, precision: str) -> str:
    """Return input, normalisation, precision, labels and their thresholds as JSON, in the same form for every format.

    Args:
        interface: inputs and outputs of the model.
        precision: precision of the stored weights.
    """
    low, high = interface.input_range
    description = {
        "input": {"name": "images", "shape": interface.input_shape, "range": interface.input_range},
        "normalisation": {"of_pixels": [0, 255], "mean": -low * 255 / (high - low), "std": 255 / (high - low)},
        "precision": precision,
        "labels": interface.labels,
        **({"thresholds": interface.thresholds} if interface.thresholds else {}),
    }
    return json.dumps(description, ensure_ascii=False)
