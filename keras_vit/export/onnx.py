"""Write and run ONNX: one file with standard operators.

B batch, H W C image.
"""

import contextlib
import gc
import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from keras_vit.export.metadata import KEY, metadata
from keras_vit.export.optional import needed
from keras_vit.export.write_options import WriteOptions

if TYPE_CHECKING:
    import keras

OPSET = 18  # the newest that tf2onnx writes
MOST_BYTES = 2**31 - 2**24  # maximum size of a protobuf message, 2 GiB, minus 16 MiB for the graph


def write(model: "keras.Model", file: Path, options: WriteOptions) -> None:
    """Write a model as an ONNX file. The format has no options."""
    write_onnx(model, file)


def load(file: Path) -> dict[str, Callable]:
    """Return the functions of the signatures by name."""
    return {"serving_default": runner(file)}


def runner(file: str | Path) -> Callable:
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


def write_onnx(model: "keras.Model", file: str | Path) -> None:
    """Write a model of this package as an ONNX file in float32, for any batch size.

    Raises:
        ValueError: a package is not installed, or the weights are too large for one file.
    """
    size = 4 * model.count_params()
    if size > MOST_BYTES:
        raise ValueError(
            f"onnx expected weights of at most {MOST_BYTES:,} bytes, as one protobuf file holds, received {size:,}; "
            "the formats saved_model and openvino have no such limit."
        )
    tf2onnx, onnx = needed("tf2onnx", "tf2onnx.convert", "onnx"), needed("onnx", "onnx", "onnx")
    from keras_vit.export.precision import in_dtype
    from keras_vit.export.serving_module import ServingModule

    module = ServingModule(in_dtype(model, "float32"))
    function = module.function(module.infer)
    logging.getLogger("tf2onnx").setLevel(logging.ERROR)
    with _frequent_collection():
        converted, _ = tf2onnx.from_function(function, function.input_signature, opset=OPSET)
    _keep_zeros_before_pools(converted.graph, onnx)
    _name_free_axes(converted.graph)
    onnx.helper.set_model_props(converted, {KEY: metadata(module.interface, "float32")})
    onnx.checker.check_model(converted, full_check=True)
    Path(file).write_bytes(converted.SerializeToString())


@contextlib.contextmanager
def _frequent_collection():
    """Make Python collect reference cycles more often inside the `with`.

    Each pass of tf2onnx leaves copies of the graph with all weights in reference cycles. A full collection starts only
    when the new objects exceed a quarter of the old ones. Frozen objects do not count as old ones.
    """
    gc.collect()
    gc.freeze()
    gc.collect()  # updates the count of old objects
    before = gc.get_threshold()
    gc.set_threshold(before[0], 2, 1)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


def _keep_zeros_before_pools(graph, onnx) -> None:
    """Insert a `Clip` without effect between a padding with zeros and its maximum pool.

    ONNX Runtime (1.31) otherwise fuses the padding into the pool, whose padding is minus infinity. The stem of a BiT
    would then be wrong at the border, where the maximum of zero and a negative map is zero.
    """
    makers = {output: node for node in graph.node for output in node.output}
    for pool in [node for node in graph.node if node.op_type == "MaxPool"]:
        pad = makers.get(pool.input[0])
        if pad is None or pad.op_type != "Pad":
            continue
        padded, clipped, minimum = pad.output[0], f"{pad.name}_kept", f"{pad.name}_lowest"
        value = np.array(np.finfo("float32").min, "float32")
        graph.initializer.append(onnx.numpy_helper.from_array(value, minimum))
        clip = onnx.helper.make_node("Clip", [padded, minimum], [clipped], name=clipped)
        graph.node.insert(list(graph.node).index(pad) + 1, clip)
        pool.input[0] = clipped


def _name_free_axes(graph) -> None:
    """Name the free axes of inputs and outputs `batch`, `height` and `width`."""
    for value in (*graph.input, *graph.output):
        for axis, name in zip(value.type.tensor_type.shape.dim, ("batch", "height", "width"), strict=False):
            if axis.HasField("dim_param"):
                axis.dim_param = name
