"""One update: parts of a batch, computing again, SAM, what is not finite, half precision."""

import json
import os
import signal
from dataclasses import replace

import keras
import numpy as np
import pytest
import tensorflow as tf
from support import first_quick, max_difference, needs_tensorflow, quick_first, randomise, run_python
from train import tiny

from keras_vit import Rope
from keras_vit.kernels import dispatch
from keras_vit.train import engine, step
from keras_vit.train.checkpoint import Checkpoints
from keras_vit.train.datasets import Datasets
from keras_vit.train.recipe import Average, Data, Loss, Model, Optimizer, Schedule
from keras_vit.train.stages import Forward, Span, spans_of
from keras_vit.train.state import FIRST_SCALE, Counters, first_state

pytestmark = needs_tensorflow
RECIPE = replace(
    tiny.RECIPE,
    model=Model(tiny.ROW, channels=1),
    data=Data("digits", batch_size=8),
    optimizer=Optimizer("sgd", learning_rate=0.1, momentum=0.0),
    schedule=Schedule("constant"),
    average=Average(),
)
RANDOM = replace(RECIPE.model, dropout_rate=0.2, attention_dropout_rate=0.2, drop_path_rate=0.2)
ROPE = Rope(100.0, coordinates="centers", pairs="halves", shift=0.5, jitter=1.5, rescale=2.0)
ROTATED = replace(RANDOM, variant=replace(tiny.ROW, rope=ROPE, positions="none"))
RNG = np.random.default_rng(0)
IMAGES = RNG.uniform(-1, 1, (8, 8, 8, 1)).astype("float32")
TARGETS = np.eye(3, dtype="float32")[RNG.integers(0, 3, 8)]
LABELS = ("a", "b", "c")


def start(recipe, cores=1):
    """A state whose head is not zero, and the update of it as a function of images and targets."""
    state = first_state(recipe, LABELS, 100, tf.distribute.get_strategy())
    randomise(state.model)
    if state.average is not state.model:
        state.average.set_weights(state.model.get_weights())
    return state, tf.function(step.Step(recipe, state, tf.distribute.get_strategy(), spans_of(recipe, 100)[0], cores))


def after(recipe, steps=2, images=IMAGES, targets=TARGETS, cores=1):
    """Loss and weights after a few updates."""
    state, update = start(recipe, cores)
    for _ in range(steps):
        loss, made, wrong = update(images, targets)
        assert (float(made), float(wrong)) == (1.0, 0.0)
    return float(loss), [np.asarray(variable) for variable in state.trained]


def with_optimizer(recipe=RECIPE, **changes):
    return replace(recipe, optimizer=replace(recipe.optimizer, **changes))


def test_the_loss_is_the_mean_over_the_batch_and_the_update_its_gradient():
    state, update = start(RECIPE)
    model = state.model
    with tf.GradientTape() as tape:
        loss = keras.losses.CategoricalCrossentropy()(TARGETS, model(IMAGES, training=True))
    slopes = tape.gradient(loss, [variable.value for variable in model.trainable_variables])
    expected = [v - 0.1 * slope for v, slope in zip(model.trainable_variables, slopes, strict=True)]
    assert float(update(IMAGES, TARGETS)[0]) == pytest.approx(float(loss), abs=1e-6)
    assert max_difference(model.trainable_variables, expected) < 1e-6


@pytest.mark.broad
@pytest.mark.parametrize("parts", quick_first([2, 4, 8], [4]))
@pytest.mark.parametrize(
    "model",
    quick_first([RECIPE.model, RANDOM, ROTATED], [RANDOM, ROTATED]),
    ids=["plain", "dropout", "rescaled positions"],
)
def test_parts_of_a_batch_make_the_plain_update(parts, model):
    """With dropout, too: an example's masks depend on its place in the batch, not on the part that it is in."""
    plain = with_optimizer(replace(RECIPE, model=model), kind="adamw", weight_decay=0.1, clip_norm=0.1, epsilon=1e-3)
    loss, expected = after(plain)
    found, weights = after(with_optimizer(plain, accumulate=parts))
    assert found == pytest.approx(loss, abs=1e-6)
    assert max_difference(weights, expected) < 1e-6


@pytest.mark.broad
def test_each_example_draws_its_own_dropout():
    """The same image in all places: without dropout each has the same loss, with it the mean is another."""
    same, label = np.repeat(IMAGES[:1], 8, axis=0), np.repeat(TARGETS[:1], 8, axis=0)
    for model, alike in ((RECIPE.model, True), (RANDOM, False)):
        recipe = replace(RECIPE, model=model)
        first = replace(recipe, data=replace(recipe.data, batch_size=4))
        losses = after(first, 1, same[:4], label[:4])[0], after(recipe, 1, same, label)[0]
        assert (abs(losses[0] - losses[1]) < 1e-6) == alike


