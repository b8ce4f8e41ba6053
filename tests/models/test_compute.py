"""The arithmetic of a row against the paper's Table 6, and against the operations of a graph."""

import math
from dataclasses import replace

import pytest
from support import needs_tensorflow

import keras_vit
from keras_vit.models.compute import multiplications
from keras_vit.models.variants import find_variant

TABLE_6 = {  # row: epochs, exaFLOPs, tolerance
    "ViT_B32": (7, 55, 0.025), "ViT_B16": (7, 224, 0.01), "ViT_L32": (7, 196, 0.01), "ViT_L16": (14, 1567, 0.01),
    "ViT_H14": (14, 4262, 0.01), "BiT_R50x1": (7, 50, 0.01), "BiT_R50x2": (7, 199, 0.01), "BiT_R101x1": (7, 96, 0.01),
    "BiT_R152x1": (7, 141, 0.01), "BiT_R152x2": (14, 1126, 0.01), "BiT_R200x3": (14, 3306, 0.01),
    "R50_ViT_B32": (7, 106, 0.01), "R50_ViT_B16": (7, 274, 0.01), "R50_ViT_L32": (7, 246, 0.01),
    "R50_ViT_L16": (14, 1668, 0.01),
}  # fmt: skip
GIGA = {"ViT_B32": 4.408, "ViT_B16": 17.563, "ViT_L32": 15.377, "ViT_L16": 61.554, "ViT_H14": 167.294}  # without head


@pytest.mark.parametrize("name", TABLE_6)
def test_pre_training_costs_what_table_6_says(name):
    epochs, exaflops, tolerance = TABLE_6[name]
    work = 6 * multiplications(find_variant(name)[0], (224, 224, 3)) * epochs * 303e6 / 1e18
    assert work == pytest.approx(exaflops, rel=tolerance)


@pytest.mark.parametrize("name", GIGA)
def test_transformers_multiplications(name):
    assert multiplications(find_variant(name)[0], (224, 224, 3)) / 1e9 == pytest.approx(GIGA[name], abs=5e-4)


@needs_tensorflow
@pytest.mark.parametrize(
    ("shape", "patch", "token", "changes"),
    [
        ((16, 24, 3), 4, True, {}),
        ((16, 16, 1), (8, 4), False, {}),
        ((16, 24, 3), 4, True, {"positions": "relative"}),
        ((16, 24, 3), 4, False, {"axial": True}),
        ((16, 24, 3), 4, False, {"axial": True, "positions": "relative"}),
    ],
)
def test_tensorflows_profiler_counts_the_same(shape, patch, token, changes):
    """Matrix products and convolutions of the graph, two operations a multiplication, without the head's."""
    import tensorflow as tf
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

    tiny = keras_vit.Variant("tiny", width=8, depth=2, mlp_dim=12, num_heads=2, patch_size=4, image_size=16)
    tiny = replace(tiny, **changes)
    pooling = "token" if token else "gap"
    model = keras_vit.build(tiny, input_shape=shape, patch_size=patch, pooling=pooling, include_top=False)
    call = tf.function(lambda x: model(x)).get_concrete_function(tf.TensorSpec((1, *shape)))
    products = 0
    for operation in convert_variables_to_constants_v2(call).graph.get_operations():
        if operation.type in ("MatMul", "BatchMatMulV2", "Conv2D"):
            left, right = (tuple(x.shape) for x in operation.inputs[:2])
            if operation.type == "Conv2D":
                inner = right[0] * right[1] * right[2]
            else:
                transposed = operation.node_def.attr["transpose_a" if operation.type == "MatMul" else "adj_x"].b
                inner = left[-2] if transposed else left[-1]
            products += math.prod(operation.outputs[0].shape) * inner
    assert products == multiplications(tiny, shape, patch, class_token=token)
