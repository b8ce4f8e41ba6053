"""Attention weights and attention rollout (section 4.5 and appendix D.8 of the ViT paper).

L encoder blocks, B batch, h heads, Q queries, N tokens, (down, across) patch grid.
"""

from dataclasses import dataclass

import numpy as np

from keras_vit.models.token_layout import TokenLayout


@dataclass(frozen=True)
class Attention:
    """The attention weights of a model for a batch of images, as `capture` returns them.

    Args:
        weights: (L, B, h, N, N) float32; `weights[l, b, a, q]` is the attention of query q and sums to 1.
        probe: attention of the probe of a `map` head, (B, h, N); None for other heads.
        layout: the tokens N, with the patch grid of these images.
        pooling: `token`, `gap` or `map`.
        patch_size: (height, width) of a patch in pixels of the image. With a stem, an average.
        differential: whether the weights are of differential attention. They can then be negative, and those of a query
            sum to 1 - lambda.
        windows: whether the patches of some blocks attend within windows. Their weights for other windows are 0, and a
            row sums to less than 1 where padding has a share.
    """

    weights: np.ndarray
    probe: np.ndarray | None
    layout: TokenLayout
    pooling: str
    patch_size: tuple[float, float]
    differential: bool = False
    windows: bool = False

    def require_shares(self, name: str) -> None:
        """Raise a ValueError, naming a function, if the weights are no shares of 1."""
        if self.differential:
            raise ValueError(
                f"{name} expected attention weights that are positive and sum to 1, received those of differential "
                "attention: use attention_maps or gradient_attention."
            )

    @property
    def grid(self) -> tuple[int, int]:
        """(height, width) in patches."""
        return self.layout.grid

    def on_grid(self, values: np.ndarray) -> np.ndarray:
        """Drop the prefix tokens and reshape the patches to their grid: (..., N) -> (..., down, across)."""
        return values[..., self.layout.patches].reshape(*values.shape[:-1], *self.grid)

    def pooled_attention(self) -> np.ndarray:
        """Return the attention to each patch from the query that the model pools: (L, B, h, down, across).

        The query is the class token, the mean of the patches for `gap`, or the probe for `map`, with L = 1.
        """
        if self.pooling == "map":
            return self.on_grid(self.probe[None])
        if self.pooling == "token":
            return self.on_grid(self.weights[..., self.layout.class_token, :])
        return self.on_grid(self.weights[..., self.layout.patches, :].mean(axis=-2))

    def rollout(self, residual: bool = True) -> np.ndarray:
        """Return the rollout from the pooled output to each patch: (B, down, across). See the function `rollout`."""
        self.require_shares("rollout")
        if self.windows:
            raise ValueError(
                "rollout expected attention from every patch to every patch, received blocks with windows: use "
                "attention_maps or gradient_attention."
            )
        return self.on_grid(_multiply_through(self.weights, self.pooling_weights()[:, None, :], residual)[:, 0])

    def pooling_weights(self) -> np.ndarray:
        """Return the weight of each token of the last block in the pooled output: (B, N)."""
        _, images, _, _, tokens = self.weights.shape
        if self.pooling == "map":
            return self.probe.mean(axis=1)
        weights = np.zeros(tokens, "float32")
        if self.pooling == "token":
            weights[self.layout.class_token] = 1
        else:
            weights[self.layout.patches] = 1 / (tokens - self.layout.prefix_tokens)
        return np.broadcast_to(weights, (images, tokens))


def rollout(attentions, residual: bool = True) -> np.ndarray:
    """Multiply attention through the blocks: R_l = A_l R_(l-1), R_0 = I (Abnar & Zuidema, arXiv 2005.00928).

    Args:
        attentions: (L, B, h, N, N), or a sequence of L arrays of each block. Heads are averaged.
        residual: average each A with the identity, which stands for the skip connection. The method's paper does so;
            appendix D.8 of the ViT paper does not mention it.

    Returns:
        (B, N, N); row q is the share of each input token in output token q, and sums to 1.

    Raises:
        ValueError: `attentions` has another number of axes or is not square over the tokens.
    """
    attentions = np.asarray(attentions)
    if attentions.ndim != 5 or attentions.shape[-1] != attentions.shape[-2]:
        raise ValueError(
            f"attentions expected shape (blocks, batch, heads, tokens, tokens), received {attentions.shape}."
        )
    identity = np.eye(attentions.shape[-1], dtype=attentions.dtype)
    return _multiply_through(attentions, np.broadcast_to(identity, (attentions.shape[1], *identity.shape)), residual)


def _multiply_through(attentions, start, residual):
    """Multiply `start` (B, Q, N) by the attention of every block, from the last to the first."""
    for heads in attentions[::-1]:
        attended = start @ heads.mean(axis=1)
        start = (start + attended) / 2 if residual else attended
    return start
