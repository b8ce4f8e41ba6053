"""A Keras model -> ONNX, one file of the standard operators.

B batch, H W C image.
"""

import contextlib
import gc
import logging
from pathlib import Path

import keras
import numpy as np

from keras_vit.export.metadata import KEY, metadata
from keras_vit.export.precision import in_dtype
from keras_vit.export.saved_model import ServingModule
from keras_vit.exported.optional import needed

OPSET = 18  # the newest that tf2onnx writes
MOST_BYTES = 2**31 - 2**24  # a protobuf message ends at 2 GiB; the difference is for the graph itself


def write_onnx(model: keras.Model, file: str | Path) -> None:
    """Write a model as an ONNX file in float32, for any batch; checked by ONNX's own checker.

    The file's metadata entry `keras_vit.json` holds labels and normalisation.

    Args:
        model: a model of this package.
        file: to write.

    Raises:
        ValueError: a package is missing, or the weights are beyond what one file may hold.
    """
    size = 4 * model.count_params()
    if size > MOST_BYTES:
        raise ValueError(
            f"onnx expected weights of at most {MOST_BYTES:,} bytes, as one protobuf file holds, received {size:,}; "
            "the formats saved_model and openvino have no such limit."
        )
    tf2onnx, onnx = needed("tf2onnx", "tf2onnx.convert", "onnx"), needed("onnx", "onnx", "onnx")
    module = ServingModule(in_dtype(model, "float32"))
    answer = module.function(module.answer)
    logging.getLogger("tf2onnx").setLevel(logging.ERROR)
    with _prompt_collection():
        converted, _ = tf2onnx.from_function(answer, answer.input_signature, opset=OPSET)
    _keep_zeros_before_pools(converted.graph, onnx)
    _name_free_sides(converted.graph)
    onnx.helper.set_model_props(converted, {KEY: metadata(module.interface, "float32")})
    onnx.checker.check_model(converted, full_check=True)
    Path(file).write_bytes(converted.SerializeToString())


@contextlib.contextmanager
def _prompt_collection():
    """While entered, Python collects cycles soon: each of tf2onnx's passes leaves copies of the graph, with all weights
    in them, that hold on to each other, 50 by the end.

    A full collection waits until a quarter of what is alive is new; what is frozen does not count.
    """
    gc.collect()
    gc.freeze()
    gc.collect()  # counts what is alive anew
    before = gc.get_threshold()
    gc.set_threshold(before[0], 2, 1)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


def _keep_zeros_before_pools(graph, onnx) -> None:
    """Put a `Clip` that changes nothing between a padding of zeros and its maximum pool.

    ONNX Runtime (1.31) else moves the zeros into the pool, where padding means minus infinity: the stem of a BiT, whose
    border is the larger of zero and a negative map, would come out wrong.
    """
    makers = {output: node for node in graph.node for output in node.output}
    for node in [node for node in graph.node if node.op_type == "MaxPool"]:
        pad = makers.get(node.input[0])
        if pad is None or pad.op_type != "Pad":
            continue
        padded, kept, lowest = pad.output[0], f"{pad.name}_kept", f"{pad.name}_lowest"
        value = np.array(np.finfo("float32").min, "float32")
        graph.initializer.append(onnx.numpy_helper.from_array(value, lowest))
        clip = onnx.helper.make_node("Clip", [padded, lowest], [kept], name=kept)
        graph.node.insert(list(graph.node).index(pad) + 1, clip)
        node.input[0] = kept


def _name_free_sides(graph) -> None:
    """Call the free sides of inputs and outputs by names in place of numbers."""
    for value in (*graph.input, *graph.output):
        for side, name in zip(value.type.tensor_type.shape.dim, ("batch", "height", "width"), strict=False):
            if side.HasField("dim_param"):
                side.dim_param = name
