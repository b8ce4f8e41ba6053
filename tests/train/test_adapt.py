"""Training by parameter-efficient fine-tuning: what changes, what is written, and how far the gradient goes."""

from dataclasses import replace

import keras
import numpy as np
import pytest
import tensorflow as tf
from support import first_quick, max_difference, needs_tensorflow, randomise
from train import tiny

import keras_vit
from keras_vit.models.adapt_settings import RANKS
from keras_vit.train import engine
from keras_vit.train.dry_run import dry_run
from keras_vit.train.engine import train
from keras_vit.train.recipe import Adapt, Average, Checkpoint, Evaluate, Masked, Model, Optimizer, Recipe
from keras_vit.train.recipe.file import from_json, override, to_json
from keras_vit.train.stages import spans_of
from keras_vit.train.state import first_state
from keras_vit.train.step import Step

pytestmark = needs_tensorflow
pytest.importorskip("sklearn", reason="scikit-learn carries the digits")
IMAGES = np.random.default_rng(0).uniform(-1, 1, (16, 8, 8, 1)).astype("float32")
TARGETS = np.eye(10, dtype="float32")[np.arange(16) % 10]


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """A model of random weights, and its file."""
    path = tmp_path_factory.mktemp("base") / "base.npz"
    model = randomise(keras_vit.build(tiny.ROW, input_shape=(8, 8, 1), classes=10))
    keras_vit.save_weights(model, path)
    return model, str(path)


def recipe_of(base, adapt, **changes):
    model = Model(tiny.ROW, channels=1, weights=base[1])
    plain = replace(tiny.RECIPE, model=model, optimizer=Optimizer(learning_rate=0.05, weight_decay=0.1), steps=4)
    return replace(plain, adapt=adapt, **changes)


def opened(path):
    return keras.saving.load_model(path, compile=False)


CHANGED = {  # variables of block 0 that differ from the base after a run
    "lora": {"attention/qkv/kernel"},
    "ssf": {
        "attention_norm/gamma", "attention_norm/beta", "attention/qkv/kernel", "attention/qkv/bias",
        "attention/out/kernel", "attention/out/bias", "mlp_norm/gamma", "mlp_norm/beta", "mlp/fc1/kernel",
        "mlp/fc1/bias", "mlp/fc2/kernel", "mlp/fc2/bias",
    },
    "bitfit": {
        "attention_norm/beta", "attention/qkv/bias", "attention/out/bias", "mlp_norm/beta", "mlp/fc1/bias",
        "mlp/fc2/bias",
    },
    "adapter": {f"mlp/adapter_{part}/{name}" for part in ("down", "up") for name in ("kernel", "bias")},
    "vpt": set(),
    "probe": set(),
}  # fmt: skip


@pytest.mark.parametrize("kind", first_quick(list(RANKS), 3))
def test_a_run_trains_the_kind_and_writes_model_and_adapter(kind, base, tmp_path):
    recipe = recipe_of(base, Adapt(kind, rank=RANKS[kind] and 2))
    assert from_json(to_json(recipe)) == recipe
    summary = train(recipe, tmp_path / "run")
    model = opened(tmp_path / "run" / "model.keras")
    before = {variable.path: np.array(variable) for variable in base[0].variables}
    after = {v.path: np.array(v) for v in model.variables if "seed_generator" not in v.path}
    block = "encoder_block_00/"
    changed = {path for path, value in after.items() if not np.array_equal(before.get(path), value)}
    assert {path.removeprefix(block) for path in changed if path.startswith(block)} == CHANGED[kind]
    rest = {path for path in changed if not path.startswith("encoder_block")}
    expected = {"head/kernel", "head/bias"} | {f"prompts_{i:02d}/token" for i in range(2) if kind == "vpt"}
    biases = {"embedding/bias", "encoder_norm/beta"} if kind in ("ssf", "bitfit") else set()
    assert rest == expected | biases | ({"encoder_norm/gamma"} if kind == "ssf" else set())
    if kind == "lora":  # the keys' third of the kernel has no adapter
        same = (after[block + "attention/qkv/kernel"] == before[block + "attention/qkv/kernel"]).all(axis=0)
        assert same.tolist() == [False] * 8 + [True] * 8 + [False] * 8
    assert all(layer.trainable for layer in model.layers)
    assert 0 < summary["trained_parameters"] < summary["parameters"]
    start = keras_vit.build(tiny.ROW, input_shape=(8, 8, 1), classes=10)
    keras_vit.load_weights(start, base[1])
    loaded = keras_vit.load_adapter(start, tmp_path / "run" / "adapter.safetensors")
    assert max_difference(loaded(IMAGES), model(IMAGES)) < 1e-6
    assert loaded.get_layer("head").labels == model.get_layer("head").labels


