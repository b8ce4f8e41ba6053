"""Encoder blocks of later papers, which differ from `EncoderBlock` in the order of norms, branches and LayerScale.

B batch, N tokens, D width.
"""

from typing import Any

import keras

from keras_vit.layers.encoder import EncoderBlock


class AttentionScaleBlock(EncoderBlock):
    """An `EncoderBlock` with LayerScale at the end of the attention's branch alone (Sapiens2, arXiv 2604.21681).

    Args, input and output: as `EncoderBlock`.
    """

    without_parts = ("mlp_scale",)


class _OtherOrder(EncoderBlock):
    """Base of the blocks with another order, which compute all tokens at every call."""

    supports_class_token_only = False

    def _attend(self, tokens, patches, training):
        """Return the output of attention, after its dropout: (B, N, D) -> (B, N, D)."""
        options = {"patches": patches} if self.attention_options else {}
        return self.dropout(self.attention(tokens, **options, training=training), training=training)


class PostNormBlock(_OtherOrder):
    """x += norm(attention(x)); x += norm(mlp(x)), as in Swin V2 (arXiv 2111.09883) and EVA-CLIP's E/14.

    Args, input and output: as `EncoderBlock`, without `layer_scale`.
    """

    def call(self, tokens, patches=None, lines=None, class_token_only=False, training=False):
        branch = self.attention_norm(self._attend(tokens, patches, training))
        tokens = tokens + self.drop_path(branch, lines=lines, training=training)
        branch = self.mlp_norm(self.mlp(tokens, patches, training=training))
        return tokens + self.drop_path(branch, lines=lines, training=training)

    def attention_weights(self, tokens: Any) -> Any:
        """Return the attention weights that the block computes on its input: (B, N, D) -> (B, h, N, N)."""
        return self.attention.attention_weights(tokens)


class ParallelBlock(_OtherOrder):
    """x += attention(y) + mlp(y) with y = norm(x), as in ViT-22B (arXiv 2302.05442).

    Args, input and output: as `EncoderBlock`. The one norm and the one LayerScale have the attention's names.
    """

    without_parts = ("mlp_scale",)

    def make_part(self, kind: type, *args: Any, name: str, **options: Any) -> keras.layers.Layer:
        """Create an inner layer, as every layer does. In place of the MLP's norm it has no weights."""
        if name == "mlp_norm":
            return keras.layers.Identity(name=name)
        return super().make_part(kind, *args, name=name, **options)

    def call(self, tokens, patches=None, lines=None, class_token_only=False, training=False):
        normed = self.attention_norm(tokens)
        branch = self._attend(normed, patches, training) + self.mlp(normed, patches, training=training)
        branch = branch if self.attention_scale is None else self.attention_scale(branch)
        return tokens + self.drop_path(branch, lines=lines, training=training)


BLOCKS = {
    "pre_norm": EncoderBlock,
    "post_norm": PostNormBlock,
    "parallel": ParallelBlock,
    "attention_scale": AttentionScaleBlock,
}
