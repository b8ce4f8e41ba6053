"""One call that looks at a model's attention: pictures and a JSON of the numbers."""

import json
import os
from collections.abc import Sequence
from pathlib import Path

import keras
import numpy as np
from keras import ops

from keras_vit.analysis.attention import Attention, capture
from keras_vit.analysis.plots import plot_attention
from keras_vit.models.interface import Interface, describe, named_outputs
from keras_vit.preprocess import load_image, preprocess_input

MOST_BLOCKS = 6  # rows of the picture of the blocks


def analyze(
    model: keras.Model,
    images,
    output: str | os.PathLike,
    labels: Sequence[str] | None = None,
    *,
    names: Sequence[str] | None = None,
    top: int = 5,
    drawn: int = 8,
    batch_size: int = 32,
) -> dict:
    """Look at what a model attends to in some images, and write it down.

    Writes `attention.png` (last block and rollout), `attention_heads.png` (the last block's heads),
    `attention_blocks.png` (block by block, not for a `map` head, whose probe looks once) and `analysis.json`.

    Args:
        model: a model with encoder blocks.
        images: (B, H, W, C) as the model takes them, or the paths of image files, which are read and preprocessed.
        output: directory, made where it is missing.
        labels: names of the classes; those kept in the model's head where None.
        names: of the images; file names or numbers where None.
        top: how many classes to write down for an image.
        drawn: how many images the pictures show; the numbers are of all.
        batch_size: images that go through the model at once.

    Returns:
        What `analysis.json` holds. Attention on the grid sums to 1; `effective_patches` is exp(entropy) of it, the
        number of patches that it would take if it were spread evenly, for each block and head, the mean over images.

    Raises:
        ValueError: the model has no encoder blocks, or images, labels or names do not fit it.
        FileNotFoundError: an image is not there.
    """
    interface = describe(model)
    if not hasattr(images, "shape"):
        images = [images] if isinstance(images, str | os.PathLike) else images
        names = [Path(image).name for image in images] if names is None else names
        images = _read(interface, images)
    names = [str(i) for i in range(len(images))] if names is None else list(names)
    if len(names) != len(images):
        raise ValueError(f"names expected {len(images)}, one an image, received {len(names)}.")
    attention = capture(model, images, batch_size)
    predictions = _predictions(model, interface, images, labels, top, batch_size)

    read_out, rollout = attention.read_out(), attention.rollout()
    by_head = read_out[-1] / read_out[-1].sum(axis=(-2, -1), keepdims=True)  # (B, h, down, across)
    last = by_head.mean(axis=1)
    rollout = rollout / rollout.sum(axis=(1, 2), keepdims=True)

    output = Path(output)
    output.mkdir(parents=True, exist_ok=True)
    captions = [_caption(*pair) for pair in zip(names, predictions, strict=True)][:drawn]
    pictures = _pictures(attention, by_head, last, rollout)
    for file, (title, titles, maps) in pictures.items():
        plot_attention(
            images[:drawn], maps[:drawn], output / file, titles=titles, names=captions, title=title,
            patch_size=attention.patch_size, value_range=interface.input_range,
        )  # fmt: skip
    analysis = {
        "model": model.name,
        "blocks": len(attention.weights),
        "heads": attention.weights.shape[2],
        "pooling": attention.pooling,
        "grid": list(attention.grid),
        "patch_size": list(attention.patch_size),
        "effective_patches": _rounded(_effective_patches(read_out).mean(axis=1)),
        "pictures": list(pictures),
        "images": [
            {"name": name, "predictions": best, "attention": _rounded(seen), "rollout": _rounded(rolled)}
            for name, best, seen, rolled in zip(names, predictions, last, rollout, strict=True)
        ],
    }
    (output / "analysis.json").write_text(json.dumps(analysis, indent=1) + "\n")
    return analysis


def _read(interface: Interface, files):
    if interface.image_size is None:
        raise ValueError(f"model expected a known image size, received input shape {interface.input_shape}.")
    if not files:
        raise ValueError("images expected one file or more, received none.")
    images = np.stack([load_image(file, (*interface.image_size, interface.input_shape[2])) for file in files])
    return images if interface.takes_pixels else preprocess_input(images)


def _predictions(model, interface: Interface, images, labels, top, batch_size):
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


def _pictures(attention: Attention, by_head, last, rollout):
    """File name -> title of the picture, titles of its maps, and the maps (B, K, down, across)."""
    reader = {"token": "class token", "gap": "average token", "map": "probe"}[attention.pooling]
    place = "in the pooling" if attention.pooling == "map" else "in the last block"
    title = f"What the {reader} attends to"
    heads = [f"head {i}" for i in range(by_head.shape[1])]
    pictures = {
        "attention.png": (title, [place.removeprefix("in the "), "rollout"], np.stack([last, rollout], axis=1)),
        "attention_heads.png": (f"{title} {place}, head by head", heads, by_head),
    }
    if attention.pooling != "map":
        blocks = attention.read_out().mean(axis=2)  # (L, B, down, across)
        chosen = np.unique(np.linspace(0, len(blocks) - 1, min(MOST_BLOCKS, len(blocks))).round().astype(int))
        kinds = [f"block {i}" for i in chosen]
        pictures["attention_blocks.png"] = (f"{title}, block by block", kinds, np.moveaxis(blocks[chosen], 0, 1))
    return pictures


def _effective_patches(maps):
    """exp(entropy) of (..., down, across) maps, which need not sum to 1."""
    share = maps / maps.sum(axis=(-2, -1), keepdims=True)
    return np.exp(-(share * np.log(np.maximum(share, 1e-30))).sum(axis=(-2, -1)))


def _rounded(values):
    return np.round(values.astype("float64"), 6).tolist()


def _caption(name, predictions):
    if not predictions:
        return name
    return f"{predictions[0]['label']}, {predictions[0]['score']:.0%}"
