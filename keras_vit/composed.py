"""Flatten a user's model that contains a model of this package.

B batch, D features, K classes.
"""

import keras
from keras import ops

from keras_vit.private import call_behind, layers_of, run_graph


class Classifier(keras.layers.Layer):
    """Compute the logits of a user's dense layer, without its activation: (B, D) -> (B, K).

    Args:
        dense: a `keras.layers.Dense`, whose weights are shared, or its config.
    """

    labels = None

    def __init__(self, dense, **kwargs):
        super().__init__(**kwargs)
        self.dense = keras.saving.deserialize_keras_object(dense) if isinstance(dense, dict) else dense
        self.units = self.dense.units

    def get_config(self):
        return {**super().get_config(), "dense": keras.saving.serialize_keras_object(self.dense)}

    @property
    def kernel(self):
        """The kernel of the dense layer."""
        return self.dense.kernel

    def build(self, input_shape):
        if not self.dense.built:
            self.dense.build(input_shape)

    def compute_output_shape(self, input_shape):
        return (*input_shape[:-1], self.units)

    def call(self, x):
        if self.dense.activation is keras.activations.linear:
            return self.dense(x)
        x = ops.matmul(x, self.dense.kernel)
        return x if self.dense.bias is None else ops.add(x, self.dense.bias)


def weight_paths(model: keras.Model) -> dict:
    """Return the variables of a flat model by path, without dropout seeds, LoRA adapters and SSF factors.

    A user's classifier has the paths `head/kernel` and `head/bias`.
    """
    excluded = ("seed_generator_state", "lora_kernel_a", "lora_kernel_b", "output_scale")
    variables = {variable.path: variable for variable in model.variables if not variable.path.endswith(excluded)}
    classifiers = [layer.dense for layer in model.layers if isinstance(layer, Classifier)]
    head_paths = {id(variable): f"head/{variable.name}" for dense in classifiers for variable in dense.variables}
    return {head_paths.get(id(variable), path): variable for path, variable in variables.items()}


def flattened(model: keras.Model) -> keras.Model:
    """Return a flat functional model of the same layers, with the node names of this package's builders.

    Nested models are replaced by their layers, so that `keras.Sequential([Input, vit, Dense])` has the layers of the
    ViT. A user's dense layer at the end becomes `head`, and its activation becomes `predictions`. A model that is flat
    already, or contains no ViT, is returned unchanged.

    Raises:
        ValueError: the model contains several ViTs, a ViT in a layer whose graph Keras does not know, or a second
            classifier.
    """
    if not isinstance(model, keras.Model) or _is_flat(model):
        return model
    vits = [layer for layer in layers_of(model)[1:] if _is_vit(layer)]
    if vits:
        _require_one_vit(model, vits)
        model = _rebuilt(model, lambda layer: _has_graph(layer) and _contains_vit_or_dense(layer, vits[0]))
    elif not _is_vit(model):
        return model
    return _with_head(model)


def _is_flat(model):
    """Return whether a model has no nested model and no user's dense layer at the end."""
    if isinstance(model, keras.Sequential) or not _has_graph(model):
        return False
    nested = any(isinstance(layer, keras.Model) for layer in model.layers)
    return not nested and (len(model.outputs) != 1 or _last_dense(model)[0] is None)


def _has_graph(layer) -> bool:
    """Return whether a layer is a functional model or a built `Sequential`."""
    return isinstance(layer, keras.Model) and bool(getattr(layer, "inputs", None)) and bool(layer.outputs)


def _is_vit(layer) -> bool:
    """Return whether a layer is a model with the nodes of a ViT, BiT or EfficientNet."""
    if not _has_graph(layer):
        return False
    names = {inner.name for inner in layer.layers}
    return {"embedding", "position_embedding"} <= names or "root" in names and bool({"root_pool", "root_norm"} & names)


def _contains_vit_or_dense(layer, vit):
    """Return whether a nested model contains the ViT or a possible classifier."""
    return any(inner is vit or isinstance(inner, keras.layers.Dense) for inner in layers_of(layer))


def _require_one_vit(model, vits):
    if len(vits) > 1:
        names = ", ".join(repr(vit.name) for vit in vits)
        raise ValueError(f"model expected one ViT inside, received {model.name!r} with {names}: pass one of them.")
    vit = vits[0]
    parents = [layer for layer in layers_of(model) if layer is not vit and vit in layers_of(layer)]
    if opaque := [parent for parent in parents if not _has_graph(parent)]:
        raise ValueError(
            f"model expected a functional or built Sequential model, received {model.name!r} with the ViT "
            f"{vit.name!r} inside the {type(opaque[-1]).__name__} {opaque[-1].name!r}, whose graph Keras does "
            "not know: pass that ViT."
        )


