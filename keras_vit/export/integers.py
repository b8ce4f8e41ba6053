"""OpenVINO's network -> the same with products and convolutions on integers of 8 bits, by NNCF.

B batch, H W C image, N tokens, R = B * N rows, D width, h heads, d = D / h.
"""

import contextlib
import logging
import os
import re
import sys

import numpy as np

from keras_vit.exported.optional import needed

_IN_A_TEST = "NNCF_CI"
_OUTSIDE = re.compile(r"/(position_embedding|embedding|pre_logits|head)(_\d+)?/")  # layers that stay float32
_PRODUCTS = ("MatMul", "Convolution")


def nncf():
    """OpenVINO's package for integers.

    It reports each use over the net unless it believes itself in a test while it is imported; who imported it before
    has chosen for himself.
    """
    before = os.environ.get(_IN_A_TEST)
    os.environ[_IN_A_TEST] = "1"
    try:
        return needed("nncf", "nncf", "openvino-int8")
    finally:
        del os.environ[_IN_A_TEST]
        if before is not None:
            os.environ[_IN_A_TEST] = before


def quantised(network, images: np.ndarray, narrow: bool):
    """Products and convolutions on integers of 8 bits; softmax, norms, GELU and what the blocks add up stay float32.

    So do the products in front of the blocks and behind them, 1 % of a B/16's: of a small ViT trained on CIFAR-10, the
    classifier in integers makes nine tenths of the error of all.

    The scales reach to the largest number of all images, and half of the spread of a product's channels is moved into
    its kernel (SmoothQuant, arXiv 2211.10438). With NNCF's defaults, the mean of the images' largest numbers and nearly
    all of the spread, that ViT's error is a quarter larger.

    Args:
        network: OpenVINO's, of a model of this package; changed in place.
        images: (N, H, W, C) to measure the scales on.
        narrow: whether kernels get 7 bits, for processors whose sums of products would overflow.
    """
    library = nncf()
    fix = library.quantization.advanced_parameters.OverflowFix
    advanced = library.AdvancedQuantizationParameters(
        overflow_fix=fix.ENABLE if narrow else fix.FIRST_LAYER,
        activations_range_estimator_params=library.quantization.range_estimator.RangeEstimatorParametersSet.MINMAX,
        smooth_quant_alphas=library.quantization.advanced_parameters.AdvancedSmoothQuantParameters(matmul=0.5),
    )
    data = library.Dataset(images, lambda image: image[None].astype("float32"))
    first, *others = (op.get_friendly_name() for op in network.get_ordered_ops() if op.get_type_name() in _PRODUCTS)
    float32 = library.IgnoredScope(names=[first, *filter(_OUTSIDE.search, others)])
    kind, logger = library.ModelType.TRANSFORMER, logging.getLogger("nncf")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with contextlib.redirect_stdout(sys.stderr):  # its progress bars
            rounded = library.quantize(
                network,
                data,
                subset_size=len(images),
                model_type=kind,
                ignored_scope=float32,
                advanced_parameters=advanced,
            )
    finally:
        logger.setLevel(before)
    round_early(rounded)
    return rounded


def round_early(network) -> None:
    """Scale and round before the reshape to flattened tokens, where OpenVINO fuses both into the operation before.

    NNCF inserts the scales (SmoothQuant) and the rounding of a matmul directly before the matmul; there they are two
    passes of their own, in float32. The values stay the same. Only graphs as `kernels/split_matmuls.py` builds them
    are changed.

    Args:
        network: OpenVINO's, from NNCF; changed in place.
    """
    for rounding in network.get_ordered_ops():
        chain = rounding.get_type_name() == "FakeQuantize" and _back(rounding, (0, "Multiply"), (0, "Reshape"))
        if not chain:
            continue
        scaling, flat = chain
        scale, *limits = _constant(scaling, 1), *(_constant(rounding, port) for port in range(1, 5))
        if (
            scale is None
            or scale.shape[-1:] != (scale.size,)
            or any(limit is None or limit.size != 1 for limit in limits)
        ):
            continue
        if _width(flat.input_value(0)) == scale.size:  # (B, N, D) -> (R, D)
            _put_before(flat, _rounded(_scaled(flat.input_value(0), scale), limits, rounding))
        elif values := _gathered(flat, scale.size):  # (B, h, N, d) -> (B, N, h, d) -> (R, D)
            turned, gathered, parted = values
            _put_before(parted, _scaled(parted.input_value(0), scale))
            _put_before(turned, _rounded(gathered.output(0), limits, rounding))
        else:
            continue
        for taker in rounding.output(0).get_target_inputs():
            taker.replace_source_output(flat.output(0))


def _gathered(flat, width: int):
    """Of attention's output: what turns it, its product with the values, and what parts these, (R, D) before, by head.

    None where it is computed in another way.
    """
    nodes = _back(flat, (0, "Transpose"), (0, "MatMul"), (1, "Transpose"), (0, "Reshape"))
    if not nodes or _width(nodes[-1].input_value(0)) != width:
        return None
    turned, gathered, by_head, parted = nodes
    turns = [_constant(node, 1) for node in (turned, by_head)]
    plain = not gathered.get_attributes()["transpose_b"] and all(np.array_equal(turn, (0, 2, 1, 3)) for turn in turns)
    return (turned, gathered, parted) if plain else None


def _back(node, *steps: tuple[int, str]):
    """The nodes in front of one, by steps back to an input and its kind; None where others stand, or lead elsewhere."""
    found = []
    for port, kind in steps:
        node = node.input_value(port).get_node()
        takers = [taker for output in node.outputs() for taker in output.get_target_inputs()]
        if node.get_type_name() != kind or len(takers) != 1:
            return None
        found.append(node)
    return found


def _constant(node, port: int):
    """The numbers of an input; None where they are not known."""
    source = node.input_value(port).get_node()
    return source.get_data() if source.get_type_name() == "Constant" else None


def _width(output) -> int | None:
    """The length of the last axis; None where it is free."""
    last = output.get_partial_shape()[-1]
    return last.get_length() if last.is_static else None


def _put_before(node, output) -> None:
    node.input(0).replace_source_output(output)


def _operations():
    return needed("openvino", "openvino.opset13", "openvino-int8")


def _scaled(output, scale: np.ndarray):
    operations = _operations()
    return operations.multiply(output, operations.constant(scale.reshape(-1))).output(0)


def _rounded(output, limits: list[np.ndarray], rounding):
    """As another node rounds."""
    operations = _operations()
    constants = [operations.constant(limit.reshape(())) for limit in limits]
    return operations.fake_quantize(output, *constants, levels=rounding.get_attributes()["levels"]).output(0)
