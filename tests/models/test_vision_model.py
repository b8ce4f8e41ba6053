"""Models on the class token compute its row alone in the last block, and answer as if they did not."""

from contextlib import nullcontext
from dataclasses import asdict, replace

import keras
import numpy as np
import pytest
from support import first_quick, max_difference, needs_tensorflow, randomise, run_python, trained_on_cpu

import keras_vit
from keras_vit.layers import AttentionWithOptions, MultiHeadSelfAttention, capture_attention, encoder
from keras_vit.layers.attention_options import has_class_token_only
from keras_vit.layers.base import Dense
from keras_vit.layers.override import Override, overriding
from keras_vit.models.vision_model import VisionModel, class_token_only_block

ROW = keras_vit.Variant("row", width=16, depth=2, mlp_dim=24, num_heads=4, patch_size=4, image_size=16)
IMAGES = np.random.default_rng(1).standard_normal((3, 16, 16, 3)).astype("float32")
LAST = "encoder_block_01"


def built(row=ROW, **options):
    return randomise(keras_vit.build(row, **{"classes": 5, "classifier_activation": None, **options}))


def plain(model):
    return keras.Model(model.input, model.output)


def rows_normalised(model, call):
    """How many tokens of an image `encoder_norm` is given while `call` runs, each time."""
    layer, seen = model.get_layer("encoder_norm"), []
    norm = lambda x, *args: seen.append(x.shape[1]) or encoder.layer_norm(x, *args)  # noqa: E731
    with overriding([Override(layer, "norm", norm, training) for training in (False, True)]):
        call()
    return seen


@pytest.mark.parametrize("options", [{}, {"representation_size": 8}, {"include_top": False}])
def test_one_row_is_computed_and_the_answer_is_the_plain_models(options):
    model = built(**options)
    assert type(model) is VisionModel and class_token_only_block(model).name == LAST
    assert rows_normalised(model, lambda: model(IMAGES)) == [1]
    assert rows_normalised(model, lambda: plain(model)(IMAGES)) == [17]
    assert max_difference(model(IMAGES), plain(model)(IMAGES)) < 2e-6
    assert max_difference(model(IMAGES, training=True), plain(model)(IMAGES, training=True)) < 2e-6


def test_predict_and_a_model_around_it_compute_one_row():
    model = built()
    around = keras.Model(model.input, keras.layers.Dense(2)(model(model.input)))
    assert rows_normalised(model, lambda: model.predict(IMAGES, verbose=0)) == [1]
    assert rows_normalised(model, lambda: around.predict(IMAGES, verbose=0)) == [1]


def test_features_are_those_of_all_tokens():
    model = built()
    features = keras_vit.feature_model(model, [LAST, "encoder_norm"])
    of_block, normed = features(IMAGES)
    assert of_block.shape == normed.shape == (3, 17, 16)
    both = VisionModel(model.input, [model.get_layer("encoder_norm").output, model.output])
    assert class_token_only_block(both) is None
    assert max_difference(both(IMAGES), [normed, plain(model)(IMAGES)]) == 0


def test_a_model_of_the_same_block_inside_another_keeps_all_tokens():
    model = built()
    features = keras.Model(model.input, model.get_layer(LAST).output)
    outputs = [model.output, keras.ops.mean(features(model.input), axis=1)]
    ours = VisionModel(model.input, outputs)
    assert class_token_only_block(ours) is None
    assert max_difference(ours(IMAGES), keras.Model(model.input, outputs)(IMAGES)) < 2e-6


@pytest.mark.broad
@needs_tensorflow  # JAX traces `training` then, which no model of this package takes
def test_a_block_that_keras_rematerialises_computes_one_row_too():
    with keras.RematScope(mode="list_of_layers", layer_names=[LAST]):  # Keras's "full" fails with TensorFlow
        model = built()
    model.compile("sgd", "mse", run_eagerly=True)  # likewise in a graph
    assert set(rows_normalised(model, lambda: model.fit(IMAGES, np.zeros((3, 5)), verbose=0))) == {1}
    assert max_difference(model(IMAGES), plain(model)(IMAGES)) < 2e-6


@pytest.mark.parametrize(
    "options", [{}, {"pooling": "map"}, {"class_token": True}, {"pooling": None, "include_top": False}]
)
def test_what_reads_all_tokens_computes_all(options):
    model = built(**{"pooling": "gap", **options})
    assert class_token_only_block(model) is None
    assert max_difference(model(IMAGES), plain(model)(IMAGES)) == 0


