"""The parts of a report: each looks at one thing, draws it and returns its numbers.

B images, L encoder blocks, h heads, (down, across) patch grid.
"""

import keras
import numpy as np

from keras_vit.analysis.capturing import capture
from keras_vit.analysis.class_maps import grad_cam, gradient_attention
from keras_vit.analysis.distance import mean_distance
from keras_vit.analysis.journey import journey, patch_size_of
from keras_vit.analysis.neighbours import features_of, nearest, project
from keras_vit.analysis.plots.figure7 import plot_figure7
from keras_vit.analysis.plots.journey import plot_journey
from keras_vit.analysis.plots.similarity import plot_neighbours, plot_projection, plot_similarity
from keras_vit.analysis.plots.style import shortened
from keras_vit.analysis.similarity import layer_similarity
from keras_vit.analysis.subject import Subject, rounded
from keras_vit.layers import EncoderBlock

MOST_BLOCKS = 6  # rows of the picture of the blocks
JOURNEYS = 3  # images whose way is drawn
CROWD = 5  # images from which on it makes sense to ask which are alike
NEIGHBOURS = 6
ASKED = 6  # images whose neighbours are drawn


def parts_of(model: keras.Model, crowd: int) -> list[str]:
    """Names of the parts that a model has, given so many images for what needs many."""
    blocks = any(isinstance(layer, EncoderBlock) for layer in model.layers)
    head = any(layer.name == "head" for layer in model.layers)
    alike = crowd >= CROWD
    has = {"attention": blocks, "class": head, "figure7": True, "journey": True, "layers": alike, "neighbours": alike}
    return [name for name in PARTS if has[name]]


def _attention(subject: Subject):
    """Where the answer is read from: what it attends to, and how far every head looks."""
    reads, rolls, distances = [], [], []
    for start in range(0, len(subject.images), subject.batch_size):  # all the weights at once may fill the memory
        part = subject.images[start : start + subject.batch_size]
        seen = capture(subject.model, part, subject.batch_size)
        reads.append(seen.read_out())
        rolls.append(seen.rollout())
        distances.append(len(part) * mean_distance(seen))
    read_out, rollout = np.concatenate(reads, axis=1), np.concatenate(rolls)
    by_head = read_out[-1] / read_out[-1].sum(axis=(-2, -1), keepdims=True)  # (B, h, down, across)
    last = by_head.mean(axis=1)
    rollout = rollout / rollout.sum(axis=(1, 2), keepdims=True)

    reader = {"token": "class token", "gap": "average token", "map": "probe"}[seen.pooling]
    place = "in the pooling" if seen.pooling == "map" else "in the last block"
    title, heads = f"What the {reader} attends to", [f"head {i}" for i in range(by_head.shape[1])]
    kinds = [place.removeprefix("in the "), "rollout"]
    subject.attention_picture("attention.png", np.stack([last, rollout], 1), kinds, title, seen.patch_size)
    subject.attention_picture(
        "attention_heads.png", by_head, heads, f"{title} {place}, head by head", seen.patch_size
    )  # fmt: skip
    captions = {
        "attention.png": f"What the {reader} attends to {place}, the mean of the heads; and attention rollout, which "
        "multiplies attention through all blocks, skip connections counted half. 1 is what every patch gets when "
        "attention is spread evenly.",
        "attention_heads.png": f"The same {place}, one head at a time.",
    }
    if seen.pooling != "map":
        blocks = read_out.mean(axis=2)  # (L, B, down, across)
        chosen = np.unique(np.linspace(0, len(blocks) - 1, min(MOST_BLOCKS, len(blocks))).round().astype(int))
        maps, kinds = np.moveaxis(blocks[chosen], 0, 1), [f"block {i}" for i in chosen]
        subject.attention_picture("attention_blocks.png", maps, kinds, f"{title}, block by block", seen.patch_size)
        captions["attention_blocks.png"] = "Block by block, the mean of the heads."
    numbers = {
        "blocks": len(seen.weights),
        "heads": by_head.shape[1],
        "pooling": seen.pooling,
        "grid": list(seen.grid),
        "patch_size": list(seen.patch_size),
        "effective_patches": rounded(_effective_patches(read_out).mean(axis=1)),
        "attention_distance": rounded(np.sum(distances, axis=0) / len(subject.images)),
    }
    of_images = [{"attention": rounded(a), "rollout": rounded(b)} for a, b in zip(last, rollout, strict=True)]
    return numbers, captions, of_images


