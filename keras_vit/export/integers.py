"""Quantise the matmuls and convolutions of OpenVINO's networks to int8 with NNCF.

B batch, H W C image, N tokens, R = B * N flattened tokens, D width, h heads, d = D / h.
"""

import contextlib
import logging
import os
import re
import sys

import numpy as np

from keras_vit.export.optional import needed

_TEST_VARIABLE = "NNCF_CI"
_FLOAT32_LAYERS = re.compile(r"/(position_embedding|embedding|pre_logits|head)(_\d+)?/")
_QUANTISED = ("MatMul", "Convolution")


def nncf():
    """Import and return NNCF, OpenVINO's package for quantisation.

    NNCF reports each use over the network unless its variable for tests is set while it is imported. If NNCF is already
    imported, nothing changes.
    """
    before = os.environ.get(_TEST_VARIABLE)
    os.environ[_TEST_VARIABLE] = "1"
    try:
        return needed("nncf", "nncf", "openvino-int8")
    finally:
        del os.environ[_TEST_VARIABLE]
        if before is not None:
            os.environ[_TEST_VARIABLE] = before


def quantise(network, images: np.ndarray, seven_bits: bool):
    """Return a network with matmuls and convolutions in int8.

    Softmax, norms, GELU, the residual stream, the embeddings and the classifier stay float32, and so does the product
    of differential attention's weights with the values. The classifier and this product would cause most of the error.

    The ranges cover the largest value of all images, and SmoothQuant (arXiv 2211.10438) uses alpha 0.5. NNCF's defaults
    cause larger errors: the mean of the images' largest values, and a larger alpha.

    Args:
        network: OpenVINO's network of a model of this package, changed in place.
        images: (N, H, W, C) calibration images in the model's input range.
        seven_bits: True for weights of 7 bits, for processors on which int8 dot products saturate.
    """
    library = nncf()
    fix = library.quantization.advanced_parameters.OverflowFix
    advanced = library.AdvancedQuantizationParameters(
        overflow_fix=fix.ENABLE if seven_bits else fix.FIRST_LAYER,
        activations_range_estimator_params=library.quantization.range_estimator.RangeEstimatorParametersSet.MINMAX,
        smooth_quant_alphas=library.quantization.advanced_parameters.AdvancedSmoothQuantParameters(matmul=0.5),
    )
    data = library.Dataset(images, lambda image: image[None].astype("float32"))
    first, *others = (op.get_friendly_name() for op in network.get_ordered_ops() if op.get_type_name() in _QUANTISED)
    names = [first, *filter(_FLOAT32_LAYERS.search, others), *_matmuls_of_differences(network)]
    float32 = library.IgnoredScope(names=names)
    kind, logger = library.ModelType.TRANSFORMER, logging.getLogger("nncf")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with contextlib.redirect_stdout(sys.stderr):  # its progress bars
            quantised = library.quantize(
                network,
                data,
                subset_size=len(images),
                model_type=kind,
                ignored_scope=float32,
                advanced_parameters=advanced,
            )
    finally:
        logger.setLevel(before)
    round_early(quantised)
    clamp_gated_maps(quantised)
    return quantised


def clamp_gated_maps(network) -> None:
    """Insert a clamp without effect behind each input x of an EvoNorm, which computes `sigmoid(slope * x)`.

    Without it OpenVINO (2026.4) computes integer convolutions in front of EvoNorm wrongly, by many orders of magnitude.

    Args:
        network: OpenVINO's network from NNCF, changed in place.
    """
    for gate in network.get_ordered_ops():
        product = gate.get_type_name() == "Sigmoid" and gate.input_value(0).get_node()
        if not product or product.get_type_name() != "Multiply" or _constant(product, 1) is None:
            continue
        feature_map = product.input_value(0)
        if len(feature_map.get_partial_shape()) == 4:
            targets = feature_map.get_target_inputs()
            clamped = _operations().clamp(feature_map, -1e30, 1e30).output(0)
            for target in targets:
                target.replace_source_output(clamped)


