"""A compiled forward pass answers as the model does, and leaves the model as it was."""

import gc
import weakref
from concurrent.futures import ThreadPoolExecutor

import keras
import numpy as np
import pytest
from contract.cases import MODELS, PRINCIPAL, principal_first
from support import first_quick, max_difference, needs_tensorflow, randomise, run_python

import keras_vit
from keras_vit.kernels import compiled as forward
from keras_vit.layers import GroupNorm, LayerNorm, StdConv
from keras_vit.layers.override import override_of

CASES = {case.name: case for case in MODELS}
FURTHER = [case for case in MODELS if case.name in PRINCIPAL]


def images_for(model, count=3):
    shape = tuple(side or 32 for side in model.input_shape[1:])
    top = 255 if any(layer.name == "rescaling" for layer in model.layers) else 1
    return np.random.default_rng(0).uniform(-1, top, (count, *shape)).astype("float32")


def operations(compiled, images):
    """Types of the operations of a compiled function's graph, those that stand in it themselves."""
    return [operation.type for operation in compiled.function.get_concrete_function(images).graph.get_operations()]


def forms_of(model):
    """What its norms and convolutions are told to compute by, in this thread or for good."""
    layers = [layer for layer in model._flatten_layers() if isinstance(layer, GroupNorm | LayerNorm | StdConv)]
    return [(override_of(layer, "norm"), override_of(layer, "standardized_kernel"), [*vars(layer)]) for layer in layers]


@pytest.mark.parametrize("whole", [False, pytest.param(True, marks=pytest.mark.large)])
@pytest.mark.parametrize("case", principal_first(MODELS, names=("token",), broad=FURTHER))
def test_it_answers_as_every_kind_of_model_does(case, whole):
    if keras.backend.backend() == "torch":
        pytest.skip("TensorFlow and JAX alone")
    model = randomise(case.make())
    answer = keras_vit.compiled(model, whole)
    for images in (images_for(model), images_for(model, 1)):
        assert max_difference(answer(images), model(images, training=False)) < 2e-5
    before = model(images, training=False)
    of_norms = [weight for weight in model.trainable_variables if "norm" in weight.path]
    last = next(weight for weight in reversed(of_norms) if weight.path.endswith(("beta", "gamma")))
    last.assign(last + np.linspace(-1, 1, last.shape[0]))
    assert max_difference(model(images, training=False), before) > 1e-5
    assert max_difference(answer(images), model(images, training=False)) < 2e-5, "weights are read at each call"


@pytest.mark.broad
@needs_tensorflow
@pytest.mark.parametrize("name", ["hybrid", "bit"])
def test_in_half_precision_it_is_as_near_as_the_model(name):
    exact = randomise(CASES[name].make())
    half = CASES[name].make("bfloat16")
    half.set_weights(exact.get_weights())
    images = images_for(exact)
    expected, plain = (np.asarray(model(images), "float32") for model in (exact, half))
    error = np.abs(np.asarray(keras_vit.compiled(half)(images), "float32") - expected).max()
    assert error < 1.5 * np.abs(plain - expected).max() + 1e-3


def in_place(weight, change):
    """Change a weight through an array that shares its memory, without TensorFlow."""
    import tensorflow as tf

    view = tf.convert_to_tensor(weight.value).__array__()
    change(view)


@needs_tensorflow
def test_norms_are_functions_and_kernels_are_standardised_in_one_operation_of_their_weights_of_now():
    model = randomise(CASES["bit"].make())
    images = images_for(model)
    norms = sum(isinstance(layer, GroupNorm) for layer in model._flatten_layers())
    answer = keras_vit.compiled(model)
    found = operations(answer, images)
    assert found.count("PartitionedCall") == 3 * norms > 10
    assert found.count("FusedBatchNormV3") == sum(isinstance(layer, StdConv) for layer in model._flatten_layers())
    kernels = [layer.kernel for layer in model._flatten_layers() if isinstance(layer, StdConv)]
    kernels[0].assign(kernels[0][::-1])
    assert max_difference(answer(images), model(images)) < 2e-5
    in_place(kernels[1], lambda view: np.multiply(view, view, out=view))
    before = np.asarray(answer(images))
    assert max_difference(before, model(images)) < 2e-5
    frozen = keras_vit.compiled(model, frozen=True)
    assert "FusedBatchNormV3" not in operations(frozen, images) and max_difference(frozen(images), before) < 2e-5


OTHERS = (
    r"^frozen expected the same weights as when the model was compiled, received new values in .*: call refresh\(\) on"
)


