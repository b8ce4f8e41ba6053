"""Images that a model finds alike: features, nearest neighbours, and a plane to lay them out on.

N images, D features.
"""

import keras
import numpy as np
from keras import ops

from keras_vit.analysis.capturing import as_input
from keras_vit.analysis.journey import principal_components
from keras_vit.composed import flattened
from keras_vit.models.features import head_features

METHODS = ("tsne", "umap", "pca")


def features_of(model: keras.Model, images, batch_size: int = 32) -> np.ndarray:
    """What the classifier is given, or the output of a model without one: (N, H, W, C) -> (N, D) float32.

    Outputs that are token sequences or maps are laid flat.

    Args:
        model: a model of this package.
        images: as the model takes them.
        batch_size: images that go through the model at once.

    Raises:
        ValueError: the images are not of the model's input shape or range.
    """
    model = flattened(model)
    images = as_input(model, images)
    frozen = head_features(model)
    parts = (frozen(images[i : i + batch_size], training=False) for i in range(0, len(images), batch_size))
    return np.concatenate([ops.convert_to_numpy(ops.cast(x, "float32")).reshape(len(x), -1) for x in parts])


def nearest(features: np.ndarray, queries: np.ndarray | None = None, k: int = 5) -> tuple[np.ndarray, np.ndarray]:
    """The most similar rows by cosine similarity.

    Args:
        features: (N, D), to be searched.
        queries: (Q, D); where None every row of `features` asks for its neighbours, itself left out.
        k: how many; as many as there are, if there are fewer.

    Returns:
        Indices (Q, k) into `features`, the most similar first, and their similarities (Q, k) in [-1, 1].

    Raises:
        ValueError: features or queries are no rows of one length, or `k` is not positive.
    """
    features = np.asarray(features, "float64")
    asked = features if queries is None else np.asarray(queries, "float64")
    if features.ndim != 2 or asked.ndim != 2 or features.shape[1] != asked.shape[1]:
        raise ValueError(f"queries expected rows like features {features.shape}, received shape {asked.shape}.")
    if not isinstance(k, int | np.integer) or k < 1:
        raise ValueError(f"k expected a positive int, received {k!r}.")
    similarity = _unit(asked) @ _unit(features).T
    if queries is None:
        np.fill_diagonal(similarity, -np.inf)
    found = np.argsort(-similarity, axis=1, kind="stable")[:, : min(k, len(features) - (queries is None))]
    return found, np.take_along_axis(similarity, found, axis=1)


def project(features: np.ndarray, method: str = "tsne", seed: int = 0) -> np.ndarray:
    """Lay features out on a plane, alike near alike: (N, D) -> (N, 2).

    Args:
        features: (N, D).
        method: `tsne` (scikit-learn's, cosine distance, perplexity 30 or a third of N), `umap` (umap-learn's, cosine
            distance) or `pca` (the first two principal components).
        seed: of the layout.

    Raises:
        ImportError: what the method needs is not installed.
        ValueError: the method is unknown, or there are fewer than five rows.
    """
    features = np.asarray(features, "float32")
    if features.ndim != 2 or len(features) < 5:
        raise ValueError(f"features expected five rows (N, D) or more, received shape {features.shape}.")
    if method not in METHODS:
        raise ValueError(f"method expected one of {METHODS}, received {method!r}.")
    if method == "pca":
        return principal_components(features, 2)[0]
    if method == "umap":
        try:
            import umap
        except ImportError:
            raise ImportError("method='umap' needs umap-learn, found none: pip install umap-learn.") from None
        neighbours = min(15, len(features) - 1)
        return umap.UMAP(n_neighbors=neighbours, metric="cosine", random_state=seed).fit_transform(features)
    try:
        from sklearn.manifold import TSNE
    except ImportError:
        raise ImportError("method='tsne' needs scikit-learn, found none: pip install scikit-learn.") from None
    perplexity = min(30.0, (len(features) - 1) / 3)
    start = _start(features)
    return TSNE(perplexity=perplexity, metric="cosine", init=start, random_state=seed).fit_transform(features)


def _start(features):
    """Two principal components, as small as t-SNE wants its start: the same layout whatever the machine's threads."""
    plane, _ = principal_components(features, 2)
    return (1e-4 * plane / max(plane[:, 0].std(), 1e-12)).astype("float32")


def _unit(rows):
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
