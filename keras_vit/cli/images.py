"""Load images of a folder or a split for `keras-vit export` and `keras-vit analyze`."""

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
        return load_folder(folder, interface, limit)
    if interface.image_size is None:
        return None, None
    if data is not None:
        from keras_vit.evaluate.accuracy import has_same_classes

        images, labels, names = load_split(model, data, data_dir, limit, left_out)
        one_class = not (interface.targets or interface.thresholds)
        return images, labels if one_class and has_same_classes(model, names) else None
    from keras_vit.train.recipe import Data

    try:
        return load_split(model, Data("digits"), None, limit)[0], None
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
        return load_folder(source, model_interface(model), limit, "--calibration")[0]
    if source == "dataset" and data is None:
        raise ValueError("--calibration dataset expected a recipe with data, from a workdir or --recipe, found none.")
    if model_interface(model).image_size is None:
        raise ValueError(f"--calibration expected a model of a known image size, received {model.input_shape}.")
    data, left_out = (data, left_out) if source == "dataset" else (Data(source), ())
    return load_split(model, replace(data, test_split=data.train_split), data_dir, limit, left_out)[0]


def load_folder(folder, interface, limit, option="--images"):
    """Return pixels 0..255 (N, H, W, C) of the images in a folder, and labels (N,) or None.

    Raises:
        ValueError: the folder has no images, or the model has no image size; the message starts with `option`.
    """
    _require_positive(limit)
    files = sorted(map(Path, image_files_below(folder)))
    if not files or interface.image_size is None:
        received = f"{folder!r} with {len(files)} images and input shape {interface.input_shape}"
        raise ValueError(
            f"{option} expected a folder of images and a model of a known image size, received {received}."
        )
    files = files[:: -(-len(files) // limit)]  # a sample of all classes
    indices = {label: i for i, label in enumerate(interface.labels)}
    have_labels = all(path.parent.name in indices for path in files)
    labels = np.array([indices[path.parent.name] for path in files]) if have_labels else None
    return np.stack([load_image(path, interface.image_shape, interface.preprocessing) for path in files]), labels


def load_split(model, data, data_dir: str | None, limit: int | None, left_out=(), several: bool = False):
    """Return images, labels and class names of a recipe's test split, resized for a model. See `held_out`."""
    from keras_vit.data.evaluation import held_out

    _require_positive(limit)
    interface = model_interface(model)
    return held_out(data, interface.image_shape, data_dir, limit, left_out, interface.preprocessing, several)


def _require_positive(limit: int | None) -> None:
    if limit is not None and limit < 1:
        raise ValueError(f"limit expected a positive int, received {limit}.")
