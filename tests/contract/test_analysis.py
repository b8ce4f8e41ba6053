"""Every kind of model can be looked into, at the sizes it takes."""

import keras
import numpy as np
import pytest
from contract.cases import MODELS, PRINCIPAL, principal_first
from contract.test_contract import inputs_for
from support import randomise

import keras_vit
from keras_vit import analysis, layers
from keras_vit.analysis.positions import has_positions

FURTHER = [case for case in MODELS if case.name in PRINCIPAL]
SIDE = 96  # where the size is free: whole patches of every kind


@pytest.mark.parametrize("case", principal_first(MODELS, names=("token", "hybrid", "bit", "axial"), broad=FURTHER))
def test_every_kind_of_model_can_be_looked_into(case):
    model = randomise(case.make())
    images = inputs_for(case)
    if not case.static_size and "bit" in case.name:
        images = np.random.default_rng(0).uniform(-1, 1, (3, 64, SIDE, 3)).astype("float32")
    before = keras.ops.convert_to_numpy(model(images))
    names = {layer.name for layer in model.layers}
    attends = any(isinstance(layer, layers.EncoderBlock) for layer in model.layers)

    outputs = analysis.layer_outputs(model, images)
    assert len(outputs.layers) >= 3 and all(len(output) == 3 and output.ndim == 4 for output in outputs.maps)
    filters, shares = analysis.embedding_filters(model, 4)
    assert filters.shape[-1] == images.shape[-1] and shares.sum() <= 1 + 1e-9
    assert len(analysis.features_of(model, images)) == 3
    similarity, rows, _ = analysis.layer_similarity(model, images)
    np.testing.assert_allclose(np.diag(similarity), 1, rtol=1e-6)
    assert rows == outputs.layers
    if attends:
        attention = analysis.capture(model, images)
        layout = keras_vit.token_layout(model)
        registers = ("register_0", "register_1") if "registers" in names else ()
        front = tuple(name for name in ("class", "distillation") if f"{name}_token" in names)
        assert layout.prefix == front + registers == attention.layout.prefix
        assert layout.grid in (attention.grid, None) and (layout.grid or not case.static_size)
        assert np.prod(attention.grid) + layout.prefix_tokens == attention.weights.shape[-1]
        if case.name == "parallel":  # has differential attention
            for function in (analysis.Attention.rollout, analysis.mean_distance):
                with pytest.raises(ValueError, match="expected attention weights that are positive and sum to 1"):
                    function(attention)
        elif "windows" in case.name:
            sums = attention.weights.sum(-1)
            assert sums.max() < 1 + 1e-5 and (sums > 0).all() and (sums[0] < 0.99).any()  # padding has a share
            np.testing.assert_allclose(sums[1], 1, atol=1e-5)
            with pytest.raises(ValueError, match="rollout expected attention from every patch to every patch"):
                attention.rollout()
            assert (analysis.mean_distance(attention) > 0).all()
        else:
            np.testing.assert_allclose(attention.weights.sum(-1), 1, atol=1e-5)
            assert attention.rollout().shape == (3, *attention.grid)
            assert (analysis.mean_distance(attention) > 0).all()
    if has_positions(model):
        assert analysis.position_similarity(model).shape[:2] == model.get_layer("position_embedding").grid
    if "head" in names:
        assert len(analysis.grad_cam(model, images)) == 3
        if attends:
            assert analysis.gradient_attention(model, images).shape == (3, *attention.grid)
    np.testing.assert_array_equal(keras.ops.convert_to_numpy(model(images)), before)
