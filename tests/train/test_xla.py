"""The whole update compiles under XLA with static shapes, as a TPU would have it (none was at hand)."""

from dataclasses import replace

import numpy as np
import pytest
import tensorflow as tf
from support import max_difference, needs_tensorflow, quick_first, randomise
from train import tiny

from keras_vit import kernels
from keras_vit.data.seeds import seed_pair
from keras_vit.kernels.activations import GELU_TANH
from keras_vit.kernels.dispatch import training_overrides
from keras_vit.models.variants import ResNetStem
from keras_vit.train import step as steps_of
from keras_vit.train.recipe import BiTVariant, Curriculum, Data, Model, Schedule, Stage
from keras_vit.train.stages import spans_of
from keras_vit.train.state import first_state
from keras_vit.train.step import Step

pytestmark = needs_tensorflow
ROW = replace(tiny.ROW, depth=1, image_size=16)
DROP = {"dropout_rate": 0.2, "attention_dropout_rate": 0.2, "drop_path_rate": 0.2}
RECIPE = replace(
    tiny.RECIPE,
    model=Model(ROW),
    data=Data("digits", batch_size=4),
    optimizer=replace(tiny.RECIPE.optimizer, clip_norm=0.5, epsilon=1e-3),
    schedule=Schedule("cosine"),
)
LABELS = ("a", "b", "c")


def row(**changes):
    return replace(RECIPE, model=replace(RECIPE.model, variant=replace(ROW, **changes)))


def model(**changes):
    return replace(RECIPE, model=replace(RECIPE.model, **changes))


def optimizer(**changes):
    return replace(RECIPE, optimizer=replace(RECIPE.optimizer, **changes))


RECIPES = {
    "token": RECIPE,
    "gap": model(pooling="gap"),
    "map": model(pooling="map"),
    "representation": model(representation_size=8),
    "hybrid": row(stem=ResNetStem((1,), 0.5), patch_size=1),
    "bit": replace(RECIPE, model=Model(BiTVariant("small", (1,), 0.5, image_size=16), pooling="gap")),
    "axial bit": replace(RECIPE, model=Model(BiTVariant("small", (1,), 0.5, image_size=16, axial=True), pooling="gap")),
    "locality": row(mlp_kernel_size=3),
    "sincos2d": row(positions="sincos2d"),
    "relative": row(positions="relative"),
    "2d in every block": row(positions="2d", positions_at="layers"),
    "axial": replace(RECIPE, model=Model(replace(ROW, axial=True), pooling="gap")),
    "axial again": replace(RECIPE, model=Model(replace(ROW, axial=True), pooling="gap"), recompute=True),
    "pixels": model(include_preprocessing=True),
    "bfloat16": replace(RECIPE, precision="mixed_bfloat16"),
    "float16": replace(RECIPE, precision="mixed_float16"),
    "parts": optimizer(accumulate=2),
    "sam": optimizer(sam=0.05),
    "again": replace(RECIPE, recompute=True),
    "skip": replace(RECIPE, nonfinite="skip"),
    "sgd": optimizer(kind="sgd"),
    "lamb": optimizer(kind="lamb"),
    "adafactor": optimizer(kind="adafactor", moment_dtype="bfloat16"),
    "muon": optimizer(kind="muon"),
    "smaller images": replace(RECIPE, curriculum=Curriculum((Stage(0.5, image_size=8),))),
    "larger patches": replace(RECIPE, curriculum=Curriculum((Stage(0.5, patch_size=8),))),
}


def after(recipe, compiled, steps=2):
    """Losses of a few updates, the weights they lead to, and those they began with.

    Without the bias of query, key and value: the key's has a gradient of nothing but rounding, which Adafactor
    divides by its own size.
    """
    strategy, span = tf.distribute.get_strategy(), spans_of(recipe, 100)[0]
    state = first_state(recipe, LABELS, 100, strategy)
    with pytest.MonkeyPatch.context() as patch:
        if compiled:  # on a TPU layers keep their reference
            patch.setattr(steps_of, "training_overrides", lambda layers: [])
        step = Step(recipe, state, strategy, span)
    randomise(state.model)
    state.average.set_weights(state.model.get_weights())
    rng = np.random.default_rng(0)
    images = tf.constant(rng.uniform(-1, 1, (4, *span.input_shape)), tf.float32)
    update = tf.function(step, jit_compile=compiled)
    kept = [v for v in (*state.model.weights, *state.average.weights) if not v.path.endswith("qkv/bias")]
    start = [np.array(v) for v in kept]
    losses = [float(update(images, tf.one_hot([0, 1, 2, 1], 3))[0]) for _ in range(steps)]
    return losses, [np.array(v) for v in kept], start


