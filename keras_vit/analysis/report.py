"""One call that looks inside a model: pictures, a JSON of the numbers, and a page of both."""

import json
import os
from collections.abc import Sequence
from pathlib import Path

import keras
import numpy as np
from keras import ops

from keras_vit.analysis.capturing import as_input, attention_layers
from keras_vit.analysis.page import write_page
from keras_vit.analysis.parts import PARTS, parts_of
from keras_vit.analysis.subject import Subject
from keras_vit.composed import flattened
from keras_vit.models.model_interface import ModelInterface, model_interface, named_outputs
from keras_vit.preprocessing.inputs import load_image, preprocess_input


def analyze(
    model: keras.Model,
    images,
    output: str | os.PathLike,
    labels: Sequence[str] | None = None,
    *,
    names: Sequence[str] | None = None,
    parts: Sequence[str] | None = None,
    crowd=None,
    crowd_names: Sequence[str] | None = None,
    also: dict[str, str] | None = None,
    top: int = 5,
    drawn: int = 8,
    batch_size: int = 32,
) -> dict:
    """Look inside a model with some images, and write it down: PNGs, `analysis.json` and `index.html`.

    The parts, of which a model without attention has the others, and a model without a classifier all but `class`:
    `attention` (last block and rollout, heads, blocks), `class` (Grad-CAM and gradient times attention for the best
    class), `figure7` (filters, positions, attention distance), `journey` (how images travel), and with five images or
    more `layers` (linear CKA) and `neighbours` (nearest images, t-SNE).

    Args:
        model: a model of this package.
        images: (B, H, W, C) as the model takes them, or the paths of image files, which are read and preprocessed.
        output: directory, made where it is missing.
        labels: names of the classes; those kept in the model's head where None.
        names: of the images; file names or numbers where None.
        parts: what to look at; all that the model has where None.
        crowd: (N, H, W, C), for what is a mean over many images (attention distance by depth, likeness of layers, and
            of images); `images` where None.
        crowd_names: N names, best those of classes; `names` where `crowd` is None.
        also: PNGs that lie in `output` already, to be shown on the page, too: file name -> caption.
        top: how many classes to write down for an image.
        drawn: how many images the pictures show; the numbers are of all.
        batch_size: images that go through the model at once.

    Returns:
        What `analysis.json` holds. Attention on the grid sums to 1; `effective_patches` is exp(entropy) of it, the
        number of patches that it would take if it were spread evenly, for each block and head, the mean over images;
        `attention_distance` is in pixels, for each block and head.

    Raises:
        ValueError: the model has no such part, or images, labels or names do not fit it.
        FileNotFoundError: an image is not there.
    """
    model = flattened(model)
    interface = model_interface(model)
    if parts is not None:
        require_parts(model, parts)
    if not hasattr(images, "shape"):
        images = [images] if isinstance(images, str | os.PathLike) else images
        names = [Path(image).name for image in images] if names is None else names
        images = _read(interface, images)
    images = as_input(model, images)
    names = [str(i) for i in range(len(images))] if names is None else list(names)
    if len(names) != len(images):
        raise ValueError(f"names expected {len(images)}, one an image, received {len(names)}.")
    predictions = _predictions(model, interface, images, labels, top, batch_size)
    if crowd is None:
        crowd, crowd_names = images, names if crowd_names is None else crowd_names
    crowd_names = None if crowd_names is None else [str(name) for name in crowd_names]
    if crowd_names is not None and len(crowd_names) != len(crowd):
        raise ValueError(f"crowd_names expected {len(crowd)}, one an image, received {len(crowd_names)}.")

    output = Path(output)
    output.mkdir(parents=True, exist_ok=True)
    captions = [_caption(*pair) for pair in zip(names, predictions, strict=True)]
    subject = Subject(
        model, interface, images, names, captions, predictions, as_input(model, crowd), crowd_names, output, drawn,
        batch_size,
    )  # fmt: skip
    analysis, written = {"model": model.name, "facts": _facts(model, interface, images)}, {}
    rows = [{"name": name, "predictions": best} for name, best in zip(names, predictions, strict=True)]
    for part in parts_of(model, len(crowd)) if parts is None else parts:
        numbers, written[part], of_images = PARTS[part](subject)
        analysis |= numbers
        for row, found in zip(rows, of_images or [{}] * len(rows), strict=True):
            row |= found
    analysis |= {"pictures": [file for pictures in written.values() for file in pictures], "images": rows}
    (output / "analysis.json").write_text(json.dumps(analysis, indent=1) + "\n")
    write_page(output / "index.html", analysis, {"also": also or {}} | written)
    return analysis


def require_parts(model: keras.Model, parts: Sequence[str]) -> None:
    """Raise a ValueError unless these are parts of a report, and of this model's."""
    if isinstance(parts, str) or not parts or set(parts) - set(PARTS):
        raise ValueError(f"parts expected some of {tuple(PARTS)}, received {parts!r}.")
    if "attention" in parts:
        attention_layers(model)


def _read(interface: ModelInterface, files):
    shape = interface.image_shape
    if not files:
        raise ValueError("images expected one file or more, received none.")
    images = np.stack([load_image(file, shape) for file in files])
    return images if interface.takes_pixels else preprocess_input(images)


def _predictions(model, interface: ModelInterface, images, labels, top, batch_size):
    """The best classes of each image, [{"label": ..., "score": ...}], best first; none for a model without a head."""
    if interface.classes is None:
        return [[] for _ in images]
    labels = interface.labels if labels is None else list(labels)
    if len(labels) != interface.classes:
        raise ValueError(f"labels expected {interface.classes} names, one for each class, received {len(labels)}.")
    answers = named_outputs(model)
    batches = (images[i : i + batch_size] for i in range(0, len(images), batch_size))
    probabilities = (answers(batch, training=False)["probabilities"] for batch in batches)
    scores = np.concatenate([ops.convert_to_numpy(batch) for batch in probabilities])
    best = np.argsort(-scores, axis=1, kind="stable")[:, :top]
    return [
        [{"label": str(labels[i]), "score": float(row[i])} for i in chosen]
        for row, chosen in zip(scores, best, strict=True)
    ]


def _facts(model, interface: ModelInterface, images):
    """What stands at the top of the page."""
    facts = {"parameters": f"{model.count_params():,}", "input": " × ".join(str(side) for side in images.shape[1:])}
    if interface.classes is not None:
        facts["classes"] = str(interface.classes)
    facts["images"] = str(len(images))
    return facts


def _caption(name, predictions):
    if not predictions:
        return name
    return f"{predictions[0]['label']}, {predictions[0]['score']:.0%}"