def test_a_block_of_the_users_own_is_left_alone():
    class Own(encoder.EncoderBlock):
        def call(self, tokens, patches=None, training=False):
            return super().call(tokens, patches, training=training)[:, ::-1]

    images, norm = keras.Input((17, 16)), encoder.LayerNorm()
    own = VisionModel(images, keras_vit.layers.TokenPooling()(norm(Own(4, 24)(images))))
    assert class_token_only_block(own) is None and own(np.ones((2, 17, 16))).shape == (2, 16)


@pytest.mark.parametrize("option", [{"mlp_kernel_size": 3}, {"positions": "relative"}])
def test_blocks_that_know_their_neighbours_are_left_alone(option):
    model = built(keras_vit.Variant(**{**vars(ROW), **option}))
    assert class_token_only_block(model) is None
    assert max_difference(model(IMAGES), plain(model)(IMAGES)) == 0


def test_a_block_that_stands_in_two_places_is_left_alone():
    block, norm = encoder.EncoderBlock(4, 24), encoder.LayerNorm()
    images = keras.Input((17, 16))
    pooled = keras_vit.layers.TokenPooling()(norm(block(block(images))))
    assert class_token_only_block(VisionModel(images, pooled)) is None


def test_whoever_watches_attention_sees_all_of_it():
    model = built()
    with capture_attention([model.get_layer(LAST).attention]) as seen:
        answer = model(IMAGES)
    assert [tuple(weights.shape) for weights in seen] == [(3, 4, 17, 17)]
    assert max_difference(answer, plain(model)(IMAGES)) == 0
    assert rows_normalised(model, lambda: model(IMAGES)) == [1]


def test_a_norm_behind_the_pooling_and_positions_at_every_block():
    row = keras_vit.Variant(**{**vars(ROW), "positions_at": "layers"})
    model = built(row, norm_after_pooling=True)
    assert class_token_only_block(model).name == LAST
    assert max_difference(model(IMAGES), plain(model)(IMAGES)) < 2e-6


def test_saved_loaded_and_cloned_it_stays_lean(tmp_path):
    model = built()
    model.save(tmp_path / "model.keras")
    loaded, cloned = keras_vit.load_model(tmp_path / "model.keras"), keras.models.clone_model(model)
    for other in (loaded, cloned):
        assert type(other) is VisionModel and rows_normalised(other, lambda other=other: other(IMAGES)) == [1]
    assert max_difference(loaded(IMAGES), model(IMAGES)) == 0
    cloned.set_weights(model.get_weights())
    assert rows_normalised(cloned, lambda: plain(cloned)(IMAGES)) == [17]
    assert keras_vit.feature_model(cloned, [LAST])(IMAGES).shape == (3, 17, 16)
    assert max_difference(cloned(IMAGES), model(IMAGES)) == 0


@pytest.mark.broad
@needs_tensorflow
def test_an_export_in_bfloat16_has_all_tokens_and_the_rollout_of_all_blocks():
    from keras_vit.export.precision import in_dtype
    from keras_vit.export.serving_module import inference_function

    model = built()
    exact, half = (inference_function(m)(IMAGES) for m in (model, in_dtype(model, "bfloat16")))
    assert half["features"]["tokens"].shape == (3, 17, 16)
    rollouts = [answers["attention"]["rollout"] for answers in (exact, half)]
    assert max_difference(*rollouts) < 0.02 * float(keras.ops.max(rollouts[0]))


@pytest.mark.parametrize("option", [{"mlp_kernel_size": 3}, {"relative_positions": True}, {}])
def test_a_block_says_that_it_cannot_put_out_its_first_token_alone(option):
    block, patches = encoder.EncoderBlock(4, 24, **option), np.ones((2, 4, 4, 16), "float32")
    tokens = np.ones((2, 16, 16), "float32")
    block(tokens, patches) if "mlp_kernel_size" in option else block(tokens)
    if not option:
        assert block(tokens, class_token_only=True).shape == (2, 1, 16)
    sentence = "class_token_only expected False for a block with relative positions, a convolution, captured"
    with pytest.raises(ValueError, match=sentence), capture_attention([] if option else [block.attention]):
        block(tokens, class_token_only=True)


