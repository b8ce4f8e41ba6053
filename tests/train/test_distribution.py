"""Two replicas make the update that one device makes."""

import json
from dataclasses import replace
from unittest import mock

import numpy as np
import pytest
import tensorflow as tf
from support import max_difference, needs_tensorflow, randomise, run_python
from train.test_step import IMAGES, LABELS, RANDOM, RECIPE, TARGETS, TWO_CPUS, with_optimizer
from train.tiny import ROW

from keras_vit.kernels import dispatch, updates
from keras_vit.train import step
from keras_vit.train.recipe import Average
from keras_vit.train.stages import spans_of
from keras_vit.train.state import first_state
from keras_vit.train.strategy import choose

pytestmark = needs_tensorflow
BATCHES = ((IMAGES, TARGETS),) * 2
BROKEN_HALF = np.where(np.arange(8) == 6, np.nan, 1.0)[:, None, None, None].astype("float32") * IMAGES

# Two cores with a thread each, in a process that trains on one device, too.
TWO_CORES = """
from keras_vit.train import strategy
strategy.usable_cores = lambda: 2
assert strategy.choose("cores", 16).cores == 2
OTHER = "cores"
"""

TRAIN = """
import tempfile
import keras, numpy as np
from keras_vit.train.engine import train
from keras_vit.train.recipe import *

row = Variant("tiny", width=8, depth=1, mlp_dim=16, num_heads=2, patch_size=4, image_size=8)
recipe = Recipe(
    "tiny", Model(row, channels=1, dropout_rate=0.1, attention_dropout_rate=0.1),
    Data("digits", train_split="train[:5%]", test_split="test[:20%]", batch_size=16),
    Augment(shift=0.1, mixup=0.2),
    Optimizer("adamw", learning_rate=1e-2, weight_decay=0.1, clip_norm=0.1, accumulate=2),
    Schedule("linear", warmup_steps=2), average=Average(0.9), epochs=2,
    curriculum=Curriculum((Stage(0.5, image_size=6, patch_size=2),)),
)
def values(model):
    # Without the keys' biases: a softmax cancels them, so their gradients are rounding, which Adam divides by its size.
    keys = slice(row.width, 2 * row.width)
    return [np.delete(v, keys) if v.path.endswith("qkv/bias") else np.asarray(v) for v in model.weights]

found = {}
for strategy in ("one", OTHER):
    with tempfile.TemporaryDirectory() as folder:
        summary = train(recipe, folder + "/run", strategy=strategy)
        model = keras.saving.load_model(folder + "/run/model.keras", compile=False)
        found[strategy] = (summary, values(model))
(one, a), (two, b) = found["one"], found[OTHER]
difference = max(float(np.max(np.abs(x - y))) for x, y in zip(a, b, strict=True))
moved = float(np.max(np.abs(a[-2])))  # the head's kernel, which starts at 0
print(one["replicas"], two["replicas"], one["accuracy"] == two["accuracy"], difference < 1e-6, moved > 1e-3)
"""

MEASURE = """
import numpy as np
import keras_vit
from keras_vit.train import measure
from keras_vit.train.datasets import Datasets
from keras_vit.train.recipe import *
from keras_vit.train.strategy import choose

row = Variant("tiny", width=8, depth=1, mlp_dim=16, num_heads=2, patch_size=4, image_size=8)
evaluate = Evaluate(metrics=("accuracy", "top5", "calibration"), few_shot="digits", shots=(1, 2),
                    few_shot_splits=("train[:20%]", "test[:15%]"))
data = Data("digits", test_split="test[:15%]", batch_size=16)
recipe = Recipe("tiny", Model(row, channels=1), data, evaluate=evaluate)
rng, sizes = np.random.default_rng(0), []
values, found = None, {}
plain = measure.evaluator
def watched(*args, **options):
    function = plain(*args, **options)
    return lambda images, *rest: sizes.append(images.shape[0]) or function(images, *rest)
measure.evaluator = watched
for name in ("one", "mirrored"):
    devices = choose(name, 16)
    data = Datasets.open(recipe)
    with devices.strategy.scope():
        model = keras_vit.build(row, input_shape=(8, 8, 1), classes=10)
    values = values or [rng.normal(0, 0.3, weight.shape) for weight in model.weights]
    model.set_weights(values)
    found[name] = measure.Measure(recipe, model, data, devices)("test")
one, two = found["one"], found["mirrored"]
same = all(np.isclose(one[key], two[key], rtol=1e-6, atol=0) for key in one)
print(sorted(set(sizes)), list(one) == list(two), same, one["examples"], 0 < one["few_shot_2"] < 1)
"""


