"""What Keras and TensorFlow do not document stands in one file, and is there in the versions that setup.py allows."""

import ast
import re

import keras
import numpy as np
import pytest
from support import ROOT, needs_onednn, needs_tensorflow

from keras_vit import private

PACKAGE = ROOT / "keras_vit"
UNDOCUMENTED = ("keras.src", "tensorflow.python", "tensorflow.core", "tensorflow.compiler", "tensorflow.lite.python")
NAMEDTUPLE = {"_replace", "_asdict", "_fields"}  # documented, in spite of their names


def small():
    inputs = keras.Input((4,), name="first")
    dense = keras.layers.Dense(3, name="dense")
    return keras.Model(inputs, keras.layers.ReLU(name="last")(dense(inputs))), dense


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_no_other_file_uses_an_undocumented_name(path):
    if path.name == "private.py":
        pytest.skip("the one that may")
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    defined = {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    attributes = [node for node in nodes if isinstance(node, ast.Attribute)]
    own = {x.attr for x in attributes if isinstance(x.value, ast.Name) and x.value.id in ("self", "cls", "obj")}
    own |= {name for other in path.parent.glob("*.py") for name in re.findall(r"self\.(_\w+)", other.read_text())}
    own |= {name for other in path.parent.glob("*.py") for name in re.findall(r"def (_\w+)\(", other.read_text())}
    for attribute in attributes:
        name = attribute.attr
        if name.startswith("_") and not name.startswith("__"):
            assert name in own | defined | NAMEDTUPLE, f"{path}:{attribute.lineno} uses {ast.unparse(attribute)}"
    for node in nodes:
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        assert not [name for name in names if name.startswith(UNDOCUMENTED)], f"{path}:{node.lineno}"


def test_layers_and_parts_are_found():
    model, dense = small()
    outer = keras.Sequential([keras.Input((4,)), model])
    assert private.layers_of(outer)[0] is outer and dense in private.layers_of(outer)
    assert model in private.parts_of(outer) and dense not in private.parts_of(outer)


def test_calls_are_found():
    model, dense = small()
    last = private.call_behind(model.outputs[0])
    assert last.operation.name == "last" and last in private.calls_in(model)
    assert private.call_behind(last.input_tensors[0]).operation is dense
    again = keras.Model(other := keras.Input((4,)), dense(other))
    assert private.output_of(again, dense) is again.outputs[0] is not dense.output
    assert private.call_of(model, dense).input_tensors[0] is model.inputs[0]


def test_a_graph_runs_on_other_inputs():
    model, _ = small()
    seen, x = [], np.ones((2, 4), "float32")

    def call(layer, *args, **kwargs):
        seen.append(layer.name)
        return layer(*args, **kwargs)

    outputs = private.run_graph(model, [keras.ops.convert_to_tensor(x)], call)
    assert seen == ["dense", "last"]
    np.testing.assert_array_equal(*map(keras.ops.convert_to_numpy, (keras.tree.flatten(outputs)[0], model(x))))


def test_a_model_from_the_middle_of_a_graph_leaves_the_graph_as_it_was():
    images, dense = keras.Input((4,)), keras.layers.Dense(3)
    hidden = dense(images)
    model = keras.Model(images, keras.layers.Dense(3)(hidden) + keras.layers.Dense(3)(images))
    part, x = private.model_from([images, hidden], model.output, keras.Model), keras.ops.ones((2, 4))
    np.testing.assert_array_equal(*map(keras.ops.convert_to_numpy, (part([x, dense(x)]), model(x))))
    assert keras.Model.from_config(model.get_config()).count_params() == model.count_params()


def test_a_layer_has_another_layers_variable():
    _, dense = small()
    other = keras.layers.Layer()
    private.track_variable(other, dense.kernel)
    assert other.weights == other.trainable_weights == [dense.kernel]


def test_a_dense_layer_has_its_stored_kernel():
    _, dense = small()
    assert private.stored_kernel(dense) is dense.kernel
    dense.enable_lora(1)
    assert private.stored_kernel(dense) is not dense.kernel and private.stored_kernel(dense).path == "dense/kernel"


def test_waiting_variables_are_read_and_set():
    before = private.waiting_variables()
    with keras.StatelessScope(initialize_variables=False):
        keras.Variable("zeros", (2,))
        assert len(private.waiting_variables()) == len(before) + 1
        private.set_waiting_variables(before)
    assert private.waiting_variables() == before


def test_an_optimizer_has_places_of_variables():
    model, dense = small()
    optimizer = keras.optimizers.SGD()
    optimizer.build(model.trainable_variables)
    assert [private.variable_index(optimizer, v) for v in (dense.kernel, dense.bias)] == [0, 1]


@needs_tensorflow
def test_messages_of_tensorflow_are_there():
    import tensorflow as tf

    assert private.name_of_dtype(tf.float32) == "DT_FLOAT"
    assert private.saved_model_message().meta_graphs is not None
    found = private.attribute(list={"s": [b"BiasAdd"]})
    assert list(found.list.s) == [b"BiasAdd"] and private.attribute(i=3).i == 3


@needs_onednn
@needs_tensorflow
def test_onednns_operations_are_there():
    from keras_vit.kernels import onednn

    assert onednn.has_layer_norm("float32")


@needs_tensorflow
def test_tflite_is_calibrated_and_quantized_in_two_steps():
    import tensorflow as tf

    function = tf.function(lambda x: x @ tf.eye(4) + 1.0, [tf.TensorSpec((1, 4))])
    converter = tf.lite.TFLiteConverter.from_concrete_functions([function.get_concrete_function()], tf.Module())
    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    converter.representative_dataset = lambda: ([np.full((1, 4), i, "float32")] for i in range(2))
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # TensorFlow's own interpreter is deprecated
        measured = private.calibrated_only(converter)
        assert private.quantize_calibrated(measured, []) != private.quantize_calibrated(measured, ["fully_connected"])


def test_the_versions_are_those_that_setup_allows():
    text = (ROOT / "setup.py").read_text(encoding="utf-8")
    packages = {"keras": keras.__version__}
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        packages["tensorflow"] = tf.__version__
    for package, version in packages.items():
        low, high = re.search(rf'"{package}>=([\d.]+),<([\d.]+)"', text).groups()
        numbers = [tuple(map(int, x.split("-")[0].split(".")[:2])) for x in (low, version, high)]
        assert numbers[0] <= numbers[1] < numbers[2]
        assert f"{package} {version}" in (PACKAGE / "private.py").read_text().replace("Keras", "keras").replace(
            "TensorFlow", "tensorflow"
        )


@needs_onednn
@needs_tensorflow
def test_tensorflow_reports_whether_it_uses_onednn():
    assert private.onednn_enabled() is True


@needs_tensorflow
def test_released_gradients_let_a_graph_go():
    """A graph with a custom gradient in a loop, which TensorFlow's registry of gradients would keep."""
    import gc
    import weakref

    import tensorflow as tf

    @tf.custom_gradient
    def square(x):
        return x * x, lambda upstream: 2.0 * x * upstream

    variable, graphs = tf.Variable(3.0), []

    @tf.function
    def descend(count):
        for _ in tf.range(count):
            with tf.GradientTape() as tape:
                y = square(variable * 1.0)
            slope = tape.gradient(y, variable)
            graphs.append(weakref.ref(tf.compat.v1.get_default_graph()))
            private.release_gradients(graphs[0]())
            variable.assign_sub(0.25 * slope)

    descend(tf.constant(2))
    assert float(variable) == 0.75
    del descend
    gc.collect()
    assert graphs[0]() is None
