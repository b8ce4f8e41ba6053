"""The kinds of norms, and a norm before the last dense layer of attention or of an MLP (sub-LN, arXiv 2210.06423)."""

from keras_vit.layers.rms_norm import RMSNorm


def norm_class(kind: str) -> type:
    """Return the class of a kind of norm, `layer` or `rms`."""
    from keras_vit.layers.encoder import LayerNorm  # imports the layers that call this function

    kinds = {"layer": LayerNorm, "rms": RMSNorm}
    if kind not in kinds:
        raise ValueError(f"norm expected one of {tuple(kinds)}, received {kind!r}.")
    return kinds[kind]


def add_inner_norm(layer, kind: str | None, epsilon: float, width: int):
    """Return a new inner layer `norm` of a layer, or None.

    Args:
        layer: the layer.
        kind: `layer` or `rms`; None for no norm.
        epsilon: epsilon of the norm.
        width: length of the normalised axis.
    """
    if kind is None:
        return None
    norm = layer.make_part(norm_class(kind), epsilon, name="norm")
    norm.build((None, width))
    return norm