def _matmuls_of_differences(network) -> list[str]:
    """Return the names of the matmuls of differential attention whose left side is a difference of two softmaxes."""
    matmuls = [node for node in network.get_ordered_ops() if node.get_type_name() == "MatMul"]
    return [node.get_friendly_name() for node in matmuls if _producers(node, (0, "Subtract"))]


def round_early(network) -> None:
    """Move scaling and rounding before the reshape to flattened tokens, where OpenVINO fuses them.

    NNCF inserts SmoothQuant's scaling and the rounding of a matmul's input directly before the matmul, where they are
    two separate passes in float32. The values do not change. Only graphs of `kernels/split_matmuls.py` are changed.

    Args:
        network: OpenVINO's network from NNCF, changed in place.
    """
    for rounding in network.get_ordered_ops():
        chain = rounding.get_type_name() == "FakeQuantize" and _producers(rounding, (0, "Multiply"), (0, "Reshape"))
        if not chain:
            continue
        scaling, flatten = chain
        scale, *limits = _constant(scaling, 1), *(_constant(rounding, port) for port in range(1, 5))
        if (
            scale is None
            or scale.shape[-1:] != (scale.size,)
            or any(limit is None or limit.size != 1 for limit in limits)
        ):
            continue
        if _width(flatten.input_value(0)) == scale.size:  # (B, N, D) -> (R, D)
            _replace_input(flatten, _rounded(_scaled(flatten.input_value(0), scale), limits, rounding))
        elif nodes := _attention_output(flatten, scale.size):  # (B, h, N, d) -> (R, D)
            transpose, matmul, split_heads = nodes
            _replace_input(split_heads, _scaled(split_heads.input_value(0), scale))
            _replace_input(transpose, _rounded(matmul.output(0), limits, rounding))
        else:
            continue
        for target in rounding.output(0).get_target_inputs():
            target.replace_source_output(flatten.output(0))


def _attention_output(flatten, width: int):
    """Return the nodes of attention's output: the transpose, the matmul with the values, and their reshape to heads.

    Return None if attention is computed by other nodes.
    """
    nodes = _producers(flatten, (0, "Transpose"), (0, "MatMul"), (1, "Transpose"), (0, "Reshape"))
    if not nodes or _width(nodes[-1].input_value(0)) != width:
        return None
    transpose, matmul, values, split_heads = nodes
    orders = [_constant(node, 1) for node in (transpose, values)]
    plain = not matmul.get_attributes()["transpose_b"] and all(np.array_equal(order, (0, 2, 1, 3)) for order in orders)
    return (transpose, matmul, split_heads) if plain else None


def _producers(node, *steps: tuple[int, str]):
    """Follow the inputs of a node backwards, by steps of (input number, expected type). Return the nodes.

    Return None if a node has another type, or if other nodes read its output, too.
    """
    nodes = []
    for port, kind in steps:
        node = node.input_value(port).get_node()
        targets = [target for output in node.outputs() for target in output.get_target_inputs()]
        if node.get_type_name() != kind or len(targets) != 1:
            return None
        nodes.append(node)
    return nodes


def _constant(node, port: int):
    """Return the values of a constant input; None if the input is no constant."""
    source = node.input_value(port).get_node()
    return source.get_data() if source.get_type_name() == "Constant" else None


def _width(output) -> int | None:
    """Return the size of the last axis; None if it is free."""
    last = output.get_partial_shape()[-1]
    return last.get_length() if last.is_static else None


def _replace_input(node, output) -> None:
    node.input(0).replace_source_output(output)


def _operations():
    return needed("openvino", "openvino.opset13", "openvino-int8")


def _scaled(output, scale: np.ndarray):
    operations = _operations()
    return operations.multiply(output, operations.constant(scale.reshape(-1))).output(0)


def _rounded(output, limits: list[np.ndarray], rounding):
    """Return an output rounded like the node `rounding`."""
    operations = _operations()
    constants = [operations.constant(limit.reshape(())) for limit in limits]
    return operations.fake_quantize(output, *constants, levels=rounding.get_attributes()["levels"]).output(0)
