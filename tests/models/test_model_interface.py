"""What a model says of itself, read from its layers' names."""

from dataclasses import replace

import keras
import numpy as np
import pytest
from support import max_difference, randomise

import keras_vit
from keras_vit.models.model_interface import ModelInterface, model_interface, named_outputs

TINY = keras_vit.Variant("tiny", width=16, depth=1, mlp_dim=24, num_heads=2, patch_size=4, image_size=8)


def tiny(**options):
    return randomise(keras_vit.build(TINY, **{"classes": 3, **options}))


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, ModelInterface((8, 8, 3), (8, 8), (-1.0, 1.0), 3, ("0", "1", "2"))),
        ({"labels": ("a", "b", "c")}, ModelInterface((8, 8, 3), (8, 8), (-1.0, 1.0), 3, ("a", "b", "c"))),
        ({"input_shape": (8, 12, 1)}, ModelInterface((8, 12, 1), (8, 12), (-1.0, 1.0), 3, ("0", "1", "2"))),
        ({"include_preprocessing": True}, ModelInterface((8, 8, 3), (8, 8), (0.0, 255.0), 3, ("0", "1", "2"))),
        ({"input_shape": (None, 12, 3)}, ModelInterface((None, 12, 3), (8, 12), (-1.0, 1.0), 3, ("0", "1", "2"))),
        ({"include_top": False}, ModelInterface((8, 8, 3), (8, 8), (-1.0, 1.0), None, ())),
    ],
)
def test_the_interface_is_the_one_the_model_was_built_with(options, expected):
    model = tiny(**options)
    interface = model_interface(model)
    assert replace(interface, preprocessing=expected.preprocessing) == expected
    assert interface.preprocessing == model.preprocessing


def test_a_users_own_rescaling_is_preprocessing_where_it_is_of_pixels():
    """By its scale: Keras calls any layer of the kind so."""
    scales = {2.0: (-1.0, 1.0), 1 / 255: (0.0, 255.0), (0.017, 0.018, 0.02): (0.0, 255.0)}
    for scale, expected in scales.items():
        own = keras.layers.Rescaling(scale if isinstance(scale, float) else np.array(scale))(keras.Input((8, 8, 3)))
        assert model_interface(keras_vit.build(TINY, input_tensor=own, classes=3)).input_range == expected


def test_a_free_size_without_a_position_embedding_has_no_image_size():
    images = keras.Input((None, None, 3))
    pooled = keras.layers.GlobalAveragePooling2D()(images)
    assert model_interface(keras.Model(images, pooled)).image_size is None


def test_outputs_are_named_and_float32():
    images = np.random.default_rng(0).uniform(-1, 1, (2, 8, 8, 3)).astype("float32")
    for activation in ("softmax", "sigmoid", None):
        model = tiny(classifier_activation=activation)
        outputs = named_outputs(model)(images)
        assert outputs.keys() == {"logits", "probabilities"}
        main = "logits" if activation is None else "probabilities"
        assert max_difference(outputs[main], model(images)) < 1e-6
        expected = keras.activations.get(activation or "softmax")(outputs["logits"])
        assert max_difference(outputs["probabilities"], expected) < 1e-6
    half = named_outputs(tiny(dtype="bfloat16"))(images)
    assert {keras.backend.standardize_dtype(value.dtype) for value in half.values()} == {"float32"}
    assert named_outputs(tiny(include_top=False))(images).keys() == {"features"}


def test_a_model_of_something_else_than_images_is_refused():
    tokens = keras.Input((4, 8))
    with pytest.raises(ValueError, match=r"model expected one input .* received inputs \[\(None, 4, 8\)\]"):
        model_interface(keras.Model(tokens, tokens * 2))
