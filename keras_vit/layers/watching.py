"""Reading attention weights from layers while they compute."""

import contextlib


@contextlib.contextmanager
def watching(layers, change=None):
    """Yield a list of the attention weights that these layers compute inside the `with`, in order of the layers.

    Args:
        layers: self-attentions and attention poolings, in the order of the forward pass.
        change: a function (index of the layer, its weights) -> the weights to go on with; None leaves them alone.
    """
    seen = []

    def watch(weights):
        weights = weights if change is None else change(len(seen), weights)
        seen.append(weights)
        return weights

    for layer in layers:
        layer.watch = watch
    try:
        yield seen
    finally:
        for layer in layers:
            layer.watch = None
