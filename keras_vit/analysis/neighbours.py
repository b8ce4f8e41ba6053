"""Features of images, their nearest neighbours, and their projection onto a plane.

N images, H W C image, D features, Q queries.
"""

import keras
import numpy as np

from keras_vit.analysis.arrays import as_model_input, split_batches, to_float32
from keras_vit.analysis.principal_components import principal_components
from keras_vit.composed import flattened
from keras_vit.models.features import head_features

METHODS = ("tsne", "umap", "pca")


def features_of(model: keras.Model, images, batch_size: int = 32) -> np.ndarray:
    """Return the inputs of the classifier, or the outputs of a model without one, float32 (N, D).

    Token sequences and maps are flattened.

    Args:
        model: a model of this package.
        images: images in the model's input range.
        batch_size: images per forward pass.

    Raises:
        ValueError: the images do not have the model's input shape or range.
    """
    model = flattened(model)
    images = as_model_input(model, images)
    features = head_features(model)
    batches = [to_float32(features(batch, training=False)) for batch in split_batches(images, batch_size)]
    return np.concatenate(batches).reshape(len(images), -1)


def nearest(features: np.ndarray, queries: np.ndarray | None = None, k: int = 5) -> tuple[np.ndarray, np.ndarray]:
    """Return the nearest neighbours by cosine similarity.

    Args:
        features: (N, D), the candidates.
        queries: (Q, D). If None, the queries are `features`, and no query is its own neighbour.
        k: number of neighbours; at most the number of candidates is returned.

    Returns:
        Indices into `features` (Q, k), most similar first, and cosine similarities (Q, k).

    Raises:
        ValueError: features and queries are not matrices with the same number of columns, or `k` is not positive.
    """
    features = np.asarray(features, "float64")
    query_features = features if queries is None else np.asarray(queries, "float64")
    if features.ndim != 2 or query_features.ndim != 2 or features.shape[1] != query_features.shape[1]:
        raise ValueError(f"queries expected rows like features {features.shape}, received {query_features.shape}.")
    if not isinstance(k, int | np.integer) or k < 1:
        raise ValueError(f"k expected a positive int, received {k!r}.")
    similarity = _normalised(query_features) @ _normalised(features).T
    if queries is None:
        np.fill_diagonal(similarity, -np.inf)
    indices = np.argsort(-similarity, axis=1, kind="stable")[:, : min(k, len(features) - (queries is None))]
    return indices, np.take_along_axis(similarity, indices, axis=1)


def project(features: np.ndarray, method: str = "tsne", seed: int = 0) -> np.ndarray:
    """Project features onto a plane: (N, D) -> (N, 2).

    Args:
        features: (N, D).
        method: `tsne` (scikit-learn, cosine distance, perplexity 30 or N / 3), `umap` (umap-learn, cosine distance)
            or `pca` (two principal components).
        seed: random seed.

    Raises:
        ImportError: the package of the method is not installed.
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
    start = _tsne_start(features)
    return TSNE(perplexity=perplexity, metric="cosine", init=start, random_state=seed).fit_transform(features)


def _tsne_start(features):
    """Return two principal components in the scale of t-SNE, so that the number of threads does not matter."""
    plane, _ = principal_components(features, 2)
    return (1e-4 * plane / max(plane[:, 0].std(), 1e-12)).astype("float32")


def _normalised(features):
    return features / np.maximum(np.linalg.norm(features, axis=1, keepdims=True), 1e-12)