def start_on(strategy, recipe):
    """A state on a strategy's devices, and the update of it as a function of the whole batch."""
    state = first_state(recipe, LABELS, 100, strategy)
    with strategy.scope():
        randomise(state.model)
        state.average.set_weights(state.model.get_weights())
    update = tf.function(step.Step(recipe, state, strategy, spans_of(recipe, 100)[0]))

    def on_batch(images, targets):
        batches = tf.data.Dataset.from_tensors((images, targets)).unbatch().batch(len(images), drop_remainder=True)
        (batch,) = strategy.experimental_distribute_dataset(batches)
        return [float(x) for x in update(*batch)]

    return state, on_batch


def copies(strategy, variables):
    """Of each replica, the arrays that it holds."""
    each = [strategy.experimental_local_results(variable) for variable in variables]
    return [[np.array(copy) for copy in replica] for replica in zip(*each, strict=True)]


def weights_on(strategy, state):
    """Of each replica, the weights and their average.

    Without the keys' biases: a softmax cancels them, so their gradients are rounding, which Adafactor divides by its
    size.
    """
    weights = [*state.model.weights, *state.average.weights]
    thirds = [v.shape[0] // 3 if v.path.endswith("qkv/bias") else 0 for v in weights]
    own = copies(strategy, [v.value for v in weights])
    return [[np.delete(x, slice(n, 2 * n), axis=0) for x, n in zip(copy, thirds, strict=True)] for copy in own]


def after(strategy, recipe, batches=BATCHES):
    """The last loss, and every replica's weights before the updates and after them."""
    state, update = start_on(strategy, recipe)
    before = weights_on(strategy, state)
    loss = [update(*batch)[0] for batch in batches][-1]
    return loss, before, weights_on(strategy, state)


def apart(one, two):
    """How far two replicas end from one device, in the loss and in the weights, and how far these came."""
    (loss, (begin,), (weights,)), (found, _, (first, second)) = one, two
    differences = [max_difference(weights, own) for own in (first, second)]
    return [abs(found - loss), max(differences), max_difference(begin, weights)]


def plain(**changes):
    """A small recipe with an average."""
    model = replace(RECIPE.model, variant=replace(ROW, depth=1))
    return with_optimizer(replace(RECIPE, model=model, average=Average(0.9)), **changes)


def parts(one, two):
    """With SAM and clipping, whose norms are of the whole gradient, the average, and what wide models compute again."""
    recipe = plain(clip_norm=0.1, sam=0.05)
    expected = after(one, recipe)
    with mock.patch.object(dispatch, "WIDE", 0):
        found = [apart(expected, after(two, with_optimizer(recipe, accumulate=count))) for count in (1, 4)]
    return [max(x) for x in zip(*found, strict=True)]


def dropout(one, two):
    """Of all kinds: each replica draws the masks that one device draws for its examples; in parts, too."""
    recipe = replace(plain(clip_norm=0.1), model=replace(RANDOM, variant=replace(ROW, depth=1)))
    expected = after(one, recipe)
    found = [apart(expected, after(two, with_optimizer(recipe, accumulate=count))) for count in (1, 2)]
    return [max(x) for x in zip(*found, strict=True)]


def scales(strategy, state):
    """Of each replica, the power of two that the loss is scaled by."""
    return [float(np.log2(scale[0])) for (scale,) in copies(strategy, [state.scale])] if state.scale is not None else []


def left_out(strategy, recipe, spoiled):
    """Two updates around one that is left out, as of `after`; what that one said, and which copies it moved."""
    state, update = start_on(strategy, recipe)
    begin = weights_on(strategy, state)
    update(IMAGES, TARGETS)
    variables = [*state.model.weights, *state.average.weights, *state.optimizer.variables]
    before, said = copies(strategy, [v.value for v in variables]), spoiled(strategy, state, update)
    pairs = zip(before, copies(strategy, [v.value for v in variables]), strict=True)
    moved = [[v.path for v, a, b in zip(variables, *pair, strict=True) if not np.array_equal(a, b)] for pair in pairs]
    loss, *made = update(IMAGES, TARGETS)
    return (loss, begin, weights_on(strategy, state)), [said, moved, made + scales(strategy, state)]


def skip(one, two):
    """Not a number in the second replica's half alone; and a model of another size than the cases before."""
    recipe = replace(plain(kind="adamw", weight_decay=0.1, epsilon=1e-3), nonfinite="skip")
    recipe = replace(recipe, model=replace(recipe.model, variant=replace(ROW, depth=1, mlp_dim=24)))
    spoiled = lambda strategy, state, update: update(BROKEN_HALF, TARGETS)  # noqa: E731
    (expected, _), (found, said) = (left_out(strategy, recipe, spoiled) for strategy in (one, two))
    return [*apart(expected, found), *said]


def overflow(one, two):
    """In half precision, one device in two parts: the products of each half are then the same to the bit."""
    recipe = replace(plain(clip_norm=0.1), precision="mixed_float16")

    def spoiled(strategy, state, update):
        state.scale.assign([2.0**60, 7.0])  # far past 65504, the largest of half precision
        said = update(IMAGES, TARGETS) + scales(strategy, state)
        state.scale.assign([2.0**10, step.GROWTH_STEPS - 1])
        return said

    (expected, _) = left_out(one, with_optimizer(recipe, accumulate=2), spoiled)
    found, said = left_out(two, recipe, spoiled)
    return [*apart(expected, found), *said]


def optimizer(**changes):
    recipe = plain(epsilon=1e-3, weight_decay=0.1, **changes)
    return lambda one, two: apart(after(one, recipe), after(two, recipe))


def adafactor(one, two):
    """Of kernels wide enough for their squares to be kept as means of rows and columns."""
    recipe = plain(kind="adafactor", learning_rate=0.01)
    recipe = replace(recipe, model=replace(recipe.model, variant=replace(ROW, depth=1, width=32, mlp_dim=64)))
    return apart(after(one, recipe), after(two, recipe))


def loops(one, two):
    """Updates by XLA's loops, made only if all is finite, of gradients that a replica has in two types."""
    found = []
    for changes in ({"kind": "adamw", "learning_rate": 1e-3}, {"momentum": 0.9, "moment_dtype": "bfloat16"}):
        recipe = replace(plain(epsilon=1e-3, weight_decay=0.1, **changes), precision="mixed_bfloat16", nonfinite="skip")
        with mock.patch.object(updates, "LARGE", 0):
            # Two parts on one device are added up in the order of two replicas.
            expected = after(one, with_optimizer(recipe, accumulate=2))
            found.append(apart(expected, after(two, recipe)))
    return [max(loss for loss, *_ in found), max(weights for _, weights, _ in found), min(moved for *_, moved in found)]


def compiled(one, two):
    """Each replica's gradient by XLA, as beside a GPU, in whose place CPUs stand."""
    recipe = plain(clip_norm=0.1, accumulate=2)
    expected = after(one, recipe)
    step.on_gpu = lambda: True
    return apart(expected, after(two, recipe))


CASES = {
    "dropout": dropout,
    "skip": skip,
    "parts": parts,
    "overflow": overflow,
    "loops": loops,
    "muon": optimizer(kind="muon", learning_rate=0.01, momentum=0.95),
    "lamb": optimizer(kind="lamb", learning_rate=0.01),
    "adafactor": adafactor,
    "sgd in bfloat16": optimizer(clip_norm=0.1, momentum=0.9, moment_dtype="bfloat16"),
    "adamw in bfloat16": optimizer(kind="adamw", learning_rate=1e-3, moment_dtype="bfloat16"),
    "compiled": compiled,  # the last: it stays so
}
SAID = {
    "skip": [[0.0, 0.0, 1.0], [["adamw/iteration"]] * 2, [1.0, 0.0]],
    "overflow": [[0.0, 0.0, 0.0, 59.0, 59.0], [["sgd/iteration"]] * 2, [1.0, 0.0, 11.0, 11.0]],
}


def compare(*names):
    """Print what each case finds, as JSON; its devices are chosen anew, as for each run of a process."""
    one = tf.distribute.get_strategy()
    print(json.dumps({name: CASES[name](one, choose("mirrored", 8).strategy) for name in names}))


@pytest.mark.broad
@pytest.mark.parametrize("names", [["sgd in bfloat16"], pytest.param([*CASES], marks=pytest.mark.large)], ids=len)
def test_two_replicas_end_where_one_device_does(names):
    found = json.loads(run_python(TWO_CPUS + f"from train.test_distribution import compare\ncompare(*{names})"))
    for name, (loss, weights, moved, *said) in found.items():
        assert loss < 1e-6 and weights < 1e-6 and moved > 1e-4 and said == SAID.get(name, []), (name, found[name])
    assert list(found) == names


@pytest.mark.large  # test_workers.py has the same of two processes
def test_two_replicas_share_an_evaluation_and_find_what_one_device_finds():
    """54 examples in batches of 16, of which the last holds 6."""
    assert run_python(TWO_CPUS + MEASURE).strip() == "[8, 16] True True 54 True"


@pytest.mark.broad
@pytest.mark.parametrize(
    ("devices", "replicas"),
    [
        pytest.param(TWO_CPUS + 'OTHER = "mirrored"', 2, id="replicas"),
        pytest.param(TWO_CORES, 1, id="cores", marks=pytest.mark.large),  # test_cores.py has parts of it
    ],
)
def test_two_replicas_or_cores_equal_one_device_with_clipping_accumulation_decay_schedule_stages_and_average(
    devices, replicas
):
    """With the usual epsilon of 1e-8; `test_workers.py` compares all weights, with one of 1e-4."""
    said = run_python(devices + TRAIN).strip()
    assert said == f"1 {replicas} True True True"


@pytest.mark.broad
def test_an_absent_tpu_gets_one_sentence():
    said = run_python("""
from keras_vit.train.strategy import choose
try:
    choose("tpu", 8)
except ValueError as error:
    print(error)
""")
    assert said.startswith("strategy 'tpu' expected a TPU, found none at 'local' (") and said.count("\n") == 1
