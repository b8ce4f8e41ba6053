"""Models as timm and transformers make them: computed alike, or refused by the names of their parts."""

import numpy as np
import parity
import pytest
from parity import nchw, quietly
from support import max_difference

import keras_vit
from keras_vit.weights.layouts import find_place
from keras_vit.weights.timm_architectures import timm_architectures
from keras_vit.weights.unsupported import unsupported


@pytest.mark.parametrize("name", ["vit_base_patch32_siglip_256", "vit_so400m_patch16_siglip_gap_256"])
def test_an_architecture_of_timm_needs_no_options(name, tmp_path, capsys):
    timm = parity.timm()
    theirs = parity.timm_folder(timm, name, tmp_path / "model")
    images = np.random.default_rng(0).uniform(-1, 1, (2, 64, 64, 3)).astype("float32")
    expected = quietly(lambda: theirs(nchw(images)).numpy())
    ours = keras_vit.from_pretrained(tmp_path / "model")
    scale = np.abs(expected).max()
    assert max_difference(ours(images), expected) < 3e-6 * scale
    assert "assumed" not in capsys.readouterr().err
    other = keras_vit.from_pretrained(tmp_path / "model", activation="gelu")
    assert max_difference(other(images), expected) > 1e-5 * scale
    assert "the model has activation='gelu', the file's config states 'gelu_tanh'" in capsys.readouterr().err


class Headers:
    """What `unsupported` reads of a file."""

    def __init__(self, state, config):
        integer = {name: not tensor.is_floating_point() for name, tensor in state.items()}
        self.shapes = {name: tuple(tensor.shape) for name, tensor in state.items() if not integer[name]}
        self.integers = {name: "int64" for name in state if integer[name]}
        self.config = config


# One of each kind that timm has: the parts that a file of it names.
TIMM = {
    "vit_base_patch16_224": (),
    "vit_base_patch16_gap_224": (),
    "vit_base_patch32_siglip_256": (),
    "eva_large_patch14_196": (),
    "flexivit_small": (),
    "deit_tiny_patch16_224": (),
    "vit_tiny_r_s16_p8_224": (),
    "vit_small_r26_s32_224": (),
    "resnetv2_50x1_bit": (),
    "deit3_small_patch16_224": (),
    "vit_small_patch14_dinov2": (),
    "vit_small_patch14_reg4_dinov2": (),
    "vit_giant_patch14_dinov2": (),
    "deit_tiny_distilled_patch16_224": (),
    "vit_xsmall_patch16_clip_224": (),
    "beit_base_patch16_224": (),
    "beit3_base_patch16_224": (),
    "eva02_tiny_patch14_224": (),
    "eva02_base_patch14_224": (),
    "vit_small_patch16_dinov3": (),
    "vit_base_patch16_sapiens2": (),
    "vit_relpos_small_patch16_224": (),
    "vit_base_patch16_rpn_224": (),
    "vit_base_patch16_224_miil": (),
    "vit_base_patch16_radio_v3": (),
    "vit_intern300m_patch14_448": (),
    "vit_pe_core_tiny_patch16_384": (),
    "vit_dwee_patch16_reg1_gap_256": (),
    "vit_pwee_patch16_reg1_gap_256": (),
    "aimv2_large_patch14_224": (),
    "naflexvit_base_patch16_siglip": (),
    "vit_small_patch16_18x2_224": ("parallel attentions and MLPs of one block",),
    "vit_srelpos_small_patch16_224": (),
    "samvit_base_patch16": (),
    "samvit_base_patch16_224": (),
    "vit_small_resnet26d_224": ("batch norm",),
    "resnetv2_50d_gn": (),
    "resnetv2_18": (),
    "vit_base_mci_224": (),
}


@pytest.mark.large
@pytest.mark.parametrize("name", TIMM)
def test_each_kind_of_timm_is_read_or_named(name):
    timm = parity.timm()
    import torch

    with torch.device("meta"):
        model = quietly(lambda: timm.create_model(name))
    headers = Headers(model.state_dict(), {"architecture": name})
    placed = [key for key in headers.shapes if any(find_place(family, "timm", key) for family in ("vit", "bit"))]
    found = unsupported(headers, placed)
    assert set(TIMM[name]) <= found.keys() and bool(TIMM[name]) == bool(found), found
    row = timm_architectures().get(name)
    if row is not None:
        block = model.blocks[0]
        if name == "vit_pwee_patch16_reg1_gap_256":
            assert (row.num_heads, row.layer_norm_epsilon) == (block.num_heads, block.in_norm.eps)
            return
        assert (row.num_heads, row.layer_norm_epsilon) == (block.attn.num_heads, block.norm1.eps)
        activation = {"GELU": "gelu", "GELUTanh": "gelu_tanh", "QuickGELU": "quick_gelu", "SiLU": "silu"}
        assert row.activation == activation[type(block.mlp.act).__name__]


TRANSFORMERS = {
    ("ViTForImageClassification", "ViTConfig"): (),
    ("IJepaModel", "IJepaConfig"): (),
    ("ViTMAEForPreTraining", "ViTMAEConfig"): (),
    ("DeiTForImageClassification", "DeiTConfig"): ("a classifier of the class token beside a distillation token",),
    ("DeiTForImageClassificationWithTeacher", "DeiTConfig"): (),
    ("DeiTModel", "DeiTConfig"): ("a pooler of the class token beside a distillation token",),
    ("Dinov2Model", "Dinov2Config"): (),
    ("Dinov2WithRegistersModel", "Dinov2WithRegistersConfig"): (),
    ("CLIPVisionModel", "CLIPVisionConfig"): (),
    ("SamVisionModel", "SamVisionConfig"): (),
    ("VitDetModel", "VitDetConfig"): "expected 'model_type' to be one of .*, received 'vitdet'",
    ("VideoMAEModel", "VideoMAEConfig"): ("patches in time (video)",),
    ("DINOv3ViTModel", "DINOv3ViTConfig"): (),
    ("SiglipVisionModel", "SiglipVisionConfig"): (),
}


@pytest.mark.large
@pytest.mark.parametrize(("model", "config"), TRANSFORMERS)
def test_each_kind_of_transformers_is_read_or_named(model, config, tmp_path):
    transformers = parity.transformers()
    sizes = {"hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 192}
    settings = getattr(transformers, config)(**sizes, image_size=32, patch_size=8)
    quietly(lambda: getattr(transformers, model)(settings).save_pretrained(tmp_path))
    parts = TRANSFORMERS[model, config]
    if not parts:
        assert keras_vit.from_pretrained(tmp_path, strict=False).count_params()
        return
    message = parts if isinstance(parts, str) else "unsupported parts"
    with pytest.raises(ValueError, match=message) as error:
        keras_vit.from_pretrained(tmp_path)
    assert isinstance(parts, str) or all(f"{part} (" in str(error.value) for part in parts)
