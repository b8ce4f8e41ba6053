"""Store a temperature in a classifier, so that its probabilities are calibrated in every format."""

import math

import keras

from keras_vit.composed import flattened
from keras_vit.layers import Head, OrdinalHead, RegressionHead
from keras_vit.private import call_behind


def set_temperature(model: keras.Model, temperature: float) -> None:
    """Divide the logits of a model by a temperature, by dividing the kernel and the bias of its head.

    The predicted classes stay the same. The config of the head has the product of all temperatures as `temperature`, so
    `model.save` and `keras_vit.export.export` store it. The graph of an export and a file of weights need nothing more.

    Args:
        model: a classifier of this package with a softmax, or without an activation; changed in place.
        temperature: from `keras_vit.evaluate.fit_temperature`, above 0.

    Raises:
        ValueError: the temperature is out of range, or the model's head cannot be divided by it exactly.
    """
    if not (math.isfinite(temperature) and temperature > 0):
        raise ValueError(f"temperature expected a finite number above 0, received {temperature}.")
    head = require_temperature(model)
    for variable in (head.kernel, head.bias):
        variable.assign(variable / temperature)
    head.temperature *= temperature


def require_temperature(model: keras.Model) -> Head:
    """Return the head of a model, or raise a ValueError if it cannot have a temperature."""
    flat = flattened(model)
    head = next((layer for layer in flat.layers if layer.name == "head"), None)
    if not isinstance(head, Head) or isinstance(head, OrdinalHead | RegressionHead):
        found = {type(None): "none", OrdinalHead: "one of ordered classes", RegressionHead: "one of a regression"}
        found = found.get(type(head), "a dense layer of yours")
        raise ValueError(f"model expected a classifier whose head is keras_vit's, received {found}.")
    last = call_behind(flat.outputs[0]).operation
    activation = getattr(last, "activation", None)
    if last.name == "predictions" and activation not in (keras.activations.softmax, keras.activations.linear):
        name = getattr(activation, "__name__", activation)
        raise ValueError(f"model expected a softmax after its head, received {name}.")
    if head.quantization_mode or head.lora_enabled or head.variable_dtype != "float32":
        found = head.quantization_mode or ("LoRA adapters" if head.lora_enabled else head.variable_dtype)
        raise ValueError(f"model expected a head with float32 weights, received {found}: calibrate the float32 model, "
                         "then convert it.")  # fmt: skip
    return head
