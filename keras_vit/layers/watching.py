"""Reading attention weights from layers while they compute."""

import contextlib
import contextvars

_watches = contextvars.ContextVar("watches", default={})  # noqa: B039 - nobody changes it


@contextlib.contextmanager
def watching(layers, change=None):
    """Yield a list of the attention weights that these layers compute inside the `with`, in order of the layers.

    In this thread alone, and of calls that compute: what was traced before, such as `predict`'s graph, goes on without,
    and what is traced inside the `with` keeps it. A `with` inside stands in the place of the outer one for its layers.

    Args:
        layers: self-attentions and attention poolings, in the order of the forward pass.
        change: a function (index of the layer, its weights) -> the weights to go on with; None leaves them alone.
    """
    seen = []

    def watch(weights):
        weights = weights if change is None else change(len(seen), weights)
        seen.append(weights)
        return weights

    token = _watches.set({**_watches.get(), **{id(layer): watch for layer in layers}})
    try:
        yield seen
    finally:
        _watches.reset(token)


def watch_of(layer):
    """The function that a layer's weights pass on their way to the values, or None."""
    return _watches.get().get(id(layer))
