"""The tensors that a backward pass takes from the forward pass."""

import math

import tensorflow as tf
from tensorflow.python.eager import context


def _as_run(function, *inputs):
    """The graphs that run after TensorFlow's optimiser, which merges what is computed twice; other threads', too."""
    context.enable_run_metadata()
    try:
        function(*inputs)
        return [found.post_optimization_graph for found in context.export_run_metadata().function_graphs]
    finally:
        context.disable_run_metadata()


def saved_activations(form, inputs, least):
    """Return types and shapes of the tensors of `least` or more values that the backward pass reads."""
    before = []

    @tf.function
    def both(inputs, gradient):
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            y = form(*inputs)
        before.extend(tf.compat.v1.get_default_graph().get_operations())
        return y, tape.gradient(y, inputs, tf.cast(gradient, y.dtype))

    arguments = inputs, tf.random.stateless_normal(form(*inputs).shape, (0, 0))
    graphs = _as_run(both, *arguments)
    later = {op.name for op in both.get_concrete_function(*arguments).graph.get_operations()[len(before) :]}
    own = [graph for graph in graphs if any(node.name == "inputs" for node in graph.node)]  # loops have names of theirs
    of_later = max(([node for node in graph.node if node.name in later] for graph in own), key=len)
    outputs = [output for op in before for output in op.outputs if op.name != "gradient"]
    wide = {output.name.removesuffix(":0"): output for output in outputs if math.prod(output.shape) >= least}
    taken = {name for node in of_later for name in node.input}
    return sorted((wide[name].dtype.name, tuple(wide[name].shape)) for name in taken & wide.keys())
