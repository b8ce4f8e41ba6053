"""What every layer and every kind of model keeps: one body, run for all of tests/contract/cases.py."""

import inspect
import json

import keras
import numpy as np
import pytest
from contract.cases import CASES, LAYERS, MODELS, PRINCIPAL, SINGLE_LAYERS, principal_first
from support import as_list, max_difference, needs_tensorflow, quick_first, randomise

from keras_vit import layers

SIZE = 8  # of a side that is free at run time
# A constant added to every score of a softmax changes nothing, so a key's bias never has a gradient.
# The softmax subtracts what all of a query's scores have in common.
WITHOUT_GRADIENT = ("key/bias", "attention/key_norm/beta", "attention/bias/fc2/bias", "shared_bias/fc2/bias")
# TensorFlow traces a step faster than XLA compiles one; JAX has no steps but compiled ones.
PLAIN_STEP = "auto" if keras.backend.backend() == "jax" else False
POLICIES = ("mixed_bfloat16", "mixed_float16", "bfloat16")
FITTED = ("token", "gap", "map", "hybrid", "local", "relative", "axial", "bit", "axial_bit")

every_case = pytest.mark.parametrize("case", principal_first(CASES, also=SINGLE_LAYERS, broad=CASES))
every_layer = pytest.mark.parametrize("case", LAYERS, ids=lambda case: case.name)
static = [case for case in CASES if case.static_size]
FURTHER = [case for case in CASES if case.name in PRINCIPAL]
QUICK = ("token", "hybrid", "axial", "bit", "rope", "clip")
static_case = pytest.mark.parametrize("case", principal_first(static, names=QUICK, broad=CASES))
compiled_case = pytest.mark.parametrize("case", principal_first(static, names=("token",), broad=FURTHER))
slow_case = pytest.mark.parametrize(
    "case",
    principal_first(CASES, also=SINGLE_LAYERS, names=("token", "hybrid", "axial", "bit"), broad=(*LAYERS, *FURTHER)),
)


def inputs_for(case, batch=3, seed=1):
    rng = np.random.default_rng(seed)
    scale = 127.5 if case.arguments.get("include_preprocessing") else 1.0
    shapes = [tuple(side or SIZE for side in shape) for shape in case.shapes]
    arrays = [scale * (1 + rng.uniform(-1, 1, (batch, *shape))).astype("float32") for shape in shapes]
    return arrays if len(arrays) > 1 else arrays[0]


def targets_for(model, batch=3, seed=2):
    rng = np.random.default_rng(seed)
    return [rng.uniform(0, 1, (batch, *model.output_shape[1:])).astype("float32")]


def test_every_layer_is_covered():
    public = {x for x in vars(layers).values() if inspect.isclass(x) and issubclass(x, keras.layers.Layer)}
    assert {case.layer for case in LAYERS} == public


@every_layer
def test_config_is_the_constructors_arguments(case):
    layer = case.make_layer()
    config = layer.get_config()
    arguments = set(inspect.signature(type(layer).__init__).parameters) - {"self", "kwargs"}
    assert set(config) == arguments | {"name", "trainable", "dtype"}
    assert {name: config[name] for name in case.arguments} == {n: getattr(layer, n) for n in case.arguments}
    restored = type(layer).from_config(json.loads(json.dumps(config)))
    assert json.dumps(restored.get_config()) == json.dumps(config)


@pytest.mark.parametrize("case", principal_first(CASES, also=SINGLE_LAYERS, names=QUICK, broad=CASES))
def test_keras_file_round_trip(case, tmp_path):
    model = randomise(case.make())
    model.save(tmp_path / "model.keras")
    restored = keras.saving.load_model(tmp_path / "model.keras")
    x = inputs_for(case)
    assert [v.path for v in restored.weights] == [v.path for v in model.weights]
    assert max_difference(restored(x), model(x)) == 0
    assert json.dumps(restored.get_config()) == json.dumps(model.get_config())