def _class(subject: Subject):
    """What speaks for the best class of each image."""
    said = {"grad_cam": "the gradient of the class's logit times the last feature map (Grad-CAM)"}
    maps = {"grad_cam": grad_cam(subject.model, subject.images, batch_size=subject.batch_size)}
    if any(isinstance(layer, EncoderBlock) for layer in subject.model.layers):
        said["gradient_attention"] = "attention times its gradient, through all blocks"
        maps["gradient_attention"] = gradient_attention(subject.model, subject.images, batch_size=subject.batch_size)
    captions = {}
    for name, of_images in maps.items():  # apart, for a hybrid's feature map may have another grid than its tokens
        if of_images[: subject.drawn].max() > 0:
            kind = {"grad_cam": "Grad-CAM", "gradient_attention": "attention\n× gradient"}[name]
            title = "What speaks for the class that the model names"
            size = patch_size_of(subject.model)
            subject.attention_picture(f"{name}.png", of_images[:, None], [kind], title, size, unit="evidence")
            captions[f"{name}.png"] = f"What speaks for the class that the model names: {said[name]}. 1 is the mean."
    found = [{name: rounded(values[i]) for name, values in maps.items()} for i in range(len(subject.images))]
    return {}, captions, found


def _figure7(subject: Subject):
    """The paper's figure 7."""
    found = plot_figure7(subject.model, subject.crowd, subject.output / "figure7.png", batch_size=subject.batch_size)
    said = ["the principal components of the filters that see the pixels"]
    if found["position_similarity"] is not None:
        said.append("the cosine similarity of each patch's position embedding with the others'")
    if found["attention_distance"] is not None:
        said.append(f"the mean attention distance of every head, over {len(subject.crowd)} images")
    numbers = {name: value if isinstance(value, float) else rounded(value) for name, value in found.items()
               if value is not None}  # fmt: skip
    return {"figure7": numbers}, {"figure7.png": f"As figure 7 of the ViT paper: {'; '.join(said)}."}, None


def _journey(subject: Subject):
    """How the first images travel."""
    way = journey(subject.model, subject.images, subject.batch_size)
    captions = {}
    for i in range(min(JOURNEYS, subject.drawn, len(subject.images))):
        file = f"journey_{i}.png"
        plot_journey(
            way,
            subject.output / file,
            index=i,
            name=shortened(subject.captions[i], 60),
            value_range=subject.value_range,
        )
        shown = "The image, its patches, what the embedding makes of them, and layer by layer the lengths of the tokens"
        captions[file] = (
            f"{shown if 'embedding' in way.stages else 'The image, and stage by stage the lengths of its features'} "
            "and their first three principal axes as colours (one colour means one thing in all images of a layer)."
        )
    explained = rounded(way.explained())
    norms = rounded([norm.mean() for norm in way.norms()])
    return {"journey": {"layers": list(way.stages), "mean_length": norms, "explained": explained}}, captions, None


def _layers(subject: Subject):
    """How alike the layers are."""
    found, names, _ = layer_similarity(subject.model, subject.crowd, batch_size=subject.batch_size)
    plot_similarity(found, names, names, subject.output / "layers.png", names=("layer", "layer"))
    said = f"Linear CKA of every layer with every other, over {len(subject.crowd)} images; with few, all look alike."
    return {"layers": {"names": list(names), "linear_cka": rounded(found)}}, {"layers.png": said}, None


def _neighbours(subject: Subject):
    """Which images are alike."""
    features = features_of(subject.model, subject.crowd, subject.batch_size)
    found, similarity = nearest(features, k=NEIGHBOURS)
    shown = min(subject.drawn, ASKED, len(features))
    plot_neighbours(
        subject.crowd, found[:shown], subject.output / "neighbours.png", similarities=similarity,
        names=subject.crowd_names, value_range=subject.value_range,
    )  # fmt: skip
    captions = {"neighbours.png": f"The nearest of {len(features)} images by cosine similarity of the features."}
    try:
        plane, method = project(features), "t-SNE"
    except ImportError:  # scikit-learn is not among this package's own needs
        plane, method = project(features, "pca"), "principal components"
    names = subject.crowd_names
    classes = names if names is not None and 2 * len(set(names)) <= len(names) else None
    plot_projection(
        plane, subject.crowd, subject.output / "plane.png", labels=classes, method=method,
        value_range=subject.value_range,
    )  # fmt: skip
    captions["plane.png"] = f"The same {len(features)} images, laid out by {method} of their features."
    numbers = {"images": subject.crowd_names, "nearest": found.tolist(), "similarity": rounded(similarity)}
    return {"neighbours": numbers}, captions, None


PARTS = {
    "attention": _attention,
    "class": _class,
    "figure7": _figure7,
    "journey": _journey,
    "layers": _layers,
    "neighbours": _neighbours,
}


def _effective_patches(maps):
    """exp(entropy) of (..., down, across) maps, which need not sum to 1."""
    share = maps / maps.sum(axis=(-2, -1), keepdims=True)
    return np.exp(-(share * np.log(np.maximum(share, 1e-30))).sum(axis=(-2, -1)))
