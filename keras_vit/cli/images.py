"""The images that `keras-vit export` compares an export with its model on, and those it calibrates one with: glue of
the command line."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from keras_vit.models.interface import describe
from keras_vit.preprocessing.folders import image_files_below
from keras_vit.preprocessing.inputs import load_image


def images_to_compare(model, folder: str | None, data, data_dir: str | None, limit: int, left_out=()):
    """Pixels 0..255 (N, H, W, C), and labels (N,) where they are known and the model's: of a folder, else of a recipe's
    test split, else scikit-learn's digits.

    Args:
        model: to be exported.
        folder: of images; those in folders named as the model's classes have labels.
        data: a recipe's `Data`; None without a recipe.
        data_dir: in place of the directory in `data`.
        limit: how many at most.
        left_out: names of files of the data that may be gone since training began.

    Returns:
        (images, labels), None for what is not known: both for a model of a free image size without a folder, and the
        images where scikit-learn is not installed either.

    Raises:
        ValueError: the folder has no images, the model no image size, or the limit is not positive.
    """
    interface = describe(model)
    if folder:
        return _of_folder(folder, interface, limit)
    if interface.image_size is None:
        return None, None
    if data is not None:
        from keras_vit.evaluate.accuracy import has_same_classes

        images, labels, names = of_split(model, data, data_dir, limit, left_out)
        return images, labels if has_same_classes(model, names) else None
    from keras_vit.train.recipe import Data

    try:
        return of_split(model, Data("digits"), None, limit)[0], None
    except ImportError:
        return None, None


def images_to_calibrate(model, source: str, data, data_dir: str | None, limit: int = 128, left_out=()) -> np.ndarray:
    """Pixels 0..255 (N, H, W, C) of training images, which the figures of an export are not measured on.

    Args:
        model: to be exported.
        source: a folder of images, the name of a data source as a recipe gives it, or `dataset` for the recipe's own.
        data: a recipe's `Data`; None without a recipe.
        data_dir: in place of the directory of the data.
        limit: how many at most.
        left_out: names of files of the recipe's own data that may be gone since training began.

    Raises:
        ValueError: the source is neither, or the model has no image size.
    """
    from keras_vit.train.recipe import Data

    if Path(source).is_dir():
        return _of_folder(source, describe(model), limit, "--calibration")[0]
    if source == "dataset" and data is None:
        raise ValueError("--calibration dataset expected a recipe with data, a workdir's own or --recipe, found none.")
    if describe(model).image_size is None:
        raise ValueError(f"--calibration expected a model of a known image size, received {model.input_shape}.")
    chosen, left_out = (data, left_out) if source == "dataset" else (Data(source), ())
    return of_split(model, replace(chosen, test_split=chosen.train_split), data_dir, limit, left_out)[0]


def _of_folder(folder, interface, limit, option="--images"):
    _require_positive(limit)
    files = sorted(map(Path, image_files_below(folder)))
    if not files or interface.image_size is None:
        found = f"{folder!r} with {len(files)} and input shape {interface.input_shape}"
        raise ValueError(f"{option} expected a folder of images and a model of a known image size, received {found}.")
    files = files[:: -(-len(files) // limit)]  # spread over the classes
    classes = {label: i for i, label in enumerate(interface.labels)}
    known = all(path.parent.name in classes for path in files)
    labels = np.array([classes[path.parent.name] for path in files]) if known else None
    return np.stack([load_image(path, interface.image_shape) for path in files]), labels


def of_split(model, data, data_dir: str | None, limit: int | None, left_out=()):
    """Images, labels and names of the classes of a recipe's test split, as `held_out` gives them, in a model's size."""
    from keras_vit.data.pipeline import held_out

    _require_positive(limit)
    return held_out(data, describe(model).image_shape, data_dir, limit, left_out)


def _require_positive(limit: int | None) -> None:
    if limit is not None and limit < 1:
        raise ValueError(f"limit expected a positive int, received {limit}.")
