"""Frozen, quantized and adapted (LoRA): every layer and kind of model keeps it as layers of Keras do."""

import keras
import numpy as np
import pytest
from contract.cases import LAYERS, MODELS, PRINCIPAL, principal_first
from contract.test_contract import inputs_for
from support import adapt, max_difference, quantize, randomise

import keras_vit
from keras_vit.layers.dense import MODES
from keras_vit.private import layers_of

HEADS = ("OrdinalHead", "RegressionHead")
ATTENTION = ("MultiHeadSelfAttention", "EncoderBlock", "AxialAttention", "AxialBlock", "AttentionPooling")
MLPS = ("MLPBlock", "ExtendedMLP")
DENSE = [case for case in LAYERS if case.layer.__name__ in (*ATTENTION, *MLPS, "PatchPrediction", "Head", *HEADS)]
DENSE += [case for case in MODELS if case.name != "bit_map"]
FOR_FREEZING = [case for case in MODELS if case.name in PRINCIPAL]
FURTHER = [case for case in DENSE if case.name in ("AttentionPooling", "PatchPrediction", "bit", "token")]
dense_case = pytest.mark.parametrize("case", principal_first(DENSE, names=("EncoderBlock", "Head"), broad=FURTHER))


def trained(model):
    return [variable.path for variable in model.trainable_variables]


def reopened(model, tmp_path):
    model.save(tmp_path / "model.keras")
    return keras.saving.load_model(tmp_path / "model.keras")


@pytest.mark.parametrize("case", principal_first(LAYERS, names=("EncoderBlock", "StdConv", "Head"), broad=LAYERS))
def test_a_frozen_layer_and_a_frozen_part_stay_so(case, tmp_path):
    if not case.make().weights:
        pytest.skip("no weights")
    model = case.make()
    (layer,) = (layer for layer in model.layers if layer.weights)
    last = [part for part in layers_of(layer) if part.weights][-1]
    for frozen in (last, layer):  # a part of it, then all
        frozen.trainable = False
        assert trained(keras.models.clone_model(model)) == trained(model)
        assert trained(reopened(model, tmp_path)) == trained(model)
    assert not model.trainable_variables
    last.trainable = True  # inside a frozen layer
    assert trained(reopened(model, tmp_path)) == trained(model) != []


@pytest.mark.parametrize("case", principal_first(MODELS, names=("token",), broad=FOR_FREEZING))
def test_a_frozen_base_in_a_model_of_keras_keeps_its_freezing_and_the_optimizers_state(case, tmp_path):
    base = case.make()
    base.trainable = False
    model = keras.Sequential([keras.Input(case.shapes[0]), base, keras.layers.Dense(2)])
    model.compile("adam", "mse")
    model.optimizer.build(model.trainable_variables)
    for i, variable in enumerate(model.optimizer.variables):
        variable.assign(keras.ops.full(variable.shape, i + 1, variable.dtype))
    assert len(model.trainable_variables) == 2
    opened = reopened(model, tmp_path)
    for other in (opened, keras.models.clone_model(model)):  # outside of a Sequential a path is shorter
        assert [path.split("/")[-2:] for path in trained(other)] == [path.split("/")[-2:] for path in trained(model)]
    states = zip(opened.optimizer.variables, model.optimizer.variables, strict=True)
    assert all(np.array_equal(*map(keras.ops.convert_to_numpy, pair)) for pair in states)


def dense_of_keras(layer, mode):
    """A layer of Keras's own with the same weights, quantized by Keras."""
    own = keras.layers.Dense(layer.units, layer.activation, use_bias=layer.use_bias)
    own.build((None, layer.kernel.shape[0]))
    own.set_weights([*map(keras.ops.convert_to_numpy, layer.weights)])
    own.quantize(mode)
    return own


def recorded(patch):
    """What every quantized layer receives and answers from here on, by the layer."""
    calls, plain = {}, keras.layers.Layer.quantized_call

    def noted(layer, *args, **options):
        answer = plain(layer, *args, **options)
        calls[layer] = (args[0], answer)
        return answer

    patch.setattr(keras.layers.Layer, "quantized_call", noted)
    return calls


