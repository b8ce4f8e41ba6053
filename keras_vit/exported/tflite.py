"""Run TFLite files.

B batch, H W C image.
"""

import os
from collections.abc import Iterator

import numpy as np

from keras_vit.exported.optional import needed


def runner(flatbuffer: bytes):
    """Return a function that runs a TFLite file: images=(B, H, W, C) -> outputs by name.

    The images are computed in batches of the file's batch size.

    Raises:
        ValueError: the interpreter is not installed.
    """
    litert = needed("ai-edge-litert", "ai_edge_litert.interpreter", "tflite")
    interpreter = litert.Interpreter(model_content=flatbuffer, num_threads=os.cpu_count())
    interpreter.allocate_tensors()  # raises an error for unsupported operators
    run = interpreter.get_signature_runner("serving_default")
    size = run.get_input_details()["images"]["shape_signature"][0]  # -1 if it is free

    def infer(*, images: np.ndarray) -> dict[str, np.ndarray]:
        answers = [run(images=piece) for piece in pieces(images, len(images) if size == -1 else size)]
        return {name: np.concatenate([answer[name] for answer in answers])[: len(images)] for name in answers[0]}

    return infer


def pieces(images: np.ndarray, batch: int) -> Iterator[np.ndarray]:
    """Yield images (N, H, W, C) in float32 batches of equal size; the last one repeats its last image."""
    for start in range(0, len(images), batch):
        piece = images[start : start + batch].astype("float32")
        yield np.concatenate([piece, np.repeat(piece[-1:], batch - len(piece), axis=0)])
