"""Write and load TensorFlow's SavedModel, which TensorFlow Serving loads, too."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from keras_vit.export.write_options import WriteOptions

if TYPE_CHECKING:
    import keras


def write(model: "keras.Model", file: Path, options: WriteOptions) -> None:
    """Write `saved_model.pb`, and `variables/` next to it, in the dtype of the options."""
    from keras_vit.export.precision import in_dtype

    def of_dtype(model):
        return model if options.dtype is None else in_dtype(model, options.dtype)

    write_saved_model(of_dtype(model), file.parent, {name: of_dtype(m) for name, m in options.adapters.items()})


def load(file: Path) -> dict[str, Callable]:
    """Return the functions of the signatures by name."""
    return load_signatures(file.parent)


def write_saved_model(
    model: "keras.Model", folder: str | Path, adapters: "dict[str, keras.Model] | None" = None
) -> None:
    """Write a model as a SavedModel.

    Args:
        model: a model of this package.
        folder: folder of `saved_model.pb` and `variables/`.
        adapters: adapted models by name. Each gets a signature.

    Raises:
        ValueError: Keras does not run on TensorFlow, or the model does not take one batch of images.
    """
    import tensorflow as tf

    from keras_vit.export.serving_module import ServingModule

    module = ServingModule(model, served=True, adapters=adapters)
    tf.saved_model.save(module, str(folder), signatures=module.signatures(model))


def load_signatures(folder: str | Path) -> dict[str, Callable]:
    """Return the signatures of a SavedModel by name: functions of named tensors that return a dict of tensors."""
    import tensorflow as tf

    return dict(tf.saved_model.load(str(folder)).signatures)
