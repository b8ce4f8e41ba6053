"""The parts of a report. Each part draws its pictures and returns its values.

B images, L encoder blocks, h heads, (down, across) patch grid.
"""

import keras
import numpy as np

from keras_vit.analysis.arrays import split_batches
from keras_vit.analysis.capturing import attends_by_shares, capture
from keras_vit.analysis.class_maps import grad_cam, gradient_attention
from keras_vit.analysis.distance import mean_distance
from keras_vit.analysis.layer_outputs import layer_outputs, patch_size_of
from keras_vit.analysis.neighbours import features_of, nearest, project
from keras_vit.analysis.plots.figure7 import plot_figure7
from keras_vit.analysis.plots.layer_outputs import plot_layer_outputs
from keras_vit.analysis.plots.names import shortened
from keras_vit.analysis.plots.similarity import plot_neighbours, plot_projection, plot_similarity
from keras_vit.analysis.plots.style import evenly_spaced
from keras_vit.analysis.report_inputs import PartResult, ReportInputs, rounded
from keras_vit.analysis.similarity import layer_similarity
from keras_vit.layers import EncoderBlock, RegressionHead

MAX_BLOCKS = 6  # in the picture of the blocks
MAX_LAYER_OUTPUTS = 3  # images whose layer outputs are drawn
MIN_SAMPLE = 5  # images needed for the similarity of layers and images
NEIGHBOURS = 6  # per image
MAX_QUERIES = 6  # images whose neighbours are drawn


def available_parts(model: keras.Model, sample_size: int) -> list[str]:
    """Return the names of the parts that a model has with a sample of this size."""
    has_head = any(layer.name == "head" and not isinstance(layer, RegressionHead) for layer in model.layers)
    enough = sample_size >= MIN_SAMPLE
    needs = {"attention": attends_by_shares(model), "class": has_head, "layers": enough, "neighbours": enough}
    return [name for name in PARTS if needs.get(name, True)]


def _attention(inputs: ReportInputs):
    """Draw the attention of the pooled query and the rollout."""
    pooled, rollouts, distances = [], [], []
    for batch in split_batches(inputs.images, inputs.batch_size):  # the weights of all images may not fit in memory
        attention = capture(inputs.model, batch, inputs.batch_size)
        pooled.append(attention.pooled_attention())
        rollouts.append(attention.rollout())
        distances.append(len(batch) * mean_distance(attention))
    pooled, rollout = np.concatenate(pooled, axis=1), np.concatenate(rollouts)
    by_head = pooled[-1] / pooled[-1].sum(axis=(-2, -1), keepdims=True)  # (B, h, down, across)
    last = by_head.mean(axis=1)
    rollout = rollout / rollout.sum(axis=(1, 2), keepdims=True)

    query = {"token": "class token", "gap": "mean token", "map": "probe"}[attention.pooling]
    layer = "pooling" if attention.pooling == "map" else "last block"
    title, patch_size = f"Attention of the {query}", attention.patch_size
    inputs.draw_maps("attention.png", np.stack([last, rollout], 1), [layer, "rollout"], title, patch_size)
    heads = [f"head {i}" for i in range(by_head.shape[1])]
    inputs.draw_maps("attention_heads.png", by_head, heads, f"{title} in the {layer}, per head", patch_size)
    captions = {
        "attention.png": f"Attention of the {query} in the {layer}, averaged over the heads, and attention rollout, "
        "which multiplies attention through all blocks with skip connections. Uniform attention is 1. A line encloses "
        "values above three quarters of the colour bar.",
        "attention_heads.png": f"Attention of the {query} in the {layer}, one map per head.",
    }
    if attention.pooling != "map":
        blocks = pooled.mean(axis=2)  # (L, B, down, across)
        indices = evenly_spaced(len(blocks), MAX_BLOCKS)
        maps, titles = np.moveaxis(blocks[indices], 0, 1), [f"block {i}" for i in indices]
        inputs.draw_maps("attention_blocks.png", maps, titles, f"{title}, per block", patch_size)
        captions["attention_blocks.png"] = f"Attention of the {query} per block, averaged over the heads."
    values = {
        "blocks": len(attention.weights),
        "heads": by_head.shape[1],
        "pooling": attention.pooling,
        "grid": list(attention.grid),
        "patch_size": list(attention.patch_size),
        "effective_patches": rounded(_effective_patches(pooled).mean(axis=1)),
        "attention_distance": rounded(np.sum(distances, axis=0) / len(inputs.images)),
    }
    per_image = [{"attention": rounded(a), "rollout": rounded(b)} for a, b in zip(last, rollout, strict=True)]
    return PartResult(values, captions, per_image)


