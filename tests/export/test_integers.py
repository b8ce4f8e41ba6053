"""The position of scaling and rounding in OpenVINO's int8 graphs."""

import numpy as np
import pytest
from support import max_difference, randomise

import keras_vit
from keras_vit.export import integers
from keras_vit.export.openvino import runner, write_openvino

library = pytest.importorskip("openvino", reason="extra `formats` is not installed")
pytest.importorskip("nncf", reason="extra `formats` is not installed")
ROW = keras_vit.Variant("wide", width=64, depth=2, mlp_dim=256, num_heads=4, patch_size=4, image_size=16)
IMAGES = np.random.default_rng(0).uniform(-1, 1, (6, 16, 16, 3)).astype("float32")


def rounded(file) -> list[tuple[str, ...]]:
    """Return the types of the three nodes before each rounding of activations, the last one first."""
    found = []
    for node in library.Core().read_model(str(file)).get_ordered_ops():
        kinds = [] if node.get_type_name() == "FakeQuantize" else None
        while kinds is not None and len(kinds) < 3 and node.get_input_size():
            node = node.input_value(0).get_node()
            kinds.append(node.get_type_name())
        found += [tuple(kinds)] if kinds and len(kinds) == 3 else []
    return found


@pytest.mark.broad
def test_norms_and_attention_are_scaled_and_rounded_in_front_of_the_reshape_to_rows(tmp_path, monkeypatch):
    """After the reshape, OpenVINO does both in separate passes. The values are the same."""
    model = randomise(keras_vit.build(ROW, classes=5))
    write_openvino(model, tmp_path / "early.xml", IMAGES)
    monkeypatch.setattr(integers, "round_early", lambda network: None)
    write_openvino(model, tmp_path / "late.xml", IMAGES)
    early, late = (rounded(tmp_path / f"{name}.xml") for name in ("early", "late"))
    blocks, behind = 2, ("Multiply", "Reshape")
    assert late.count((*behind, "Add")) == 2 * blocks and late.count((*behind, "Transpose")) == blocks
    assert not {kinds for kinds in early if "Reshape" in kinds[:2]}
    assert early.count(("Multiply", "Add", "Multiply")) == 2 * blocks  # a norm's gamma and beta, and the scales
    assert early.count(("MatMul", "Softmax", "MatMul")) == blocks and len(early) == len(late)
    answers = [runner(tmp_path / f"{name}.xml")(images=IMAGES)["probabilities"] for name in ("early", "late")]
    assert max_difference(*answers) < 1e-6 < max_difference(answers[0], model(IMAGES))
