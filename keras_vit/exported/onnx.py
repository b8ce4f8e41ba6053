"""Run ONNX files.

B batch, H W C image.
"""

from pathlib import Path

import numpy as np

from keras_vit.exported.optional import needed


def runner(file: str | Path):
    """Return a function that runs an ONNX file in ONNX Runtime: images=(B, H, W, C) -> outputs by name.

    Raises:
        ValueError: ONNX Runtime is not installed.
    """
    runtime = needed("onnxruntime", "onnxruntime", "onnx")
    session = runtime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]

    def infer(*, images) -> dict[str, np.ndarray]:
        return dict(zip(names, session.run(names, {"images": np.asarray(images, "float32")}), strict=True))

    return infer
