"""Write a report about a model: pictures, `analysis.json` and an HTML page."""

import json
import os
from collections.abc import Sequence
from pathlib import Path

import keras
import numpy as np

from keras_vit.analysis.arrays import as_model_input, split_batches, to_float32
from keras_vit.analysis.capturing import encoder_blocks
from keras_vit.analysis.report_inputs import ReportInputs
from keras_vit.analysis.report_labelled import labelled_part, require_labels
from keras_vit.analysis.report_labels import require_several, several_part
from keras_vit.analysis.report_page import write_page
from keras_vit.analysis.report_parts import PARTS, available_parts
from keras_vit.analysis.report_values import require_values, values_part
from keras_vit.composed import flattened
from keras_vit.models.model_interface import ModelInterface, model_interface, named_outputs
from keras_vit.preprocessing.inputs import load_image


def analyze(
    model: keras.Model,
    images,
    output: str | os.PathLike,
    labels: Sequence[str] | None = None,
    *,
    names: Sequence[str] | None = None,
    parts: Sequence[str] | None = None,
    sample_images=None,
    sample_names: Sequence[str] | None = None,
    test_images=None,
    test_labels=None,
    extra_pictures: dict[str, str] | None = None,
    top: int = 5,
    max_drawn: int = 8,
    batch_size: int = 32,
) -> dict:
    """Analyze a model on some images, and write PNG files, `analysis.json` and `index.html`.

    Args:
        model: a model of this package.
        images: (B, H, W, C) in the model's input range, or paths of image files.
        output: the folder to write to.
        labels: class names; by default the labels of the model's head.
        names: names of the images; file names or indices if None.
        parts: some of `attention`, `class`, `figure7`, `layer_outputs`, `layers` and `neighbours`. By default all that
            the model has; the last two need five images.
        sample_images: (N, H, W, C), for statistics over many images; `images` if None.
        sample_names: N names of these, usually classes; `names` if `sample_images` is None.
        test_images: (N, H, W, C) in the model's input range, images with known classes. The page begins with their
            confusion matrix and the most confident mistakes.
        test_labels: N class indices of these; 0 or 1 for each of several labels (N, K); the values (N, T) of a
            regression.
        extra_pictures: more PNG files in `output` for the page, file -> caption.
        top: number of predicted classes per image.
        max_drawn: maximum number of images in a picture.
        batch_size: images per forward pass.

    Returns:
        The content of `analysis.json`, with attention maps that sum to 1, exp(entropy) of the attention as
        `effective_patches` and `attention_distance` in pixels, both per block and head.

    Raises:
        ValueError: the model lacks a part, or images, labels or names do not match. Or `test_images` are given
            without `test_labels`, or for a model without a classifier.
        FileNotFoundError: an image file does not exist.
    """
    model = flattened(model)
    if parts is not None:
        require_parts(model, parts)
    inputs = _inputs(
        model, images, names, sample_images, sample_names, labels, top, Path(output), max_drawn, batch_size
    )
    if (test_images is None) != (test_labels is None):
        raise ValueError("test_images expected test_labels with them, received only one of the two.")
    known = _labelled(inputs, test_images, test_labels)
    inputs.output.mkdir(parents=True, exist_ok=True)
    parts = available_parts(model, len(inputs.sample_images)) if parts is None else parts
    results = {name: draw() for name, draw in known.items()}
    return _write(inputs, results | {part: PARTS[part](inputs) for part in parts}, extra_pictures or {})


def _labelled(inputs, images, labels) -> dict:
    """Return the part about labelled images as name -> a function that draws it; {} without images."""
    if images is None:
        return {}
    interface = inputs.interface
    kind = "values" if interface.targets else "several" if interface.thresholds else "labelled"
    require, part = {"values": (require_values, values_part), "several": (require_several, several_part),
                     "labelled": (require_labels, labelled_part)}[kind]  # fmt: skip
    checked = require(inputs, images, labels)
    return {kind: lambda: part(inputs, *checked)}


