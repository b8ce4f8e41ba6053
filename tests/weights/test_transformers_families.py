"""Folders of transformers, each class as `save_pretrained` writes it: read, and written where transformers has it."""

import numpy as np
import parity
import pytest
from parity import nchw, quietly
from support import max_difference

import keras_vit

IMAGES = np.random.default_rng(0).uniform(-1, 1, (2, 32, 32, 3)).astype("float32")
SIZES = {"hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 3, "image_size": 32, "patch_size": 8}
MLP = {"intermediate_size": 96}
RELATIVE = {"use_relative_position_bias": True, "use_absolute_position_embeddings": False}
# (class, its config, arguments, what it answers)
MODELS = {
    "DINOv3ViT": ("DINOv3ViTModel", {**MLP, "num_register_tokens": 3, "rope_theta": 50.0}, "pooler_output"),
    "DINOv3ViT, gated": (
        "DINOv3ViTModel",
        {**MLP, "num_register_tokens": 4, "use_gated_mlp": True, "hidden_act": "silu", "key_bias": True},
        "pooler_output",
    ),
    "DINOv3ViT, no registers": ("DINOv3ViTModel", {**MLP, "query_bias": False, "value_bias": False}, "pooler_output"),
    "Beit": ("BeitForImageClassification", {**MLP, **RELATIVE, "num_labels": 5}, "logits"),
    "Beit, headless": ("BeitModel", {**MLP, **RELATIVE}, "pooler_output"),
    "Beit, class token": (
        "BeitForImageClassification",
        {**MLP, **RELATIVE, "num_labels": 5, "use_mean_pooling": False},
        "logits",
    ),
    "Beit, shared": (
        "BeitForImageClassification",
        {**MLP, "use_shared_relative_position_bias": True, "use_absolute_position_embeddings": True, "num_labels": 5},
        "logits",
    ),
    "Data2VecVision": ("Data2VecVisionForImageClassification", {**MLP, **RELATIVE, "num_labels": 5}, "logits"),
    "Dinov2": ("Dinov2Model", {}, "pooler_output"),
    "Dinov2, gated": ("Dinov2Model", {"use_swiglu_ffn": True}, "pooler_output"),
    "Dinov2WithRegisters": ("Dinov2WithRegistersModel", {"num_register_tokens": 3}, "pooler_output"),
    "CLIPVision": ("CLIPVisionModel", {**MLP}, "pooler_output"),
    "CLIPVision, projection": ("CLIPVisionModelWithProjection", {**MLP, "projection_dim": 24}, "image_embeds"),
    "SiglipVision": ("SiglipVisionModel", {**MLP}, "pooler_output"),
    "SiglipVision, tokens": ("SiglipVisionModel", {**MLP, "vision_use_head": False}, "last_hidden_state"),
    "Aimv2Vision": ("Aimv2VisionModel", {**MLP, "use_head": False}, "last_hidden_state"),
    "ViTMSN": ("ViTMSNForImageClassification", {**MLP, "num_labels": 5}, "logits"),
    "IJepa": ("IJepaForImageClassification", {**MLP, "num_labels": 5}, "logits"),
    "DeiT": ("DeiTForImageClassificationWithTeacher", {**MLP, "num_labels": 5}, "logits"),
    "ViT": ("ViTForImageClassification", {**MLP, "num_labels": 5}, "logits"),
}
ONE_WAY = (
    "Beit, shared",
    "Beit, class token",
    "Data2VecVision",
    "CLIPVision, projection",
    "SiglipVision, tokens",
    "ViTMSN",
)


def saved(transformers, name, folder):
    """A small model of a class with random weights, saved in a folder, and what it answers for `IMAGES`."""
    import torch

    kind, options, answer = MODELS[name]
    model_class = getattr(transformers, kind)
    torch.manual_seed(0)
    model = model_class(model_class.config_class(**SIZES, **options)).eval()
    for parameter in model.parameters():
        parameter.data.normal_(std=0.5)
    quietly(lambda: model.save_pretrained(folder))
    return model, answered(model, answer)


def answered(model, answer):
    return quietly(lambda: getattr(model(nchw(IMAGES)), answer).numpy())


@pytest.mark.parametrize("name", MODELS)
def test_a_folder_computes_alike_and_goes_back(name, tmp_path, capsys):
    transformers = parity.transformers()
    model, expected = saved(transformers, name, tmp_path / "model")
    capsys.readouterr()
    ours = keras_vit.from_pretrained(tmp_path / "model")
    scale = np.abs(expected).max()
    assert max_difference(ours(IMAGES), expected) < 2e-5 * scale
    assert "assumed, because neither" not in capsys.readouterr().err
    if name in ONE_WAY:
        return
    keras_vit.save_weights(ours, tmp_path / "back", layout="hf")
    again, said = quietly(lambda: type(model).from_pretrained(tmp_path / "back", output_loading_info=True))
    assert not said["missing_keys"] and not said["unexpected_keys"] and not said["mismatched_keys"], said
    assert max_difference(answered(again.eval(), MODELS[name][2]), expected) < 2e-5 * scale
    assert max_difference(keras_vit.from_pretrained(tmp_path / "back")(IMAGES), ours(IMAGES)) < 1e-6 * scale
