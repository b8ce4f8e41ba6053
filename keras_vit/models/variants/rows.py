"""The dataclasses of the rows."""

import math
from dataclasses import dataclass

from keras_vit.models.variants.parts import ConvStem, ResNetStem, Rope


@dataclass(frozen=True)
class ParameterCounts:
    """Parameter counts of the official code at 224 x 224 pixels, with a class token if the model can have one.

    The moving averages of batch norms are not counted.
    """

    headless: int
    classes_1000: int
    classes_21843: int
    classes_21843_representation: int | None = None  # with a representation layer as wide as the model


@dataclass(frozen=True)
class Variant:
    """One Vision Transformer.

    Args:
        name: name of the builder and of the Keras model.
        width: D, the size of a token.
        depth: number of encoder blocks.
        mlp_dim: width between the MLP's two dense layers.
        num_heads: number of attention heads; must divide the width.
        patch_size: side of a patch in pixels (in a hybrid, in cells of the stem's map), one int or (height, width).
        stem: the ResNet or the convolutions in front of the patches; None for a plain ViT.
        positions: kind of the position embedding. `learned` (or `1d`, the paper's): one embedding per place in the
            sequence. `2d`: an embedding of the column, concatenated with one of the row. `factorized`: the sum of an
            embedding of the column and one of the row (NaViT). `relative`: relative positions in the attention of every
            block. `none`: no positions (appendix D.4). `sincos2d`: fixed sines and cosines (arXiv 2205.01580).
            `sincos2d_mae`: with the wavelengths of masked autoencoders (arXiv 2111.06377).
        positions_at: where positions are added (table 8). `stem`: once, before the first block. `layers`: before every
            block, each time with other embeddings. `shared`: before every block, with the same embeddings.
        mlp_kernel_size: kernel size in patches of the depth-wise convolution between the MLP's dense layers (LocalViT,
            arXiv 2104.05707), odd; 0 for no convolution, as in the paper.
        axial: whether a block attends along the rows of the grid and then along its columns (appendix D.6), instead of
            to all patches. Axial models have no class token.
        layer_scale: initial value of the learned factors at the end of both branches of a block (LayerScale, arXiv
            2103.17239); None for no factors.
        registers: number of register tokens between the class token and the patches (arXiv 2309.16588).
        prefix_positions: whether class token and registers have a learned position, as the patches do.
        pre_norm: whether the tokens are normalised before the first block, as in CLIP.
        patch_bias: whether the patch embedding has a bias; CLIP's has none.
        gated_mlp: whether the MLPs have a gate (GLU variants, arXiv 2002.05202), as SwiGLU does in DINOv2's g/14.
        mlp_inner_norm: whether the MLPs have a norm before their last dense layer (BEiT-3, EVA-02).
        attention_inner_norm: whether the attentions have a norm before their last dense layer (BEiT-3).
        dense_bias: whether the MLPs' dense layers and the attentions' last ones have a bias; AIMv2's have none.
        norm: kind of all norms: `layer`, or `rms` for RMSNorm (arXiv 1910.07467), as in AIMv2.
        patch_norm: whether the patch embeddings are normalised before positions are added, as in AIMv2.
        final_norm: whether the tokens or the pooled vector are normalised after the last block; InternViT's are not.
        distillation_token: whether a distillation token follows the class token (DeiT, arXiv 2012.12877). The
            classifier then reads both tokens.
        pool_prefix: whether attention pooling pools the tokens in front of the patches, too.
        activation: activation of the MLPs if neither the builder's argument nor the weights state one.
        attention_out_bias: whether the attentions' last dense layers have a bias, if `dense_bias` is True.
        block: kind of the blocks. `pre_norm`: as in the paper. `post_norm`: the norms follow attention and MLP (Swin
            V2, EVA-CLIP's E/14). `parallel`: attention and MLP beside each other after one norm (ViT-22B, arXiv
            2302.05442). `attention_scale`: as `pre_norm`, with LayerScale after attention alone (Sapiens2).
        qk_norm: whether the query and the key of each head are normalised (arXiv 2302.05442).
        heads_per_key: number of query heads that share a key and a value (grouped-query attention, arXiv 2305.13245).
        full_attention_blocks: number of first blocks, and of last ones, whose heads all have a key of their own.
        differential_attention: whether attention is the difference of two attentions (arXiv 2410.05258).
        qkv_bias: which of query, key and value have a bias: `qkv`, `qv` (BEiT, EVA, DINOv3) or `none`.
        rope: rotary positions of all attentions; None for none.
        relative_bias: learned bias of the attention logits for each offset between two patches: `table` (BEiT), `mlp`
            (Swin V2), `shared_mlp` (one for all blocks), `decomposed` (SAM: the query times an embedding of the row's
            offset and one of the column's), or None. A table is resized with the image size, and has entries for a
            class token.
        relative_bias_dim: width between the dense layers of the `mlp`.
        layer_norm_epsilon: epsilon of the layer norms if neither the builder's argument nor the weights state one.
        window: side in patches of the windows within which a patch attends (ViTDet); 0 for attention to all patches.
        global_blocks: numbers of the blocks, from 0, that attend to all patches beside a `window`.
        neck: number of channels of two convolutions and norms after the last block (ViTDet, SAM); 0 for the second norm
            alone, None for none.
        pooling_heads: number of heads of attention pooling; 0 for that of the blocks.
        pooling_mlp_dim: width between the dense layers of attention pooling; 0 for that of the blocks.
        class_token: whether the model has a class token beside the pooled patches, if the builder does not state it.
        pooling: pooling if the builder receives none: `token`, `gap` or `map`.
        norm_after_pooling: whether the pooled vector is normalised instead of the tokens, if the builder receives none.
        image_size: image side in pixels if the builder receives no `input_shape`.
        paper_name: name in the papers' tables, such as `ViT-B/16`.
        timm_name: name of the same architecture in timm, without the image size.
        parameters: published parameter counts.
    """

    name: str
    width: int
    depth: int
    mlp_dim: int
    num_heads: int
    patch_size: int | tuple[int, int]
    stem: ResNetStem | ConvStem | None = None
    positions: str = "learned"
    positions_at: str = "stem"
    mlp_kernel_size: int = 0
    axial: bool = False
    layer_scale: float | None = None
    registers: int = 0
    prefix_positions: bool = True
    pre_norm: bool = False
    patch_bias: bool = True
    gated_mlp: bool = False
    mlp_inner_norm: bool = False
    attention_inner_norm: bool = False
    dense_bias: bool = True
    norm: str = "layer"
    patch_norm: bool = False
    final_norm: bool = True
    distillation_token: bool = False
    pool_prefix: bool = True
    activation: str = "gelu_tanh"
    layer_norm_epsilon: float = 1e-6
    attention_out_bias: bool = True
    block: str = "pre_norm"
    qk_norm: bool = False
    heads_per_key: int = 1
    full_attention_blocks: int = 0
    differential_attention: bool = False
    qkv_bias: str = "qkv"
    rope: Rope | None = None
    relative_bias: str | None = None
    relative_bias_dim: int = 128
    window: int = 0
    global_blocks: tuple[int, ...] = ()
    neck: int | None = None
    pooling_heads: int = 0
    pooling_mlp_dim: int = 0
    class_token: bool = False
    pooling: str = "token"
    norm_after_pooling: bool = False
    image_size: int = 224
    paper_name: str | None = None
    timm_name: str | None = None
    parameters: ParameterCounts | None = None


