"""What the tokens of a trained model attend to (section 4.5, appendix D.8).

L encoder blocks, B batch, h heads, N tokens, (down, across) patch grid.
"""

from dataclasses import dataclass

import numpy as np

from keras_vit.models.token_layout import TokenLayout


@dataclass(frozen=True)
class Attention:
    """The attention of one batch of images, as `capture` reads it.

    Args:
        weights: (L, B, h, N, N) float32; `weights[l, b, a, q]` is what token q attends to and sums to 1.
        probe: (B, h, N), what the probe of a `map` head attends to; None for the other heads.
        layout: the tokens N, with the grid of these images.
        pooling: `token`, `gap` or `map`: which queries the model's answer is read from.
        patch_size: pixels of the image (height, width) that a patch covers; an average under a stem.
    """

    weights: np.ndarray
    probe: np.ndarray | None
    layout: TokenLayout
    pooling: str
    patch_size: tuple[float, float]

    @property
    def grid(self) -> tuple[int, int]:
        """(height, width) in patches."""
        return self.layout.grid

    def on_grid(self, rows: np.ndarray) -> np.ndarray:
        """Lay attention to tokens out on the patch grid, prefix tokens dropped: (..., N) -> (..., down, across)."""
        return rows[..., self.layout.patches].reshape(*rows.shape[:-1], *self.grid)

    def read_out(self) -> np.ndarray:
        """What the model's answer is read from attends to, on the grid: (L, B, h, down, across); L = 1 for `map`."""
        if self.pooling == "map":
            return self.on_grid(self.probe[None])
        if self.pooling == "token":
            return self.on_grid(self.weights[..., self.layout.class_token, :])
        return self.on_grid(self.weights[..., self.layout.patches, :].mean(axis=-2))

    def rollout(self, residual: bool = True) -> np.ndarray:
        """How much of each patch arrives where the answer is read: (B, down, across). See `rollout`."""
        return self.on_grid(_flow(self.weights, self.read_from()[:, None, :], residual)[:, 0])

    def read_from(self) -> np.ndarray:
        """What the answer is read from, as shares of the last block's tokens: (B, N)."""
        _, images, _, _, tokens = self.weights.shape
        if self.pooling == "map":
            return self.probe.mean(axis=1)
        shares = np.zeros(tokens, "float32")
        if self.pooling == "token":
            shares[self.layout.class_token] = 1
        else:
            shares[self.layout.patches] = 1 / (tokens - self.layout.prefix_tokens)
        return np.broadcast_to(shares, (images, tokens))


def rollout(attentions, residual: bool = True) -> np.ndarray:
    """Attention multiplied through the blocks: R_l = A_l R_(l-1), R_0 = I (Abnar & Zuidema, arXiv 2005.00928; D.8).

    Args:
        attentions: (L, B, h, N, N), or a sequence of L arrays (B, h, N, N); heads are averaged.
        residual: mix each A with the identity half and half, for the blocks' skip connections. The ViT paper's
            text leaves this out, the method that it cites has it.

    Returns:
        (B, N, N): row q says how much of each input token is in output token q; rows sum to 1.

    Raises:
        ValueError: `attentions` is not square over the tokens.
    """
    attentions = np.asarray(attentions)
    if attentions.ndim != 5 or attentions.shape[-1] != attentions.shape[-2]:
        raise ValueError(
            f"attentions expected shape (blocks, batch, heads, tokens, tokens), received {attentions.shape}."
        )
    identity = np.eye(attentions.shape[-1], dtype=attentions.dtype)
    return _flow(attentions, np.broadcast_to(identity, (attentions.shape[1], *identity.shape)), residual)


def _flow(attentions, start, residual):
    """start (B, Q, N) multiplied by every block's attention, last block first: (B, Q, N)."""
    for heads in attentions[::-1]:
        step = start @ heads.mean(axis=1)
        start = (start + step) / 2 if residual else step
    return start