def _class(inputs: ReportInputs):
    """Draw the class activation maps of the predicted classes."""
    titles = {"grad_cam": "Grad-CAM"}
    formulas = {"grad_cam": "the gradient of the class's logit times the last feature map (Grad-CAM)"}
    maps = {"grad_cam": grad_cam(inputs.model, inputs.images, batch_size=inputs.batch_size)}
    if any(isinstance(layer, EncoderBlock) for layer in inputs.model.layers):
        titles["gradient_attention"] = "attention\n× gradient"
        formulas["gradient_attention"] = "attention times its gradient, through all blocks"
        maps["gradient_attention"] = gradient_attention(inputs.model, inputs.images, batch_size=inputs.batch_size)
    captions = {}
    for name, values in maps.items():  # one picture each, because the grids differ in a hybrid
        if values[: inputs.max_drawn].max() > 0:
            title, patch_size = "Evidence for the predicted class", patch_size_of(inputs.model)
            inputs.draw_maps(f"{name}.png", values[:, None], [titles[name]], title, patch_size, unit="evidence")
            captions[f"{name}.png"] = f"Evidence for the predicted class: {formulas[name]}. The mean is 1."
    per_image = [{name: rounded(values[i]) for name, values in maps.items()} for i in range(len(inputs.images))]
    return PartResult({}, captions, per_image)


def _figure7(inputs: ReportInputs):
    results = plot_figure7(
        inputs.model, inputs.sample_images, inputs.output / "figure7.png", batch_size=inputs.batch_size
    )
    panels = ["the principal components of the first layer's filters"]
    if results["position_similarity"] is not None:
        panels.append("the cosine similarity between position embeddings")
    if results["attention_distance"] is not None:
        panels.append(f"the mean attention distance of every head, over {len(inputs.sample_images)} images")
    values = {
        name: value if isinstance(value, float) else rounded(value)
        for name, value in results.items()
        if value is not None
    }
    return PartResult({"figure7": values}, {"figure7.png": f"Figure 7 of the ViT paper: {'; '.join(panels)}."})


def _layer_outputs(inputs: ReportInputs):
    """Draw the layer outputs of the first images."""
    outputs = layer_outputs(inputs.model, inputs.images, inputs.batch_size)
    first = "its patches, its patch embeddings, and " if "embedding" in outputs.layers else ""
    caption = (
        f"The image, {first}the norms and the first three principal components of each layer's output, as colours. "
        "Colours are comparable between images, not between layers."
    )
    captions = {}
    for i in range(min(MAX_LAYER_OUTPUTS, inputs.max_drawn, len(inputs.images))):
        file, name = f"layer_outputs_{i}.png", shortened(inputs.captions[i], 60)
        plot_layer_outputs(outputs, inputs.output / file, index=i, name=name, value_range=inputs.value_range)
        captions[file] = caption
    values = {
        "layers": list(outputs.layers),
        "mean_length": rounded([norms.mean() for norms in outputs.norms()]),
        "explained": rounded(outputs.explained_variance()),
    }
    return PartResult({"layer_outputs": values}, captions)


def _layers(inputs: ReportInputs):
    """Draw the similarity of the layers."""
    similarity, names, _ = layer_similarity(inputs.model, inputs.sample_images, batch_size=inputs.batch_size)
    plot_similarity(similarity, names, names, inputs.output / "layers.png", names=("layer", "layer"))
    caption = f"Linear CKA between all layers, over {len(inputs.sample_images)} images. Few images increase it."
    return PartResult({"layers": {"names": list(names), "linear_cka": rounded(similarity)}}, {"layers.png": caption})


def _neighbours(inputs: ReportInputs):
    """Draw nearest neighbours and a projection of the images."""
    images, names = inputs.sample_images, inputs.drawable_sample_names
    features = features_of(inputs.model, images, inputs.batch_size)
    indices, similarity = nearest(features, k=NEIGHBOURS)
    queries = slice(min(inputs.max_drawn, MAX_QUERIES))
    plot_neighbours(
        images, indices[queries], inputs.output / "neighbours.png", similarities=similarity, names=names,
        value_range=inputs.value_range,
    )  # fmt: skip
    try:
        plane, method = project(features), "t-SNE"
    except ImportError:  # scikit-learn is optional
        plane, method = project(features, "pca"), "principal components"
    classes = names if names is not None and 2 * len(set(names)) <= len(names) else None
    plot_projection(
        plane, images, inputs.output / "plane.png", labels=classes, method=method, value_range=inputs.value_range
    )
    captions = {
        "neighbours.png": f"Nearest neighbours among {len(features)} images, by cosine similarity of the features.",
        "plane.png": f"{len(features)} images, placed by {method} of their features.",
    }
    values = {"images": inputs.sample_names, "nearest": indices.tolist(), "similarity": rounded(similarity)}
    return PartResult({"neighbours": values}, captions)


PARTS = {
    "attention": _attention,
    "class": _class,
    "figure7": _figure7,
    "layer_outputs": _layer_outputs,
    "layers": _layers,
    "neighbours": _neighbours,
}


def _effective_patches(maps):
    """Return exp(entropy) of maps (..., down, across), which need not sum to 1."""
    share = maps / maps.sum(axis=(-2, -1), keepdims=True)
    return np.exp(-(share * np.log(np.maximum(share, 1e-30))).sum(axis=(-2, -1)))