class ConvNet:
    """Base of the rows without patches and tokens. Such a model takes any image size and pools by the mean."""

    axial = False


@dataclass(frozen=True)
class BiTVariant(ConvNet):
    """One BiT ResNet-v2, the papers' convolutional baseline.

    Args:
        name: name of the builder and of the Keras model.
        units: number of units of each stage.
        width_factor: multiplies the number of channels; the first convolution has 64 at a factor of 1.
        image_size: image side in pixels if the builder receives no `input_shape`.
        paper_name: name in the papers' tables, such as `ResNet50x1`.
        timm_name: name of the same architecture in timm.
        parameters: published parameter counts.
        weight_epsilon: epsilon added to the variance in the weight standardisation; 1e-10 in the official code, 1e-8 in
            timm and transformers.
        axial: whether axial attention replaces the 3 x 3 convolutions (arXiv 2010.11929, appendix D.6). Such a model is
            built for one image size.
        norm: kind of the norms: `group`, `batch` or `evo` (EvoNorm-S0, which has an activation of its own).
        standardized: whether the convolutions' kernels are standardised; those of ResNets with batch norm are not.
        basic: whether a unit has two 3 x 3 convolutions, as in ResNet-18 and ResNet-34.
        deep_stem: whether three 3 x 3 convolutions replace the first one, and means of 2 x 2 cells the strides of the
            shortcuts (ResNet-D, arXiv 1812.01187).
    """

    name: str
    units: tuple[int, ...]
    width_factor: float = 1
    image_size: int = 224
    paper_name: str | None = None
    timm_name: str | None = None
    parameters: ParameterCounts | None = None
    weight_epsilon: float = 1e-10
    axial: bool = False
    norm: str = "group"
    standardized: bool = True
    basic: bool = False
    deep_stem: bool = False


@dataclass(frozen=True)
class EfficientNetVariant(ConvNet):
    """One EfficientNet (arXiv 1905.11946), Noisy Student's architecture.

    Args:
        name: name of the builder and of the Keras model.
        width_factor: multiplies the number of channels, which is rounded to a multiple of 8.
        depth_factor: multiplies the number of units of each stage, which is rounded up.
        image_size: image side in pixels if the builder receives no `input_shape`.
        paper_name: name in the papers' tables, such as `EfficientNet-B0`.
        timm_name: name of the same architecture in timm.
        parameters: published parameter counts.
    """

    name: str
    width_factor: float = 1
    depth_factor: float = 1
    image_size: int = 224
    paper_name: str | None = None
    timm_name: str | None = None
    parameters: ParameterCounts | None = None

    @property
    def units(self) -> tuple[int, ...]:
        """Number of units of each of the seven stages."""
        return tuple(math.ceil(self.depth_factor * units) for units in (1, 2, 2, 3, 3, 4, 1))

    @property
    def widths(self) -> tuple[int, ...]:
        """Number of channels after the first convolution, the seven stages and the last convolution."""
        return tuple(_in_eights(self.width_factor * width) for width in (32, 16, 24, 40, 80, 112, 192, 320, 1280))


def _in_eights(width: float) -> int:
    """Round a number of channels to a multiple of 8 that is at least 0.9 of it."""
    rounded = max(8, int(width + 4) // 8 * 8)
    return rounded if rounded >= 0.9 * width else rounded + 8


AnyVariant = Variant | BiTVariant | EfficientNetVariant