def broken_off(strategy):
    """All variables after two updates, and after the same two with a third batch that cannot be read."""
    recipe = replace(with_optimizer(kind="adamw", weight_decay=0.5), average=Average(0.9))
    found = []
    for count in (2, 3):
        state = first_state(recipe, LABELS, 100, strategy)
        read = lambda i: (IMAGES + 0 * tf.cast(tf.strings.length(tf.io.read_file(_path(i))), tf.float32), TARGETS)  # noqa: E731
        batches = strategy.experimental_distribute_dataset(tf.data.Dataset.range(4).map(read))
        steps = step.compiled_steps(recipe, state, strategy, spans_of(recipe, 100)[0])
        try:
            steps(iter(batches), tf.constant(count))
            found.append("whole")
        except tf.errors.NotFoundError:
            found.append("broken off")
        parts = state.variables() | {"counters": [state.counters.tally]}  # beside it, the memory of this process
        found.append([np.asarray(v) for part in parts.values() for v in part])
    return found


def _path(i):
    return tf.where(i < 2, __file__, "absent")


@pytest.mark.broad
@pytest.mark.parametrize("strategy", ["one", pytest.param("mirrored", marks=pytest.mark.large)])
def test_where_the_data_breaks_off_all_updates_before_are_whole(strategy):
    """Neither the step nor the decay nor the average of the update that lacks its batch."""
    if strategy == "one":
        said, before, broken, after = broken_off(tf.distribute.get_strategy())
        assert (said, broken) == ("whole", "broken off")
        assert all(np.array_equal(a, b) for a, b in zip(before, after, strict=True))
    else:
        assert run_python(TWO_CPUS + BROKEN).strip() == "whole broken off True"


TWO_CPUS = """
import sys
import numpy as np
import tensorflow as tf
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
sys.path.insert(0, "tests")
"""

BROKEN = """
from train.test_step import broken_off

said, before, broken, after = broken_off(tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]))
print(said, broken, all(np.array_equal(a, b) for a, b in zip(before, after, strict=True)))
"""


@pytest.mark.parametrize(
    "model",
    quick_first([RANDOM, ROTATED, replace(RANDOM, freeze=("encoder_block_00",)), RECIPE.model], [RANDOM], [ROTATED]),
)
def test_computing_again_makes_the_plain_update(model, monkeypatch):
    """With dropout and stochastic depth, whose draws must be the same ones the second time; without, as if it were wide
    enough to compute parts of its blocks again by itself."""
    plain = replace(RECIPE, model=model)
    loss, expected = after(plain)
    monkeypatch.setattr(dispatch, "WIDE", 0)
    found, weights = after(replace(plain, recompute=True))
    assert found == pytest.approx(loss, abs=1e-6)
    assert max_difference(weights, expected) < 1e-6


def largest_need(recompute):
    """Bytes of tensors alive at once where a gradient's operations run one after the other, in a deep model."""
    recipe = replace(RECIPE, model=replace(RANDOM, variant=replace(tiny.ROW, depth=8, image_size=32)))
    state = first_state(recipe, LABELS, 1, tf.distribute.get_strategy())
    forward = Forward(state.model, state.trained, Span(0, 1, (32, 32, 1)), recompute)

    @tf.function
    def gradients(images):
        values = [tf.convert_to_tensor(variable.value) for variable in state.trained]
        with tf.GradientTape() as tape:
            tape.watch(values)
            loss = tf.reduce_sum(forward(values, [], images))
        return tape.gradient(loss, values)

    graph = gradients.get_concrete_function(tf.TensorSpec((8, 32, 32, 1))).graph
    operations = graph.get_operations()  # in the order of their making
    last = {id(tensor): i for i, operation in enumerate(operations) for tensor in operation.inputs}
    size = lambda tensor: (tensor.shape.num_elements() or 0) * max(tensor.dtype.size or 0, 0)  # noqa: E731
    alive, most = 0, 0
    ends = [0] * len(operations)
    for i, operation in enumerate(operations):
        for tensor in operation.outputs:
            alive += size(tensor)
            ends[max(last.get(id(tensor), i), i)] += size(tensor)
        most = max(most, alive)
        alive -= ends[i]
    return most


@pytest.mark.broad
def test_computing_again_holds_less():
    assert largest_need(recompute=True) < 0.4 * largest_need(recompute=False)