def _rebuilt(model, is_flattened, call=lambda layer, *args, **kwargs: layer(*args, **kwargs)):
    """Call a model's layers in a new graph. Nested models with `is_flattened(model)` are replaced by their layers."""

    def run(nested, inputs):
        graph = keras.Model(nested.inputs, nested.outputs) if isinstance(nested, keras.Sequential) else nested
        outputs = keras.tree.flatten(run_graph(graph, inputs, call_or_flatten))
        return outputs[0] if len(outputs) == 1 else outputs

    def call_or_flatten(layer, *args, **kwargs):
        return run(layer, args[0]) if is_flattened(layer) else call(layer, *args, **kwargs)

    images = [keras.Input(batch_shape=x.shape, dtype=x.dtype, name=x.name) for x in model.inputs]
    inputs = images[0] if len(images) == 1 else images
    try:
        return keras.Model(inputs, run(model, inputs), name=model.name)
    except ValueError as error:
        if "unique" not in str(error):
            raise
        raise ValueError(
            f"model expected layers with unique names, received {model.name!r}: {str(error).splitlines()[0]} "
            "Pass the ViT inside."
        ) from None


def _last_dense(model):
    """Return the user's dense layer at the output and the activation layer after it; None for each if absent."""
    call, activation = call_behind(model.outputs[0]), None
    last = call.operation
    if isinstance(last, keras.layers.Activation | keras.layers.Softmax):
        activation, call = last, call_behind(call.input_tensors[0])
    dense = call.operation
    is_ours = type(dense).__module__.startswith("keras_vit.") or dense.name == "pre_logits"
    return (None, None) if is_ours or not isinstance(dense, keras.layers.Dense) else (dense, activation)


def _with_head(model):
    """Return a model in which a user's last dense layer is `head`, and its activation `predictions`."""
    dense, activation = _last_dense(model) if len(model.outputs) == 1 else (None, None)
    if dense is None:
        return model
    if any(layer.name == "head" and layer is not dense for layer in model.layers):
        raise ValueError(
            f"model expected one classifier, received {model.name!r} with 'head' and, after it, {dense.name!r}: build "
            "the ViT with include_top=False."
        )
    if dense.quantization_mode and dense.activation is not keras.activations.linear:
        raise ValueError(
            f"model expected the logits of {dense.name!r}, which is quantized with its activation inside: give the "
            "activation a separate layer."
        )

    def call(layer, *args, **kwargs):
        if layer is dense:
            logits = Classifier(dense, name="head", dtype=dense.compute_dtype)(*args)
            if dense.activation is keras.activations.linear:
                return logits
            return keras.layers.Activation(dense.activation, name="predictions", dtype="float32")(logits)
        if layer is activation:
            function = getattr(layer, "activation", keras.activations.softmax)
            return keras.layers.Activation(function, name="predictions", dtype="float32")(*args)
        return layer(*args, **kwargs)

    return _rebuilt(model, lambda layer: False, call)


def require_direct_classifier(model: keras.Model, argument: str) -> None:
    """Raise a ValueError unless the classifier of a flat model directly follows the ViT.

    Files of weights cannot store a layer between the two.

    Args:
        model: the flat model.
        argument: name of the checked argument in the error message.
    """
    call = call_behind(model.outputs[0])
    while not type(call.operation).__module__.startswith("keras_vit.layers."):
        layer = call.operation
        allowed = any(isinstance(layer, kind) and name in (None, layer.name) for kind, name in _AFTER_VIT)
        if not allowed or (layer.name == "head" and len(call.input_tensors[0].shape) != 2):
            raise ValueError(
                f"{argument} expected the classifier directly after the pooled output of the ViT, received "
                f"{model.name!r} with {layer.name!r} ({type(layer).__name__}, on shape "
                f"{tuple(call.input_tensors[0].shape)})."
            )
        call = call_behind(call.input_tensors[0])


_AFTER_VIT = (
    (Classifier, None),
    (keras.layers.Dropout, None),
    (keras.layers.Activation, "predictions"),
    (keras.layers.Dense, "pre_logits"),
    (keras.layers.GlobalAveragePooling2D, "pooling"),
    (keras.layers.ReLU, "relu"),
)