def _inputs(model, images, names, sample_images, sample_names, labels, top, output, max_drawn, batch_size):
    """Load and validate the inputs of a report."""
    interface = model_interface(model)
    if not hasattr(images, "shape"):
        images = [images] if isinstance(images, str | os.PathLike) else images
        names = [Path(image).name for image in images] if names is None else names
        images = _load_images(interface, images)
    images = as_model_input(model, images)
    names = [str(i) for i in range(len(images))] if names is None else list(names)
    _require_names("names", names, images)
    labels = _class_names(interface, labels)
    predictions = _predictions(model, interface, images, labels, top, batch_size)
    if sample_images is None:
        sample_images, sample_names = images, names if sample_names is None else sample_names
    if sample_names is not None:
        sample_names = [str(name) for name in sample_names]
        _require_names("sample_names", sample_names, sample_images)
    sample_images = as_model_input(model, sample_images)
    return ReportInputs(
        model, interface, images, names, labels, predictions, sample_images, sample_names, output, max_drawn, batch_size
    )


def _write(inputs, results, extra_pictures) -> dict:
    """Write `analysis.json` and `index.html`, and return the content of `analysis.json`."""
    analysis = {"model": inputs.model.name, "facts": _facts(inputs)}
    rows = [{"name": name, "predictions": best} for name, best in zip(inputs.names, inputs.predictions, strict=True)]
    for result in results.values():
        analysis |= result.values
        for row, entries in zip(rows, result.per_image or [{}] * len(rows), strict=True):
            row |= entries
    analysis |= {"pictures": [file for result in results.values() for file in result.captions], "images": rows}
    (inputs.output / "analysis.json").write_text(json.dumps(analysis, indent=1) + "\n")
    captions = {part: result.captions for part, result in results.items()}
    write_page(inputs.output / "index.html", analysis, captions | {"extra_pictures": extra_pictures}, inputs.aliases)
    return analysis


def require_parts(model: keras.Model, parts: Sequence[str]) -> None:
    """Raise a ValueError unless `parts` are parts of a report that the model has."""
    if isinstance(parts, str) or not parts or set(parts) - set(PARTS):
        raise ValueError(f"parts expected some of {tuple(PARTS)}, received {parts!r}.")
    if "attention" in parts:
        encoder_blocks(model)


def _require_names(argument, names, images):
    if len(names) != len(images):
        raise ValueError(f"{argument} expected {len(images)} names, one per image, received {len(names)}.")


def _load_images(interface: ModelInterface, files):
    shape = interface.image_shape
    if not files:
        raise ValueError("images expected one file or more, received none.")
    return interface.inputs_of(np.stack([load_image(file, shape, interface.preprocessing) for file in files]))


def _class_names(interface: ModelInterface, labels) -> list[str]:
    """Return the names of the classes; an empty list without a classifier."""
    if interface.classes is None:
        return []
    labels = interface.labels if labels is None else list(labels)
    if len(labels) != interface.classes:
        raise ValueError(f"labels expected {interface.classes} names, one per class, received {len(labels)}.")
    return [str(label) for label in labels]


def _predictions(model, interface: ModelInterface, images, labels, top, batch_size):
    """Return the best classes of each image as dicts of `class`, `label` and `score`.

    The lists are empty without a classifier.
    """
    if interface.classes is None:
        return [[] for _ in images]
    outputs = named_outputs(model)
    scores = np.concatenate(
        [to_float32(outputs(batch, training=False)["probabilities"]) for batch in split_batches(images, batch_size)]
    )
    best = np.argsort(-scores, axis=1, kind="stable")[:, :top]
    return [
        [{"class": int(i), "label": labels[i], "score": float(row[i])} for i in indices]
        for row, indices in zip(scores, best, strict=True)
    ]


def _facts(inputs: ReportInputs):
    """Return the table at the top of the page."""
    sides = " × ".join(str(side) for side in inputs.images.shape[1:])
    facts = {"parameters": f"{inputs.model.count_params():,}", "input": sides}
    if inputs.interface.classes is not None:
        facts["classes"] = str(inputs.interface.classes)
    facts["images"] = str(len(inputs.images))
    return facts
