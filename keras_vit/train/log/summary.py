"""The summary of a finished run."""

import math

from keras_vit.cost.operations import macs_of_variant
from keras_vit.train.datasets import Datasets
from keras_vit.train.recipe import Recipe
from keras_vit.train.recipe.updates import head_steps
from keras_vit.train.stages import spans_of
from keras_vit.train.state import State


def summarise(
    recipe: Recipe, data: Datasets, state: State, result: dict, step: int, images_per_second: float, replicas: int
) -> dict:
    """Return the content of `summary.json`: the recipe's name, the evaluation of the result, and the cost of the run.

    `seconds` includes compilation and evaluations; `images_per_second` excludes compilation. `peak_memory` is the
    largest process of the chief on the host in bytes; `peak_device_memory` is TensorFlow's peak on a GPU in bytes.
    `exaflops` counts the updates as the paper does (Table 6: two operations per multiply-add, the backward pass twice
    the forward pass), and twice that with `sam`. Further keys: `parameters`, with `adapt` `trained_parameters`, the
    `steps` and `epochs` that were made, `skipped` updates, `replicas`, the `labels` of the classes, and the
    `head_steps` of a first phase that trains the head alone, whose backward pass costs nothing. The run adds the
    labels' `thresholds` if an image has several labels.
    """
    batch, epochs = recipe.data.batch_size, -(-step // data.epoch_steps)
    work = sum(
        max(min(span.end, step) - span.begin, 0)
        * (1 if span.head_only else 3)  # the backward pass takes twice the forward pass
        * macs_of_variant(recipe.model.row, span.input_shape, span.patch_size or recipe.model.patch_size,
                          recipe.model.pooling)
        for span in spans_of(recipe, data.steps)
    )  # fmt: skip
    on_devices = round(state.counters.peak_device_memory)
    gradients = 2 if recipe.optimizer.sam else 1
    return {
        "recipe": recipe.name,
        **{name: value for name, value in result.items() if name != "examples"},
        "test_examples": result["examples"],
        "train_examples": data.train.count,
        "seconds": round(state.counters.seconds, 3),
        "images_per_second": round(images_per_second, 1),
        "peak_memory": round(state.counters.peak_memory),
        **({"peak_device_memory": on_devices} if on_devices else {}),
        "parameters": state.model.count_params(),
        **({"trained_parameters": sum(math.prod(v.shape) for v in state.trained)} if recipe.adapt else {}),
        "exaflops": 2 * gradients * work * batch / 1e18,
        "steps": step,
        "epochs": epochs,
        "skipped": round(state.counters.skipped_before),
        "replicas": replicas,
        "labels": list(data.train.labels),
        **({"head_steps": head_steps(recipe, data.steps)} if recipe.head_first else {}),
    }
