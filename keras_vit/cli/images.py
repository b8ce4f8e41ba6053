"""Choose the images for the comparison and the calibration of `keras-vit export`."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from keras_vit.models.model_interface import model_interface
from keras_vit.preprocessing.folders import image_files_below
from keras_vit.preprocessing.inputs import load_image


def images_to_compare(model, folder: str | None, data, data_dir: str | None, limit: int, left_out=()):
    """Load images from a folder, else from a recipe's test split, else from scikit-learn's digits.

    Args:
        model: the model to export.
        folder: folder of images; images in subfolders named like the model's classes have labels.
        data: a recipe's `Data`; None without a recipe.
        data_dir: replaces the directory in `data`.
        limit: maximum number of images.
        left_out: names of data files that may have been deleted since training began.

    Returns:
        Pixels 0..255 (N, H, W, C) and labels (N,). The labels are None if unknown. Both are None for a free image size
        without a folder, and without scikit-learn.

    Raises:
        ValueError: the folder has no images, the model has no image size, or the limit is not positive.
    """
    interface = model_interface(model)
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
    """Load training images for calibration.

    Args:
        model: the model to export.
        source: a folder of images, a data source of recipes such as `tfds:cifar10`, or `dataset` for the recipe's.
        data: a recipe's `Data`; None without a recipe.
        data_dir: replaces the directory of the data.
        limit: maximum number of images.
        left_out: names of the recipe's data files that may have been deleted since training began.

    Returns:
        Pixels 0..255 (N, H, W, C).

    Raises:
        ValueError: the source is none of these, or the model has no image size.
    """
    from keras_vit.train.recipe import Data

    if Path(source).is_dir():
        return _of_folder(source, model_interface(model), limit, "--calibration")[0]
    if source == "dataset" and data is None:
        raise ValueError("--calibration dataset expected a recipe with data, a workdir's own or --recipe, found none.")
    if model_interface(model).image_size is None:
        raise ValueError(f"--calibration expected a model of a known image size, received {model.input_shape}.")
    chosen, left_out = (data, left_out) if source == "dataset" else (Data(source), ())
    return of_split(model, replace(chosen, test_split=chosen.train_split), data_dir, limit, left_out)[0]


def _of_folder(folder, interface, limit, option="--images"):
    _require_positive(limit)
    files = sorted(map(Path, image_files_below(folder)))
    if not files or interface.image_size is None:
        found = f"{folder!r} with {len(files)} and input shape {interface.input_shape}"
        raise ValueError(f"{option} expected a folder of images and a model of a known image size, received {found}.")
    files = files[:: -(-len(files) // limit)]  # a sample of all classes
    classes = {label: i for i, label in enumerate(interface.labels)}
    known = all(path.parent.name in classes for path in files)
    labels = np.array([classes[path.parent.name] for path in files]) if known else None
    return np.stack([load_image(path, interface.image_shape) for path in files]), labels


def of_split(model, data, data_dir: str | None, limit: int | None, left_out=()):
    """Return images, labels and class names of a recipe's test split in a model's image size, as `held_out` does."""
    from keras_vit.data.evaluation import held_out

    _require_positive(limit)
    return held_out(data, model_interface(model).image_shape, data_dir, limit, left_out)


def _require_positive(limit: int | None) -> None:
    if limit is not None and limit < 1:
        raise ValueError(f"limit expected a positive int, received {limit}.")