def test_attention_of_another_kind_is_left_alone():
    class Sharp(MultiHeadSelfAttention):
        def split(self, qkv):
            query, key, value = super().split(qkv)
            return 4 * query, key, value

    class Twice(Dense):
        def call(self, inputs, training=False):
            return 2 * super().call(inputs, training)

    for part, kind in (("", Sharp), ("qkv", Twice)):
        model = built()
        attention = model.get_layer(LAST).attention
        before = model(IMAGES)
        (getattr(attention, part) if part else attention).__class__ = kind
        assert class_token_only_block(model) is None
        assert max_difference(model(IMAGES), plain(model)(IMAGES)) == 0 < max_difference(model(IMAGES), before) / 0.1


@pytest.mark.broad
@needs_tensorflow
def test_quantised_by_keras_it_still_answers():
    model = built()
    expected = plain(model)(IMAGES)
    model.get_layer(LAST).attention.qkv.quantize("int8", type_check=False)
    assert class_token_only_block(model) is None
    assert max_difference(model(IMAGES), expected) < 0.1 * float(keras.ops.max(keras.ops.abs(expected)))


def test_what_the_first_token_gathers_under_dropout():
    rng = np.random.default_rng(2)
    tokens = rng.standard_normal((3, 5, 8)).astype("float32")
    attention = MultiHeadSelfAttention(2, attention_dropout_rate=0.5)
    attention.build(tokens.shape)
    for variable in attention.weights:
        variable.assign(rng.standard_normal(variable.shape))
    kept = np.array([2.0, 0.0, 2.0, 0.0, 0.0], "float32")  # of each head's five weights: they do not sum to 1 any more
    attention.attention_dropout = lambda weights, training: weights * kept if training else weights
    for training in (False, True):
        ours = attention(tokens, class_token_only=True, training=training)
        assert ours.shape == (3, 1, 8)
        assert max_difference(ours, attention(tokens, training=training)[:, :1]) < 2e-5


@pytest.mark.parametrize(
    "options",
    [
        {"qkv_bias": "qv"},
        {"inner_norm": "layer", "out_bias": False},
        {"rope": asdict(keras_vit.Rope(pairs="halves")), "qkv_bias": "none", "grid": (2, 2), "prefix_tokens": 1},
        {"rope": asdict(keras_vit.Rope(learned=True)), "qk_norm": "rms", "grid": (1, 3), "prefix_tokens": 2},
    ],
)
def test_an_attention_with_options_computes_its_class_token(options):
    rng = np.random.default_rng(2)
    tokens = rng.standard_normal((3, 5, 8)).astype("float32")
    attention = AttentionWithOptions(2, **options)
    attention.build(tokens.shape)
    for variable in attention.weights:
        variable.assign(rng.standard_normal(variable.shape))
    assert has_class_token_only(attention)
    ours = attention(tokens, class_token_only=True)
    assert ours.shape == (3, 1, 8)
    assert max_difference(ours, attention(tokens)[:, :1]) < 2e-5


@pytest.mark.parametrize(
    "options",
    [
        {"relative_bias": "table", "grid": (2, 2), "prefix_tokens": 1},
        {"differential": 0.2},
        {"heads_per_key": 2},
        {"rope": asdict(keras_vit.Rope()), "grid": (1, 5)},
    ],
)
def test_attentions_whose_class_token_depends_on_more_are_left_alone(options):
    assert not has_class_token_only(AttentionWithOptions(2, **options))


def test_a_model_with_rotary_positions_computes_one_row():
    rope = keras_vit.Rope(coordinates="centers", pairs="halves")
    model = built(replace(ROW, rope=rope, qkv_bias="qv", positions="none", registers=2, layer_scale=0.5))
    assert class_token_only_block(model).name == LAST
    assert rows_normalised(model, lambda: model(IMAGES)) == [1]
    assert max_difference(model(IMAGES), plain(model)(IMAGES)) < 2e-6
    assert max_difference(model(IMAGES, training=True), plain(model)(IMAGES, training=True)) < 2e-6


@needs_tensorflow
@pytest.mark.parametrize("fused", [False, True])
def test_gradients_are_the_plain_models(fused):
    import tensorflow as tf

    model = built()

    def gradients(model):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(model(IMAGES, training=True) ** 2)
        return tape.gradient(loss, model.trainable_variables, unconnected_gradients="zero")

    with trained_on_cpu(model) if fused else nullcontext():
        found = gradients(model)
    for ours, theirs in zip(found, gradients(plain(model)), strict=True):
        assert max_difference(ours, theirs) < 1e-5 * max(1.0, float(tf.reduce_max(abs(theirs))))