@pytest.mark.broad
@pytest.mark.parametrize("kind", quick_first(RECIPES, ["token"]))
def test_the_whole_update_compiles_and_is_the_same(kind):
    (losses, expected, start), (found, weights, _) = (after(RECIPES[kind], compiled) for compiled in (False, True))
    half = "float16" in kind
    assert np.allclose(found, losses, atol=2e-2 if half else 1e-4) and losses[0] != losses[1]
    if half:  # of the way that the weights went
        way, apart = (np.concatenate([np.ravel(a - b) for a, b in zip(expected, other, strict=True)])
                      for other in (start, weights))  # fmt: skip
        assert np.linalg.norm(apart) < 0.05 * np.linalg.norm(way)
    else:
        assert max_difference(weights, expected) < 1e-4


@pytest.mark.broad
def test_dropout_compiles_and_hangs_on_the_step_alone():
    """XLA draws other numbers than TensorFlow's kernels from a seed, but from the same seeds."""
    still = replace(RECIPE, model=Model(ROW, **DROP), schedule=Schedule("cosine", warmup_steps=50))
    (first, second), *_ = after(still, True)  # the first update's rate is 0
    (plain,), *_ = after(replace(still, model=Model(ROW)), False, 1)
    assert abs(first - plain) > 1e-3 and abs(second - first) > 1e-3
    seeds = tf.function(lambda step: seed_pair(3, step, 1, 0), jit_compile=True)
    assert all(np.array_equal(seeds(tf.constant(i)), seed_pair(3, i, 1, 0)) for i in range(50))


@pytest.mark.broad
@pytest.mark.parametrize("kind", quick_first(["parts", "float16"], ["parts"]))
def test_beside_a_gpu_a_replicas_gradient_is_compiled(kind, monkeypatch):
    """With a CPU in the GPU's place: TensorFlow had none at hand."""
    (first, *_), plain, _ = after(RECIPES[kind], False)
    monkeypatch.setattr(steps_of, "on_gpu", lambda: True)
    monkeypatch.setattr(kernels, "by_xla", lambda: True)
    seen = []
    function = tf.function
    monkeypatch.setattr(tf, "function", lambda *args, **kwargs: seen.append(kwargs) or function(*args, **kwargs))
    (found, *_), weights, _ = after(RECIPES[kind], False)
    assert any(kwargs.get("jit_compile") for kwargs in seen)
    assert np.allclose(found, first, atol=2e-2 if kind == "float16" else 1e-5)
    assert kind == "float16" or max_difference(weights, plain) < 1e-4
    state = first_state(RECIPE, LABELS, 100, tf.distribute.get_strategy())
    assert not training_overrides(state.model._flatten_layers())


def test_the_island_is_part_of_a_larger_compiled_function():
    """A compiled function of `kernels/` within a compiled one, value and gradient; on TPU and GPU there is none."""
    x = tf.linspace(-4.0, 4.0, 101)

    def value_and_slope(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = GELU_TANH(x)
        return y, tape.gradient(y, x)

    compiled = tf.function(value_and_slope, jit_compile=True)
    assert max_difference(compiled(x), value_and_slope(x)) < 1e-6
    assert "custom-call" not in compiled.experimental_get_compiler_ir(x)(stage="optimized_hlo")
    state = first_state(RECIPE, LABELS, 100, tf.distribute.get_strategy())
    rows = training_overrides(state.model._flatten_layers())
    assert [row.function for row in rows if row.operation == "activation"] == [GELU_TANH]