def test_sam_is_the_gradient_a_radius_uphill():
    recipe = with_optimizer(sam=0.3, clip_norm=0.05)
    state, update = start(recipe)
    model = state.model
    before = [np.asarray(variable) for variable in model.trainable_variables]

    def slopes():
        with tf.GradientTape() as tape:
            loss = keras.losses.CategoricalCrossentropy()(TARGETS, model(IMAGES, training=True))
        found = tape.gradient(loss, [variable.value for variable in model.trainable_variables])
        found = [np.asarray(slope, "float64") for slope in found]
        return float(loss), found, np.sqrt(sum((slope**2).sum() for slope in found))

    loss, plain, norm = slopes()
    for variable, value, slope in zip(model.trainable_variables, before, plain, strict=True):
        variable.assign(value + 0.3 * slope / norm)
    _, uphill, length = slopes()
    for variable, value in zip(model.trainable_variables, before, strict=True):
        variable.assign(value)
    assert float(update(IMAGES, TARGETS)[0]) == pytest.approx(loss, abs=1e-6)  # of the weights as they were
    expected = [value - 0.1 * slope * 0.05 / length for value, slope in zip(before, uphill, strict=True)]
    other = [value - 0.1 * slope * 0.05 / norm for value, slope in zip(before, plain, strict=True)]
    assert max_difference(model.trainable_variables, expected) < 1e-6 < max_difference(expected, other)


@pytest.mark.parametrize("kind", first_quick(["adamw", "sgd"]))
def test_what_is_not_finite_changes_nothing_but_the_step(kind):
    recipe = replace(with_optimizer(kind=kind, momentum=0.9), nonfinite="skip", average=Average(0.9))
    state, update = start(recipe)
    update(IMAGES, TARGETS)
    everything = [*state.model.weights, *state.average.weights, *state.optimizer.variables]
    before = [np.asarray(variable) for variable in everything]
    broken = IMAGES.copy()
    broken[3, 2, 2] = np.nan
    assert [float(x) for x in update(broken, TARGETS)] == [0.0, 0.0, 1.0]
    changed = [v.path for v, old in zip(everything, before, strict=True) if not np.array_equal(v, old)]
    assert changed == [state.optimizer.iterations.path] and int(state.optimizer.iterations) == 2
    assert [float(x) for x in update(IMAGES, TARGETS)][1:] == [1.0, 0.0]


def test_the_loss_of_no_update_is_no_number():
    counters = Counters()
    counters.count(0.0, 0.0, 1.0, 1)
    assert np.isnan(counters.mean_loss)
    counters.count(2.0, 1.0, 0.0, 2)
    assert counters.mean_loss == 2.0


@pytest.mark.broad
def test_updates_left_out_are_counted_through_a_stop(tmp_path, monkeypatch):
    pytest.importorskip("sklearn", reason="scikit-learn carries the digits")
    batches = Datasets.batches

    def breaking(self, input_shape, start):
        """Not a number in the third and the sixth batch of the run."""
        spoil = lambda i, batch: (tf.where((i == 2) | (i == 5), np.nan, 1.0) * batch[0], batch[1])  # noqa: E731
        return lambda part: batches(self, input_shape, start)(part).enumerate(start).map(spoil)

    def saving(self, at, save=Checkpoints.save):
        save(self, at)
        if at == 5:
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(Datasets, "batches", breaking)
    monkeypatch.setattr(engine, "CALL_SECONDS", 0.0)
    data = Data("digits", train_split="train[:5%]", test_split="test[:5%]", batch_size=16)  # four steps an epoch
    recipe = replace(RECIPE, data=data, epochs=2)
    with pytest.raises(FloatingPointError, match="another one at step 3; the last good state is of step 2"):
        engine.train(recipe, tmp_path / "stop")
    recipe = replace(recipe, nonfinite="skip")
    with monkeypatch.context() as patch:
        patch.setattr(Checkpoints, "save", saving)
        with pytest.raises(SystemExit):
            engine.train(recipe, tmp_path / "skip")
    assert engine.train(recipe, tmp_path / "skip")["skipped"] == 2
    rows = [json.loads(line) for line in (tmp_path / "skip" / "metrics.jsonl").read_text().splitlines()]
    assert [(row["step"], row["value"]) for row in rows if row["name"] == "skipped"] == [(4, 1.0), (8, 1.0)]
    assert all(np.isfinite(row["value"]) for row in rows)


def first_wrong(strategy):
    """The step named where the fourth and the fifth batch of a run are not finite, which goes on at the third one."""
    state = first_state(RECIPE, LABELS, 100, strategy)
    state.optimizer.iterations.assign(2)
    spoil = lambda i: (tf.where((i == 3) | (i == 4), np.nan, 1.0) * IMAGES, TARGETS)  # noqa: E731
    rows = tf.data.Dataset.range(2, 7).map(spoil).unbatch().batch(8, drop_remainder=True)
    steps = step.compiled_steps(RECIPE, state, strategy, spans_of(RECIPE, 100)[0])
    iterator = iter(strategy.experimental_distribute_dataset(rows))
    found = []
    for count in (1, 4):  # of the second call, the first update is wrong, and all after it
        steps(iterator, tf.constant(count))
        found.append((state.counters.first_wrong, int(state.counters.skipped)))
    return found


