"""A norm before the last dense layer of attention or of an MLP (sub-LN, arXiv 2210.06423)."""


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
    from keras_vit.layers.encoder import norm_class  # imports the layers that call this function

    norm = layer.make_part(norm_class(kind), epsilon, name="norm")
    norm.build((None, width))
    return norm
