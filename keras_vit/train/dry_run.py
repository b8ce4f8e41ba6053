"""Two real steps of a recipe with a small model on generated data, to check the recipe."""

import dataclasses
import tempfile
from pathlib import Path

import numpy as np
import tensorflow as tf

from keras_vit.data.examples import in_memory
from keras_vit.models.variants import BiTVariant, EfficientNetVariant
from keras_vit.train.datasets import Datasets
from keras_vit.train.measure import Measure
from keras_vit.train.recipe import Recipe
from keras_vit.train.recipe.inputs import check_sizes
from keras_vit.train.recipe.labels import check_labels
from keras_vit.train.result import save_result
from keras_vit.train.stages import spans_of
from keras_vit.train.state import first_state
from keras_vit.train.step import compiled_steps
from keras_vit.train.strategy import Devices

CLASSES, STEPS, RUN = 5, 2, 100  # RUN: updates of the run that is imagined


def shrunk(recipe: Recipe) -> Recipe:
    """Return the recipe with a small model of the same kind, the same image size, and a batch of about 4.

    Weights are not loaded, because they may be a large download.
    """
    model, row = recipe.model, recipe.model.row
    stage = lambda units: tuple(1 for _ in units)  # noqa: E731
    if isinstance(row, BiTVariant):
        small = dataclasses.replace(row, units=stage(row.units), width_factor=0.5)
    elif isinstance(row, EfficientNetVariant):
        small = dataclasses.replace(row, width_factor=0.25, depth_factor=0.1)
    else:
        stem = row.stem
        if hasattr(stem, "units"):
            stem = dataclasses.replace(stem, units=stage(stem.units), width_factor=0.5)
        small = dataclasses.replace(row, width=16, depth=2, mlp_dim=32, num_heads=2, stem=stem)
    size = 16 if model.representation_size else None
    parts, loss = recipe.optimizer.accumulate, recipe.loss
    if isinstance(loss.class_weights, dict):  # of classes that the generated data does not have
        loss = dataclasses.replace(loss, class_weights="balanced" if recipe.data.sampling == "uniform" else None)
    return dataclasses.replace(
        recipe,
        loss=loss,
        model=dataclasses.replace(
            model, variant=small, weights=None, keep_head=False, representation_size=size, freeze=()
        ),
        data=dataclasses.replace(recipe.data, batch_size=2 * parts if parts > 1 else 4, columns=(), classes=()),
        schedule=dataclasses.replace(recipe.schedule, warmup_steps=0, cooldown_steps=0),
    )


def dry_run(recipe: Recipe) -> dict:
    """Make two updates of every stage of a small model on random images, evaluate and save; all files are removed.

    Returns:
        `{"parameters": int, "losses": [one per stage], "accuracy": float}`; the accuracy is meaningless. The phase of
        the head alone, with `head_first`, is a stage of its own.

    Raises:
        FloatingPointError: a loss is not finite.
        ValueError: the recipe is inconsistent.
    """
    check_sizes(recipe)
    check_labels(recipe)
    recipe = shrunk(recipe)
    batch, shape = recipe.data.batch_size, recipe.model.input_shape
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (2 * batch, *shape), "uint8")
    targets, kind = rng.permutation(np.arange(len(images)) % CLASSES), recipe.data.targets
    if "mean_average_precision" in recipe.evaluate.metrics or kind != "classes":
        targets = np.eye(CLASSES, dtype="int64")[targets]  # several labels or values per image
    examples = in_memory(images, targets, tuple(map(str, range(CLASSES))), kind=kind)
    data = Datasets.of_splits(recipe, examples, examples, examples)
    devices = Devices(tf.distribute.get_strategy())
    state = first_state(recipe, examples.labels, RUN, devices.strategy, data.terms)
    losses = []
    for span in spans_of(recipe, RUN):
        state.optimizer.iterations.assign(span.begin)
        batches = data.batches(span.input_shape, 0)((0, 1))
        compiled_steps(recipe, state, devices.strategy, span, terms=data.terms)(iter(batches), tf.constant(STEPS))
        losses.append(state.counters.mean_loss)
        if state.counters.skipped:
            raise FloatingPointError(f"loss expected finite numbers and gradients, received others after {losses}.")
        state.counters.next_report()
    result = Measure(recipe, state.average, data, devices)("test")
    with tempfile.TemporaryDirectory() as folder:
        save_result(recipe, state.average, Path(folder))
    return {"parameters": state.model.count_params(), "losses": losses, "accuracy": result.get("accuracy")}
