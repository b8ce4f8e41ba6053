"""Principal component analysis.

N examples, D features.
"""

import numpy as np


def principal_components(features: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Project centred features onto their first principal axes. The largest coefficient of each axis is positive.

    Args:
        features: (N, D).
        count: number of axes.

    Returns:
        The projections (N, count), and the share of the variance along each axis (count,). Missing axes are zeros.
    """
    centred = features.astype("float64") - features.mean(axis=0, dtype="float64")
    wide = centred.shape[0] < centred.shape[1]  # then the N x N matrix is smaller than the D x D matrix
    variances, axes = np.linalg.eigh(centred @ centred.T if wide else centred.T @ centred)  # ascending
    variances, axes = np.maximum(variances[::-1], 0), axes[:, ::-1][:, :count]
    if wide:
        axes = centred.T @ axes
        axes = axes / np.maximum(np.linalg.norm(axes, axis=0), 1e-30)
    axes = axes * np.sign(np.take_along_axis(axes, np.abs(axes).argmax(axis=0)[None], axis=0))
    missing = count - axes.shape[1]
    shares = variances[:count] / max(variances.sum(), 1e-30)
    return np.pad(centred @ axes, [(0, 0), (0, missing)]), np.pad(shares, (0, missing))