@pytest.mark.parametrize("name", first_quick(["token", "bit"]))
def test_frozen_it_refuses_other_weights_until_it_is_told_to_take_them(name):
    if keras.backend.backend() == "torch":
        pytest.skip("TensorFlow and JAX alone")
    model = randomise(CASES[name].make())
    images = images_for(model)
    answer, before = keras_vit.compiled(model, frozen=True), np.asarray(model(images))
    assert max_difference(answer(images), before) < 2e-5
    for change in (
        lambda: model.set_weights([weight[::-1] for weight in model.get_weights()]),
        lambda: one_more(model),
    ):
        weights = model.get_weights()
        change()
        for count in (3, 1):
            with pytest.raises(ValueError, match=OTHERS):
                answer(images_for(model, count))
        model.set_weights(weights)  # written again, with equal values
        assert max_difference(answer(images), model(images)) < 2e-5
        change()
        answer.refresh()
        assert max_difference(answer(images), model(images)) < 2e-5
    assert max_difference(answer(images), before) > 1e-4


def one_more(model):
    """Add to one number in the middle of the classifier."""
    kernel = model.get_layer("head").kernel
    value = kernel.numpy() if keras.backend.backend() == "tensorflow" else np.array(kernel.value)
    value[value.shape[0] // 2, 3] += 1
    kernel.assign(value)


@pytest.mark.broad
@needs_tensorflow
def test_frozen_it_notices_what_is_written_behind_tensorflows_back():
    """A row, a column, or a value of a vector of every weight."""
    model = randomise(CASES["hybrid"].make())
    images, answer = images_for(model), keras_vit.compiled(model, frozen=True)
    before = np.asarray(answer(images))

    def add_one(at):
        def change(view):
            view[at] += 1

        return change

    for weight in model.weights:
        last, values = weight.shape[-1], weight.numpy()
        places = [(..., 0), (..., last - 1), (..., last // 2)]
        places += [np.unravel_index(i, weight.shape[:-1]) for i in {0, np.prod(weight.shape[:-1], dtype=int) - 1}]
        for at in places:
            in_place(weight, add_one(at))
            with pytest.raises(ValueError, match=OTHERS):
                answer(images)
            in_place(weight, lambda view, values=values: np.copyto(view, values))
    # A weight that was once written in part is copied for whoever reads it.
    bias = model.get_layer("head").bias
    bias.value[1:3].assign(bias[1:3])
    assert max_difference(answer(images), before) == 0


@pytest.mark.broad
def test_adapters_are_taken_or_refused():
    if keras.backend.backend() == "torch":
        pytest.skip("TensorFlow and JAX alone")
    model = randomise(CASES["token"].make())
    images = images_for(model)
    answer, frozen = keras_vit.compiled(model), keras_vit.compiled(model, frozen=True)
    before = np.asarray(answer(images))
    dense = model.get_layer("encoder_block_00").mlp.fc1
    dense.enable_lora(2)
    dense.lora_kernel_b.assign(np.ones(dense.lora_kernel_b.shape))
    assert max_difference(answer(images), model(images)) < 2e-5 < max_difference(model(images), before)
    with pytest.raises(
        ValueError, match="^frozen expected the same variables as when the model was compiled, received others"
    ):
        frozen(images)
    frozen.refresh()
    assert max_difference(frozen(images), model(images)) < 2e-5


@needs_tensorflow
def test_frozen_it_is_not_traced_into_a_function_that_would_not_look():
    import tensorflow as tf

    model = randomise(CASES["token"].make())
    frozen, plain = keras_vit.compiled(model, frozen=True), keras_vit.compiled(model)
    images = images_for(model)
    with pytest.raises(
        ValueError, match="frozen expected False for a function that is called inside a traced function"
    ):
        tf.function(lambda images: frozen(images), autograph=False)(images)
    inside = tf.function(lambda images: 2 * plain(images), autograph=False)
    model.get_layer("head").bias.assign(np.arange(5))
    assert max_difference(inside(images), 2 * np.asarray(model(images))) < 4e-5


@pytest.mark.broad
@needs_tensorflow
@pytest.mark.parametrize("frozen", [False, True])
def test_a_function_of_a_layers_own_keeps_nothing(frozen):
    """It is traced within ours, and would cache the overrides and weights of that trace."""
    import tensorflow as tf

    model = randomise(CASES["token"].make())
    block, images = model.get_layer("encoder_block_00"), images_for(model)
    answer, call = keras_vit.compiled(model, frozen=frozen), block.call
    block.call = tf.function(call, autograph=False)
    if frozen:
        with pytest.raises(ValueError, match="frozen expected blocks that are called in the model's graph"):
            answer(images)
    else:
        answer(images)
    block.mlp.fc2.bias.assign(block.mlp.fc2.bias + np.linspace(-1, 1, 16))
    block.attention_norm.gamma.assign(block.attention_norm.gamma + np.linspace(-1, 1, 16))
    found, graph = (
        model(images),
        block.call.get_concrete_function(tf.zeros((3, 5, 16)), training=False).graph.as_graph_def(),
    )
    assert "_MklLayerNorm" not in str(graph), "the norm of `compiled`"
    block.call = call
    assert max_difference(found, model(images)) < 2e-6


@pytest.mark.large
def test_frozen_on_jax_it_outlives_an_evaluation():
    pytest.importorskip("jax", reason="the other Keras backend used here is JAX")
    code = (
        "import keras_vit, numpy as np\n"
        "row = keras_vit.Variant('row', width=16, depth=2, mlp_dim=24, num_heads=4, patch_size=4, image_size=16)\n"
        "model = keras_vit.build(row, classes=5)\n"
        "images, answer = np.ones((2, 16, 16, 3)), keras_vit.compiled(model, frozen=True)\n"
        "before = np.asarray(answer(images))\n"
        "model.compile('sgd', 'mse')\n"
        "model.evaluate(images, np.eye(2, 5), verbose=0)\n"
        "print(float(abs(answer(images) - before).max()))\n"
        "model.fit(images, np.eye(2, 5), verbose=0)\n"
        "try: answer(images)\n"
        "except ValueError as error: print(error)\n"
        "answer.refresh()\n"
        "print(float(abs(answer(images) - model(images)).max()))\n"
    )
    lines = run_python(code, "jax").splitlines()
    assert float(lines[-3]) == 0 and "received new values in" in lines[-2] and float(lines[-1]) < 1e-6


@needs_tensorflow
@pytest.mark.parametrize("name", first_quick(["hybrid", "token", "bit"]))
@pytest.mark.parametrize("dtype", first_quick(["float32", "mixed_bfloat16"]))
def test_frozen_kernels_of_blocks_are_prepacked_and_other_weights_are_constants(name, dtype):
    from keras_vit.kernels import onednn
    from keras_vit.kernels.split_matmuls import split_weights

    model = randomise(CASES[name].make(dtype))
    answer = keras_vit.compiled(model, frozen=True)
    kernels, graph = split_weights(model), answer.function.get_concrete_function(images_for(model)).graph
    assert bool(kernels) == (name != "bit") and all(tensor.dtype != "resource" for tensor, _ in graph.captures)
    operations = graph.get_operations()
    constants = {tuple(operation.outputs[0].shape) for operation in operations if operation.type == "Const"}
    head, of_blocks = model.get_layer("head").kernel, {tuple(w.shape) for layer in kernels for w in layer.weights}
    assert tuple(head.shape) in constants and not any(len(shape) == 2 for shape in constants & of_blocks)
    of_first_token = 4 * (name != "bit")  # attention of the last block has another form
    prepacked = dtype == "mixed_bfloat16" and onednn.has_prepacked_matmul()
    found = [operation.type for operation in operations].count("_MklNativeFusedMatMul")
    assert found == (sum(map(len, kernels.values())) - of_first_token if prepacked else 0)
    assert max_difference(answer(images_for(model)), model(images_for(model))) < (2e-5 if dtype == "float32" else 0.05)


@pytest.mark.broad
@needs_tensorflow
@pytest.mark.parametrize("frozen", [False, pytest.param(True, marks=pytest.mark.large)])
def test_parts_of_a_batch_are_computed_apart_and_give_the_same(frozen):
    """Also of what answers with several tensors, and of a batch whose size is not known before it comes."""
    import tensorflow as tf

    model = randomise(CASES["hybrid"].make())
    model = keras.Model(model.input, {"logits": model.output, "tokens": model.get_layer("encoder_block_01").output})
    whole, cut = (keras_vit.compiled(model, frozen=frozen, parts=parts) for parts in (1, 3))
    for count in (1, 2, 7):
        images = images_for(model, count)
        expected, found = whole(images), cut(images)
        assert found.keys() == expected.keys()
        assert all(max_difference(found[name], expected[name]) < 2e-5 for name in found)
    graph = cut.function.get_concrete_function(images).graph
    sizes = [op.inputs[0].shape[0] for op in graph.get_operations() if op.type.endswith("PartitionedCall")]
    assert sizes == [3, 2, 2]
    free = tf.function(cut.function, [tf.TensorSpec((None, *model.input_shape[1:]))])
    assert max_difference(free(images)["logits"], expected["logits"]) < 2e-5
    with pytest.raises(ValueError, match="^parts expected a positive number, received 0.$"):
        keras_vit.compiled(model, parts=0)


@needs_tensorflow
def test_frozen_says_what_it_cannot_do(monkeypatch):
    model = CASES["token"].make()
    with pytest.raises(ValueError, match="^frozen expected False with whole=True, received True.$"):
        keras_vit.compiled(model, whole=True, frozen=True)
    monkeypatch.setattr(forward, "MAX_CONSTANTS", 1e3)
    sentence = "^frozen expected at most 1e-06 GB of weights outside the blocks, received 0.00 GB.$"
    with pytest.raises(ValueError, match=sentence):
        keras_vit.compiled(model, frozen=True)


@needs_tensorflow
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "mixed_bfloat16"])
def test_layer_norms_are_onednns_in_the_type_that_holds_their_weights(dtype):
    import tensorflow as tf

    from keras_vit.kernels import onednn

    stored = tf.bfloat16 if dtype == "bfloat16" else tf.float32
    if not onednn.has_layer_norm(stored):
        pytest.skip(f"TensorFlow has no layer normalisation by oneDNN here in {stored.name}")
    model = CASES["token"].make(dtype)
    graph = keras_vit.compiled(model).function.get_concrete_function(images_for(model)).graph.as_graph_def()
    nodes = [node for function in graph.library.function for node in function.node_def if node.op == "_MklLayerNorm"]
    assert nodes and {node.attr["T"].type for node in nodes} == {stored.as_datatype_enum}


@needs_tensorflow
def test_a_graph_is_let_go_of_and_layers_may_be_built_within():
    model = keras.Sequential([LayerNorm()])
    x = np.random.default_rng(0).normal(size=(2, 7, 64)).astype("float32")
    function = keras_vit.compiled(model).function.get_concrete_function(x)
    assert max_difference(function(x), model(x)) < 1e-5
    graph = weakref.ref(function.graph)
    del function
    gc.collect()
    assert graph() is None


@pytest.mark.broad
@needs_tensorflow
@pytest.mark.parametrize("whole", [False, True])
def test_the_model_is_left_as_it_was(whole):
    model = randomise(CASES["hybrid"].make())
    images = images_for(model)
    before, forms = np.asarray(model(images)), forms_of(model)
    keras_vit.compiled(model, whole)(images)
    assert forms and forms_of(model) == forms
    assert max_difference(model(images), before) == 0


@needs_tensorflow
def test_as_a_whole_it_is_one_function_of_xla():
    model = randomise(CASES["token"].make())
    assert keras_vit.compiled(model, whole=True).function._jit_compile
    assert not keras_vit.compiled(model).function._jit_compile


@pytest.mark.broad
def test_on_torch_it_says_what_it_needs():
    pytest.importorskip("torch", reason="torch is not installed")
    code = "import keras_vit\ntry: keras_vit.compiled(keras_vit.ViT_Ti16())\nexcept ValueError as error: print(error)"
    sentence = "compiled expected Keras on TensorFlow or JAX, received KERAS_BACKEND=torch."
    assert run_python(code, "torch").strip() == sentence


@pytest.mark.broad
def test_on_jax_it_answers_as_the_model_does_and_reads_the_weights_at_each_call():
    pytest.importorskip("jax", reason="the other Keras backend used here is JAX")
    code = (
        "import sys; sys.path.insert(0, 'tests')\n"
        "import numpy as np, keras_vit\nfrom contract.cases import MODELS\n"
        "from support import max_difference, randomise\n"
        "model = randomise(next(case for case in MODELS if case.name == 'hybrid').make())\n"
        "images = np.random.default_rng(0).uniform(-1, 1, (3, *model.input_shape[1:])).astype('float32')\n"
        "answer = keras_vit.compiled(model)\n"
        "before = np.asarray(answer(images))\n"
        "print(max_difference(before, model.predict_on_batch(images)) < 1e-5)\n"
        "model.trainable = False\n"
        "[v.assign(np.linspace(-1, 1, v.shape[0])) for v in model.variables if v.path.endswith('beta')]\n"
        "print(max_difference(answer(images[:2]), model.predict_on_batch(images[:2])) < 1e-5)\n"
        "print(max_difference(answer(images), before) > 1e-4)\n"
    )
    assert run_python(code, "jax").split() == ["True"] * 3


@pytest.mark.broad
@needs_tensorflow
def test_threads_that_trace_the_same_model_leave_it_as_it_was():
    model = randomise(CASES["hybrid"].make())
    images = images_for(model)
    expected, forms = model(images), forms_of(model)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: (np.asarray(keras_vit.compiled(model)(images)), forms_of(model)), range(4)))
    assert all(max_difference(answer, expected) < 2e-5 and left == forms for answer, left in found)
    assert forms_of(model) == forms


@pytest.mark.broad
@needs_tensorflow
def test_beside_a_gpu_it_is_xlas_as_a_whole(monkeypatch):
    monkeypatch.setattr(forward, "by_xla", lambda: True)
    model = randomise(CASES["token"].make())
    answer = keras_vit.compiled(model)
    assert answer.function._jit_compile
    assert max_difference(answer(images_for(model)), model(images_for(model))) < 2e-5
