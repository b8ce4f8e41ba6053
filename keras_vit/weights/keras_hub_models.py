"""The backbones of keras-hub: where their variables lie in a file, and what their configs state."""

from collections.abc import Callable
from dataclasses import dataclass, field

from keras_vit.weights.timm_models import DINOV3_ROPE


@dataclass(frozen=True)
class Backbone:
    """A backbone class of keras-hub.

    Args:
        name: name of the class.
        start: path of the encoder blocks, without their index.
        layers: path of a layer in the block, or in the model -> path of our layer.
        tokens: from the config to our variables of the embedding layer, in its order; None for one that is not read.
        embedding: path of the embedding layer.
        fields: from the config to fields of `Architecture`.
    """

    name: str
    start: str
    layers: dict[str, str]
    tokens: Callable[[dict], list[str | None]]
    embedding: str
    fields: Callable[[dict], dict] = field(default=lambda config: {})


CLASS, REGISTERS, POSITIONS = "class_token/token", "registers/token", "position_embedding/embedding"
_SCALES = {"layer_scale1": "attention_scale", "layer_scale2": "mlp_scale"}
_NORMS = {"norm1": "attention_norm", "norm2": "mlp_norm"}


def _dino_tokens(config: dict, *positions: str | None) -> list[str | None]:
    mask = [None] if config.get("use_mask_token", True) else []
    return [CLASS, *mask, *([REGISTERS] if config.get("num_register_tokens") else []), *positions]


def _dinov3(config: dict) -> dict:
    rope = DINOV3_ROPE | {"temperature": float(config.get("rope_theta", 100.0))}
    return {"activation": config.get("hidden_activation", "gelu"), "options": {"rope": rope}}


BACKBONES = {
    row.name: row
    for row in (
        Backbone(
            "ViTBackbone",
            "vi_t_encoder/encoder_layers/vi_t_encoder_block",
            {
                "layer_norm_1": "attention_norm",
                "layer_norm_2": "mlp_norm",
                "mha": "attention",
                "mlp/dense_1": "mlp/fc1",
                "mlp/dense_2": "mlp/fc2",
                "vi_t_encoder/layer_norm": "encoder_norm",
                "vi_t_patching_and_embedding/patch_embedding": "embedding",
                "vi_t_patching_and_embedding/position_embedding": "position_embedding",
            },
            lambda config: [CLASS],
            "vi_t_patching_and_embedding",
        ),
        Backbone(
            "DeiTBackbone",
            "dei_t_encoder/encoder_layers/dei_t_encoder_block",
            {
                "layer_norm_1": "attention_norm",
                "layer_norm_2": "mlp_norm",
                "mha": "attention",
                "mlp/dense": "mlp/fc1",
                "output_layer/dense": "mlp/fc2",
                "dei_t_encoder/layer_norm": "encoder_norm",
                "dei_t_embeddings/patch_embedding": "embedding",
            },
            lambda config: [
                *([None] if config.get("use_mask_token") else []),
                CLASS,
                "distillation_token/token",
                POSITIONS,
            ],
            "dei_t_embeddings",
        ),
        Backbone(
            "DINOV2Backbone",
            "dinov2_encoder/layers/dinov2_layer",
            {
                **_NORMS,
                **_SCALES,
                "attention/attention": "attention",
                "mlp/fc1": "mlp/fc1",
                "mlp/fc2": "mlp/fc2",
                "mlp/weights_in": "mlp/fc1",
                "mlp/weights_out": "mlp/fc2",
                "layer_normalization": "encoder_norm",
                "dinov2_embedding/patch_embeddings/projection": "embedding",
            },
            lambda config: _dino_tokens(config, POSITIONS, None),  # the second ones have another grid
            "dinov2_embedding",
            lambda config: {"activation": "silu" if config.get("use_swiglu_ffn") else "gelu"},
        ),
        Backbone(
            "DINOV3Backbone",
            "dinov3_encoder/layers/dinov3_layer",
            {
                **_NORMS,
                **_SCALES,
                "attention": "attention",
                "mlp/up_proj": "mlp/fc1",
                "mlp/gate_proj": "mlp/gate",
                "mlp/down_proj": "mlp/fc2",
                "layer_normalization": "encoder_norm",
                "dinov3_embedding/patch_embeddings/projection": "embedding",
            },
            lambda config: _dino_tokens(config),
            "dinov3_embedding",
            _dinov3,
        ),
    )
}
