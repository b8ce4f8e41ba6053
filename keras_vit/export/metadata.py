"""What a single file says of itself, for it may travel without its manifest."""

import json

from keras_vit.models.model_interface import ModelInterface

KEY = "keras_vit.json"


def metadata(interface: ModelInterface, precision: str) -> str:
    """Input, normalisation, precision and labels as JSON, the same for every format of one file.

    Args:
        interface: of the model.
        precision: of what the file stores.
    """
    low, high = interface.input_range
    said = {
        "input": {"name": "images", "shape": interface.input_shape, "range": interface.input_range},
        "normalisation": {"of_pixels": [0, 255], "mean": -low * 255 / (high - low), "std": 255 / (high - low)},
        "precision": precision,
        "labels": interface.labels,
    }
    return json.dumps(said, ensure_ascii=False)