@slow_case
def test_clone_keeps_the_function(case):
    model = randomise(case.make())
    clone = keras.models.clone_model(model)
    clone.set_weights(model.get_weights())
    x = inputs_for(case)
    assert max_difference(clone(x), model(x)) == 0


@slow_case
@pytest.mark.parametrize("policy", quick_first(POLICIES, ["bfloat16"], broad=POLICIES))
def test_half_precision_is_near_float32(case, policy):
    model = randomise(case.make("float32"))
    half = case.make(policy)
    half.set_weights(model.get_weights())
    x = inputs_for(case)
    step = 2**-10 if policy == "mixed_float16" else 2**-7  # distance between neighbouring numbers at 1
    exact = keras.ops.convert_to_numpy(model(x))
    limit = 4 * step * max(1.0, float(np.max(np.abs(exact))))
    assert max_difference(half(x), exact) <= limit
    on_top = half.layers[-1].name == "predictions" or (policy.startswith("mixed") and half.layers[-1].name == "head")
    assert keras.backend.standardize_dtype(half(x).dtype) == ("float32" if on_top else half.layers[-1].compute_dtype)


def _is_normed_away(case, variable):
    """Whether a batch norm after the variable's layer subtracts it: a bias in front of units that start by one."""
    return "efficientnet" in case.name and variable.path.endswith("project_norm/beta")


@pytest.mark.parametrize("case", principal_first(CASES, names=("token", "rope", "bit"), broad=(*LAYERS, *FURTHER)))
def test_one_step_moves_every_weight_and_lowers_the_loss(case):
    model = randomise(case.make())
    if not model.trainable_variables:
        pytest.skip("no weights")
    x, y = inputs_for(case), targets_for(model)
    before = [keras.ops.convert_to_numpy(variable) for variable in model.trainable_variables]
    model.compile(keras.optimizers.SGD(0.02), "mse", jit_compile=PLAIN_STEP)
    # The moving averages of a batch norm follow its statistics slowly, so that its loss is that of training.
    measure = model.train_on_batch if case.layer is layers.BatchNorm else model.test_on_batch
    first = measure(x, y[0])
    model.train_on_batch(x, y[0])
    for variable, old in zip(model.trainable_variables, before, strict=True):
        if not variable.path.endswith(WITHOUT_GRADIENT) and not _is_normed_away(case, variable):
            assert np.any(keras.ops.convert_to_numpy(variable) != old), variable.path
    for _ in range(8):
        model.train_on_batch(x, y[0])
    assert measure(x, y[0]) < first


@pytest.mark.broad
@pytest.mark.parametrize("name", quick_first(FITTED, ("token", "hybrid", "axial")))
def test_fit_trains_a_model_of_every_kind(name):
    (case,) = (case for case in MODELS if case.name == name)
    model = randomise(case.make())
    before = [keras.ops.convert_to_numpy(variable) for variable in model.trainable_variables]
    jit = "auto" if name == "token" else PLAIN_STEP
    model.compile(keras.optimizers.SGD(0.1), "sparse_categorical_crossentropy", jit_compile=jit)
    history = model.fit(inputs_for(case, batch=6), np.arange(6) % 5, batch_size=3, verbose=0).history
    assert int(model.optimizer.iterations) == 2 and np.isfinite(history["loss"]).all()
    for variable, old in zip(model.trainable_variables, before, strict=True):
        if not variable.path.endswith(WITHOUT_GRADIENT) and not _is_normed_away(case, variable):
            assert np.any(keras.ops.convert_to_numpy(variable) != old), variable.path


@slow_case
def test_static_and_free_batch_agree(case):
    free, fixed = case.make(), case.make(batch_size=3)
    randomise(free)
    fixed.set_weights(free.get_weights())
    x = inputs_for(case)
    batches = (1, 1) if case.layer is layers.SharedRelativeBias else (None, 3)  # the first has one bias for all images
    assert (free.output_shape[0], fixed.output_shape[0]) == batches
    outputs = as_list(fixed(x))
    # XLA's convolutions add up in another order for another batch.
    bound = 2e-6 * max(1.0, *(float(np.abs(keras.ops.convert_to_numpy(y)).max()) for y in outputs))
    assert max_difference(free(x), fixed(x)) < bound
    one = keras.tree.map_structure(lambda array: array[:1], x)
    assert max_difference(free(one), fixed(x)[:1]) < bound