@pytest.mark.parametrize("strategy", ["one", pytest.param("mirrored", marks=pytest.mark.large)])
def test_the_first_update_that_is_not_finite_is_named(strategy):
    if strategy == "one":
        assert first_wrong(tf.distribute.get_strategy()) == [(0, 0), (4, 4)]
    else:
        code = "from train.test_step import first_wrong\n"
        code += 'print(first_wrong(tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])))'
        assert run_python(TWO_CPUS + code).strip() == "[(0, 0), (4, 4)]"


@pytest.mark.broad
def test_the_step_of_a_loss_that_is_not_finite_is_named_though_the_call_went_on(tmp_path, monkeypatch):
    pytest.importorskip("sklearn", reason="scikit-learn carries the digits")
    batches = Datasets.batches

    def breaking(self, input_shape, start):
        spoil = lambda i, batch: (tf.where(i == 4, np.nan, 1.0) * batch[0], batch[1])  # noqa: E731
        return lambda part: batches(self, input_shape, start)(part).enumerate(start).map(spoil)

    monkeypatch.setattr(Datasets, "batches", breaking)
    monkeypatch.setattr(engine.Speed, "images_in", lambda *_: 10**9)  # all of an epoch in a call
    data = Data("digits", train_split="train[:10%]", test_split="test[:5%]", batch_size=16)  # nine steps an epoch
    recipe = replace(RECIPE, data=data, epochs=1)
    for last in (1, 2):  # once more from the last good state
        sentence = f"another one at step 5; the last good state is of step {last}"
        with pytest.raises(FloatingPointError, match=sentence):
            engine.train(recipe, tmp_path / "run")


@pytest.mark.broad
def test_the_loss_scale_halves_at_an_overflow_and_doubles_after_many_good_steps():
    """As Keras's LossScaleOptimizer; an overflow is the scale's fault and stops no run until the scale is 1."""
    state, update = start(replace(RECIPE, precision="mixed_float16", nonfinite="stop"))
    assert state.scale.numpy().tolist() == [FIRST_SCALE, 0.0]
    state.scale.assign([2.0**60, 7.0])  # far past 65504, the largest of half precision
    before = state.model.get_weights()
    assert [float(x) for x in update(IMAGES, TARGETS)] == [0.0, 0.0, 0.0]
    assert state.scale.numpy().tolist() == [2.0**59, 0.0]
    assert all(np.array_equal(a, b) for a, b in zip(before, state.model.get_weights(), strict=True))
    state.scale.assign([2.0**10, step.GROWTH_STEPS - 2])
    for expected in ([2.0**10, step.GROWTH_STEPS - 1], [2.0**11, 0.0], [2.0**11, 1.0]):
        assert [float(x) for x in update(IMAGES, TARGETS)][1:] == [1.0, 0.0]
        assert state.scale.numpy().tolist() == expected
    state.scale.assign([1.0, 5.0])
    assert [float(x) for x in update(np.nan * IMAGES, TARGETS)] == [0.0, 0.0, 1.0]
    assert state.scale.numpy().tolist() == [1.0, 0.0]


@pytest.mark.broad
@pytest.mark.parametrize("precision", quick_first(["mixed_float16", "mixed_bfloat16"], ["mixed_bfloat16"]))
def test_half_precision_makes_nearly_the_same_update(precision):
    loss, weights = after(RECIPE, 1)
    found, half = after(replace(RECIPE, precision=precision), 1)
    start_weights = [np.asarray(variable) for variable in start(RECIPE)[0].trained]
    moves = [np.concatenate([(w - s).ravel() for w, s in zip(x, start_weights, strict=True)]) for x in (weights, half)]
    assert found == pytest.approx(loss, rel=0.01) and all(weight.dtype == "float32" for weight in half)
    assert np.linalg.norm(moves[1] - moves[0]) < 0.03 * np.linalg.norm(moves[0])


def test_smoothed_labels_reach_the_update():
    smooth = replace(RECIPE, loss=Loss(label_smoothing=0.3))
    targets = 0.7 * TARGETS + 0.1
    (loss, weights), (expected, same) = after(smooth), after(RECIPE, targets=targets.astype("float32"))
    assert loss == pytest.approx(expected, abs=1e-6) and max_difference(weights, same) < 1e-6