@pytest.mark.parametrize("kind", first_quick(["lora", "vpt", "ssf"], 1))
def test_a_stopped_run_ends_as_an_undisturbed_one(kind, base, tmp_path, monkeypatch):
    adapt = Adapt(kind, rank=RANKS[kind] and 2)
    choose = {"evaluate": Evaluate(every=1, split="test[:50%]"), "average": Average(0.5)}
    choose |= {"checkpoint": Checkpoint(seconds=0, best=True, use_best=True)}
    recipe = recipe_of(base, adapt, **choose)
    train(recipe, tmp_path / "whole")
    monkeypatch.setattr(engine, "CALL_SECONDS", 0.0)
    save, calls = engine.Run._save, []

    def stop(run):
        save(run)
        calls.append(run.step)
        if len(calls) == 2:
            raise SystemExit(130)

    with monkeypatch.context() as patch:
        patch.setattr(engine.Run, "_save", stop)
        with pytest.raises(SystemExit):
            train(recipe, tmp_path / "stopped")
    train(recipe, tmp_path / "stopped")
    for name in ("model.keras", "best.keras"):
        whole, stopped = (opened(tmp_path / run / name) for run in ("whole", "stopped"))
        same = zip(whole.get_weights(), stopped.get_weights(), strict=True)
        assert all(np.array_equal(a, b) for a, b in same), name
    best, result = (opened(tmp_path / "whole" / name) for name in ("best.keras", "model.keras"))
    assert max_difference(best(IMAGES), result(IMAGES)) < 1e-6  # not merged, and merged


def gradients(recipe):
    """The gradients of the first step, and the paths of their variables."""
    state = first_state(recipe, tuple("0123456789"), 4, tf.distribute.get_strategy())
    rng = np.random.default_rng(0)
    for variable in state.trained:
        variable.assign(variable + 0.1 * rng.standard_normal(variable.shape).astype("float32"))
    step = Step(recipe, state, tf.distribute.get_strategy(), spans_of(recipe, 4)[0])
    values = [tf.convert_to_tensor(variable.value) for variable in state.trained]
    found = tf.function(step._of_part, autograph=False)(values, IMAGES, TARGETS, tf.constant(0), tf.constant(0))[1]
    return [np.array(tf.cast(gradient, tf.float32)) for gradient in found], [v.path for v in state.trained]


@pytest.mark.parametrize("kind", first_quick(["lora", "adapter", "vpt", "ssf", "bitfit"], 2))
def test_recomputed_activations_have_the_same_gradient(kind, base):
    recipe = recipe_of(base, Adapt(kind, rank=RANKS[kind] and 2))
    recipe = replace(recipe, model=replace(recipe.model, dropout_rate=0.0))
    (plain, paths), (recomputed, _) = gradients(recipe), gradients(replace(recipe, recompute=True))
    for path, one, other in zip(paths, plain, recomputed, strict=True):
        assert np.abs(one).max() > 0, path
        assert max_difference(one, other) < 1e-5 * max(1.0, np.abs(one).max()), path


@pytest.mark.broad
@pytest.mark.parametrize("kind", first_quick(["lora", "ssf", "adapter"], 1))
@pytest.mark.parametrize("precision", first_quick(["mixed_bfloat16", "mixed_float16"], 1))
def test_half_precision_keeps_the_adapters_in_float32(kind, precision, base, tmp_path):
    recipe = recipe_of(base, Adapt(kind, rank=RANKS[kind] and 2), precision=precision)
    summary = train(recipe, tmp_path / "run")
    assert np.isfinite(summary["loss"]) and summary["skipped"] == 0
    half, paths = gradients(recipe)
    plain, _ = gradients(replace(recipe, precision="float32"))
    scale = 2.0**15 if precision == "mixed_float16" else 1.0
    for path, one, other in zip(paths, half, plain, strict=True):
        assert max_difference(one / scale, other) < 0.1 * np.abs(other).max() + 2e-3, path
    assert opened(tmp_path / "run" / "model.keras").get_layer("encoder_block_00").compute_dtype != "float32"