@pytest.mark.broad
@dense_case
@pytest.mark.parametrize("mode", [MODES[0], *(pytest.param(mode, marks=pytest.mark.large) for mode in MODES[1:])])
def test_every_dense_layer_is_quantized_and_the_file_holds_it_so(case, mode, tmp_path):
    model, x = randomise(case.make()), inputs_for(case)
    before = keras.ops.convert_to_numpy(model(x))
    dense = [layer for layer in layers_of(model) if isinstance(layer, keras.layers.Dense)]
    kerass = [dense_of_keras(layer, mode) for layer in dense]
    quantize(model, mode)
    assert dense and all(layer.quantization_mode == mode for layer in dense)
    with pytest.MonkeyPatch.context() as patch:
        calls = recorded(patch)
        answer = keras.ops.convert_to_numpy(model(x))
    assert np.abs(answer - before).max() > 0 and calls.keys() == {*dense}
    for layer, own in zip(dense, kerass, strict=True):
        x_of_it, answer_of_it = calls[layer]
        assert max_difference(own(x_of_it), answer_of_it) == 0
    assert max_difference(reopened(model, tmp_path)(x), answer) == 0
    both = (model, keras.models.clone_model(model))
    configs = [[layer.get_config() for layer in each.layers if layer.weights] for each in both]
    assert configs[0] == configs[1]


@dense_case
def test_adapters_are_saved_and_loaded_with_the_optimizers_state(case, tmp_path):
    model, x = randomise(case.make()), inputs_for(case)
    before = keras.ops.convert_to_numpy(model(x))
    adapt(model)
    answer = keras.ops.convert_to_numpy(model(x))
    assert np.abs(answer - before).max() > 1e-4  # much more than the 1e-6 below
    model.compile("adam", "mse")
    model.optimizer.build(model.trainable_variables)
    for i, variable in enumerate(model.optimizer.variables):
        variable.assign(keras.ops.full(variable.shape, i + 1, variable.dtype))
    opened = reopened(model, tmp_path)
    assert trained(opened) == trained(model)
    for theirs, own in ((opened.weights, model.weights), (opened.optimizer.variables, model.optimizer.variables)):
        for a, b in zip(theirs, own, strict=True):
            # Keras merges the adapters of its own layer, `pre_logits`, into the kernel.
            assert "pre_logits" in a.path or np.array_equal(*map(keras.ops.convert_to_numpy, (a, b))), a.path
    assert max_difference(opened(x), answer) < 1e-6
    model.save_weights(tmp_path / "model.weights.h5")
    merged = case.make()
    merged.load_weights(tmp_path / "model.weights.h5")
    assert max_difference(merged(x), answer) < 1e-6


def test_a_file_without_adapters_leaves_a_layers_own_without_effect(tmp_path):
    (case,) = (case for case in LAYERS if case.name == "Head")
    plain, x = randomise(case.make()), inputs_for(case)
    plain.save_weights(tmp_path / "plain.weights.h5")
    model = adapt(case.make())
    model.load_weights(tmp_path / "plain.weights.h5")
    assert max_difference(model(x), plain(x)) == 0
    assert np.any(keras.ops.convert_to_numpy(model.layers[-1].lora_kernel_a))  # else both would never learn
    store = {}
    model.layers[-1].save_own_variables(store)
    with pytest.raises(ValueError, match="expected LoRA's adapters of rank 3 and alpha 3, received rank 2"):
        adapt(case.make(), rank=3).layers[-1].load_own_variables(store)
    quantize(plain, "int8").layers[-1].save_own_variables(integers := {})
    adapters = {name: array for name, array in store.items() if name.startswith("lora")}
    with pytest.raises(ValueError, match="call enable_lora first"):
        plain.layers[-1].load_own_variables(integers | adapters)


@pytest.mark.broad
def test_a_quantized_block_is_adapted_and_saved(tmp_path):
    (case,) = (case for case in LAYERS if case.name == "EncoderBlock")
    model, x = quantize(randomise(case.make()), "int8"), inputs_for(case)
    adapt(model)
    answer = keras.ops.convert_to_numpy(model(x))
    opened = reopened(model, tmp_path)
    assert trained(opened) == trained(model) and max_difference(opened(x), answer) == 0


def test_modes_that_are_not_ours_and_subclasses_are_refused():
    layer = keras_vit.layers.Head(3)
    layer.build((None, 4))
    config = keras.quantizers.GPTQConfig(dataset=[], tokenizer=None, weight_bits=4)
    with pytest.raises(ValueError, match=r"mode expected one of \('int8', 'int4', 'float8'\)"):
        layer.quantize("gptq", config=config)

    class Doubled(keras_vit.layers.Head):
        def call(self, x):
            return 2 * super().call(x)

    layer = Doubled(3)
    layer.build((None, 4))
    with pytest.raises(NotImplementedError, match="Doubled may override `call`"):
        layer.quantize("int8")