@static_case
def test_declared_shape_is_the_real_one(case):
    model = case.make()
    assert tuple(as_list(model(inputs_for(case)))[0].shape)[1:] == tuple(model.output_shape[1:])


@compiled_case
@needs_tensorflow
def test_whole_training_step_compiles_under_xla(case):
    import tensorflow as tf

    model = randomise(case.make(batch_size=3))
    x, y = inputs_for(case), targets_for(model)[0]

    def loss():
        return tf.reduce_mean(tf.square(tf.cast(model(x, training=True), "float32") - y))

    @tf.function(jit_compile=True)
    def step():
        with tf.GradientTape() as tape:
            value = loss()
        for variable, gradient in zip(
            model.trainable_variables, tape.gradient(value, [v.value for v in model.trainable_variables]), strict=True
        ):
            variable.value.assign_sub(0.02 * gradient)
        return value

    assert np.isfinite([float(step()) for _ in range(2)]).all()
    if model.trainable_variables and not any(
        rate in str(case.arguments) for rate in ("dropout", "drop_path", "'rate'")
    ):
        before = float(loss())
        step()
        assert float(loss()) < before


@pytest.mark.parametrize("case", principal_first(static, names=("token",), broad=FURTHER))
@needs_tensorflow
def test_converts_to_tflite_with_builtin_operations_only(case):
    import tensorflow as tf

    interpreter_module = pytest.importorskip("ai_edge_litert.interpreter", reason="extra `formats` is not installed")
    model = randomise(case.make(batch_size=1))
    x = inputs_for(case, batch=1)
    specs = [tf.TensorSpec(array.shape) for array in as_list(x)]
    call = tf.function(lambda *x: model(x[0] if len(x) == 1 else list(x), training=False))
    function = call.get_concrete_function(*specs)
    module = tf.Module()
    module.weights = [variable.value for variable in model.variables]
    converter = tf.lite.TFLiteConverter.from_concrete_functions([function], module)
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS]
    interpreter = interpreter_module.Interpreter(model_content=converter.convert())
    operations = {detail["op_name"] for detail in interpreter._get_ops_details()}
    assert not [name for name in operations if name.startswith("Flex") or name == "CUSTOM"]
    runner = interpreter.get_signature_runner()
    names = sorted(runner.get_input_details())  # args_0, args_1: in the order of the arguments
    (output,) = runner(**dict(zip(names, as_list(x), strict=True))).values()
    assert max_difference(output, model(x)) < 1e-5


@pytest.mark.parametrize("case", principal_first(MODELS, broad=MODELS))
def test_every_stage_is_a_named_node(case):
    names = [layer.name for layer in case.make().layers]
    norm = "pooled_norm" if case.arguments.get("norm_after_pooling") else "encoder_norm"
    wanted = ["embedding", "tokens", "position_embedding", "encoder_block_00", "encoder_block_01", norm]
    if "efficientnet" in case.name:
        wanted = ["root", "root_norm", "root_swish", "stage1_unit01", "stage1", "stage7", "last", "norm", "swish"]
    elif "bit" in case.name:
        wanted = ["root", "root_pool", "stage1_unit01", "stage1", "stage2_unit01", "stage2", "norm"]
    if case.name == "without_a_final_norm" or "windows" in case.name:
        wanted.remove(norm)
    if "windows" in case.name:
        own = ["neck_grid", "neck_conv1", "neck_norm1", "neck_conv2", "neck_norm2", "neck_tokens"]
        wanted += [name for name in own if name in names]
        assert "neck_norm2" in names and ("neck_conv1" in names) == (case.name != "windows_of_one_norm")
    assert [name for name in names if name in wanted] == wanted