def test_freeze_leaves_blocks_without_adapters(base):
    recipe = recipe_of(base, Adapt("lora"))
    recipe = replace(recipe, model=replace(recipe.model, freeze=("encoder_block_00",)))
    state = first_state(recipe, tuple("0123456789"), 4, tf.distribute.get_strategy())
    assert {v.path.split("/")[0] for v in state.trained} == {"encoder_block_01", "head"}
    assert not state.model.get_layer("encoder_block_00").attention.qkv.lora_enabled


def operations(depth, of=None, **settings):
    """The number of operations of the forward pass, and of those that the gradient needs beside it.

    `of` are the only output shapes to count.
    """
    adapt = settings.pop("adapt", None)
    row = replace(tiny.ROW, depth=depth, mlp_dim=12)
    recipe = Recipe("t", Model(row, channels=1, **settings), tiny.RECIPE.data, steps=4, adapt=adapt)
    state = first_state(recipe, tuple("0123456789"), 4, tf.distribute.get_strategy())
    step = Step(recipe, state, tf.distribute.get_strategy(), spans_of(recipe, 4)[0])
    specs = (
        [tf.TensorSpec(v.shape, v.dtype) for v in state.trained],
        tf.TensorSpec((16, 8, 8, 1)),
        tf.TensorSpec((16, 10)),
    )

    def live(outputs_of):
        """The operations that the outputs depend on; TensorFlow removes the others."""
        traced = tf.function(outputs_of, autograph=False).get_concrete_function(*specs)
        found, waiting = set(), [output.op for output in traced.outputs]
        while waiting:
            operation = waiting.pop()
            if operation not in found:
                found.add(operation)
                waiting += [x.op for x in operation.inputs] + list(operation.control_inputs)
        return len([op for op in found if of is None or any(x.shape.rank and tuple(x.shape) in of for x in op.outputs)])

    zero = tf.constant(0)
    forward = live(lambda values, images, targets: step._of_part(values, images, targets, zero, zero)[0])
    both = live(lambda values, images, targets: step._of_part(values, images, targets, zero, zero)[:2])
    return forward, both - forward


@pytest.mark.broad
def test_the_gradient_stops_at_the_last_trained_block():
    """The operations of the gradient do not depend on the number of frozen blocks; those of the forward pass do."""
    frozen = ("embedding", "class_token", "position_embedding")
    for settings in ({"adapt": Adapt("probe")}, {"freeze": (*frozen, "encoder_block_0[0-{last}]")}, {
        "adapt": Adapt("lora"), "freeze": ("encoder_block_0[0-{last}]",)
    }):  # fmt: skip
        counts = {}
        for depth in (2, 5):
            patterns = tuple(name.replace("{last}", str(depth - 2)) for name in settings.get("freeze", ()))
            counts[depth] = operations(depth, **{**settings, "freeze": patterns})
        assert counts[5][0] > counts[2][0] + 50, counts
        assert counts[5][1] == counts[2][1] > 0, counts
    everywhere = [operations(depth, adapt=Adapt("lora"))[1] for depth in (2, 5)]
    assert everywhere[1] > everywhere[0] + 50  # an adapter in block 0 needs the gradient of all later blocks


def test_lora_computes_no_gradient_of_a_kernel():
    """No operation of the gradient has the shape of a kernel, as those of full fine-tuning have."""
    shapes = [(8, 24), (8, 8), (8, 12), (12, 8)]  # of qkv, out, fc1 and fc2
    (before, after), full = (operations(2, adapt=adapt, pooling="gap", of=shapes) for adapt in (Adapt("lora", 3), None))
    assert after == 0 and full[1] >= 2 * 4


def test_a_recipe_names_what_does_not_fit(base):
    recipe = recipe_of(base, None)
    changed = override(recipe, ['adapt={"kind": "lora", "rank": 4, "where": ["value"]}'])
    assert changed.adapt == Adapt("lora", 4, where=("value",))
    with pytest.raises(ValueError, match=r"adapt expected Adapt\(...\) or null, received 'lora'"):
        replace(recipe, adapt="lora")
    with pytest.raises(ValueError, match="adapt expected null with masked patches"):
        Recipe("t", Model(tiny.ROW), masked=Masked(), adapt=Adapt())
    with pytest.raises(
        ValueError, match="kind expected 'bitfit' or 'probe' with small, which has no plain Transformer"
    ):
        row = keras_vit.BiTVariant("small", (1, 1), 0.5, image_size=16)
        first_state(Recipe("t", Model(row), adapt=Adapt()), ("a", "b"), 2, tf.distribute.get_strategy())


def test_a_dry_run_saves_the_merged_model(base):
    assert np.isfinite(dry_run(recipe_of(base, Adapt("lora")))["losses"][0])