@needs_tensorflow
def test_a_rematerialised_block_computes_the_class_token_only_a_second_time():
    import tensorflow as tf

    def gradients(model):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(model(IMAGES, training=True) ** 2)
        return tape.gradient(loss, model.trainable_variables, unconnected_gradients="zero")

    with keras.RematScope(mode="list_of_layers", layer_names=[LAST]):
        model = built()
    expected = gradients(plain(model))
    for found, theirs in zip(gradients(model), expected, strict=True):
        assert max_difference(found, theirs) < 1e-5 * max(1.0, float(tf.reduce_max(abs(theirs))))


@needs_tensorflow
def test_training_computes_one_row_and_nothing_of_it_twice():
    from keras_vit.kernels.recompute import Recomputed
    from keras_vit.train.stages import Forward, Span

    model = built()
    values = [variable.value for variable in model.trainable_variables]
    for recompute, size in ((False, 16), (True, 16), (True, 8)):
        forward = Forward(model, model.trainable_variables, Span(0, 1, (size, size, 3)), recompute)
        assert rows_normalised(model, lambda f=forward, s=size: f(values, [], IMAGES[:, :s, :s])) == [1]
        again = [layer.name for layer in forward._logits.layers if isinstance(layer, Recomputed)]
        assert again == (["encoder_block_00_recomputed"] if recompute else [])


@pytest.mark.parametrize("rate", first_quick(["dropout_rate", "drop_path_rate", "attention_dropout_rate"]))
def test_dropout_and_stochastic_depth_of_one_row(rate):
    tokens = np.random.default_rng(3).standard_normal((6, 17, 16)).astype("float32")
    inputs = keras.Input((17, 16))
    block, norm = encoder.EncoderBlock(4, 24, **{rate: 0.5}), encoder.LayerNorm()
    model = VisionModel(inputs, keras_vit.layers.TokenPooling()(norm(block(inputs))))
    assert class_token_only_block(model) is block
    randomise(model)
    answers = [keras.ops.convert_to_numpy(model(tokens, training=True)) for _ in range(2)]
    assert np.isfinite(answers).all() and np.abs(answers[0] - answers[1]).max() > 1e-3
    assert max_difference(model(tokens), plain(model)(tokens)) < 2e-6


@needs_tensorflow
def test_whoever_makes_a_model_of_it_to_compute_with_makes_a_lean_one():
    from keras_vit.analysis import neighbours
    from keras_vit.evaluate import few_shot
    from keras_vit.evaluate.accuracy import logits_model
    from keras_vit.export.serving_module import inference_function
    from keras_vit.models.model_interface import named_outputs

    model = built()
    for call in (
        named_outputs(model),
        logits_model(model),
        few_shot.feature_function(model),
        lambda images: neighbours.features_of(model, images.clip(-1, 1)),
    ):
        assert rows_normalised(model, lambda call=call: call(IMAGES)) == [1]
    assert rows_normalised(model, lambda: inference_function(model)(IMAGES)) == [17, 1]  # features, beside the answer


@needs_tensorflow
def test_an_answer_that_reads_something_in_front_of_the_block_as_well():
    from keras_vit.export.serving_module import inference_function

    model = built(include_top=False)
    early = keras.layers.GlobalAveragePooling2D()(model.get_layer("embedding").output)
    head = keras_vit.layers.Head(5, name="head")
    both = VisionModel(model.input, head(keras.layers.Concatenate()([model.output, early])))
    answers = inference_function(both)(IMAGES)
    assert max_difference(answers["serving_default"]["logits"], plain(both)(IMAGES)) < 2e-6


ELSEWHERE = """
import sys
sys.path[:0] = ["tests", "tests/models"]
import keras, numpy as np
import test_vision_model as here
model = here.built()
answer = []
print(here.rows_normalised(model, lambda: answer.append(model.predict(here.IMAGES, verbose=0))))
print(float(abs(answer[0] - here.plain(model).predict(here.IMAGES, verbose=0)).max()))
"""


@pytest.mark.broad
@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_on_other_backends_one_row_gives_the_same_answer(backend):
    pytest.importorskip(backend)
    rows, difference = run_python(ELSEWHERE, backend).strip().splitlines()[-2:]
    assert rows == "[1]" and float(difference) < 1e-5
