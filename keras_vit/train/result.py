"""The files of a finished run's models."""

from pathlib import Path

import keras

from keras_vit.models.adapt import merged_if_adapted
from keras_vit.models.adapter_files import save_adapter
from keras_vit.tasks.masked import finished_models
from keras_vit.train.recipe import Recipe
from keras_vit.train.workdir import save_model


def save_result(recipe: Recipe, average: keras.Model, workdir: Path) -> None:
    """Write the models of a finished run, and the adapter of a recipe with `adapt`."""
    for name, model in finished_models(recipe, average).items():
        save_model(merged_if_adapted(model), workdir / name)
    if recipe.adapt is not None:
        variant = recipe.model.variant
        base = recipe.model.weights or (variant if isinstance(variant, str) else variant.name)
        save_adapter(average, workdir / "adapter.safetensors", recipe.adapt.kind, base)
