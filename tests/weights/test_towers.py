"""Encoders out of files with more in them: text towers, decoders, projectors, wrappers, teachers and students."""

import json

import numpy as np
import parity
import pytest
from parity import nchw, quietly
from support import max_difference

import keras_vit

IMAGES = np.random.default_rng(0).uniform(-1, 1, (2, 32, 32, 3)).astype("float32")
SIZES = {"hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 3, "image_size": 32, "patch_size": 8}
SIZES |= {"intermediate_size": 96}
RELATIVE = {"use_relative_position_bias": True, "use_absolute_position_embeddings": False}
TEXT = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 40, "vocab_size": 50}


def saved(model, folder):
    """Save a model of transformers with random weights."""
    import torch

    torch.manual_seed(0)
    for parameter in model.parameters():
        parameter.data.normal_(std=0.5)
    quietly(lambda: model.eval().save_pretrained(folder))
    return model


def agrees(ours, expected, images=IMAGES):
    assert max_difference(ours(images), expected) < 2e-5 * np.abs(expected).max()


def masked_model(transformers, name):
    decoder = {"decoder_hidden_size": 32, "decoder_num_hidden_layers": 1, "decoder_num_attention_heads": 2}
    decoder |= {"decoder_intermediate_size": 40}
    if name == "ViTMAE":
        return transformers.ViTMAEForPreTraining(transformers.ViTMAEConfig(**SIZES, **decoder, mask_ratio=0.0))
    if name == "Beit":
        config = transformers.BeitConfig(**SIZES, **RELATIVE, use_mask_token=True, vocab_size=20)
        return transformers.BeitForMaskedImageModeling(config)
    kind = getattr(transformers, f"{name}ForMaskedImageModeling")
    return kind(kind.config_class(**SIZES, encoder_stride=8))


@pytest.mark.parametrize("name", ["ViTMAE", "ViT", "Beit"])
def test_the_encoder_of_masked_pretraining_is_taken_and_the_decoder_is_named(name, tmp_path, capsys):
    transformers = parity.transformers()
    model = saved(masked_model(transformers, name), tmp_path / "model")
    inner = model.beit if name == "Beit" else model.vit
    tokens = quietly(lambda: inner(nchw(IMAGES)).last_hidden_state)
    tokens = quietly(lambda: model.layernorm(tokens)) if name == "Beit" else tokens
    capsys.readouterr()
    ours = keras_vit.from_pretrained(tmp_path / "model")
    agrees(ours, tokens[:, 0].numpy())  # MAE orders the patches anew; the class token sees all of them
    said = capsys.readouterr().err
    assert ("lm_head" if name == "Beit" else "decoder") in said and "ignored arrays of the file" in said


def two_towers(transformers, name):
    kind = getattr(transformers, f"{name}Model")
    vision = getattr(transformers, f"{name}VisionConfig")(**SIZES)
    more = {"projection_size": 48} if name == "Siglip" else {"projection_dim": 24}
    text = getattr(transformers, f"{name}TextConfig")(**TEXT, **({"projection_size": 48} if name == "Siglip" else {}))
    more = {} if name == "Siglip" else more
    return kind(kind.config_class(text_config=text.to_dict(), vision_config=vision.to_dict(), **more))


@pytest.mark.parametrize("name", ["CLIP", "Siglip"])
def test_the_image_tower_of_an_image_text_model_is_taken(name, tmp_path, capsys):
    transformers = parity.transformers()
    model = saved(two_towers(transformers, name), tmp_path / "model")
    features = quietly(lambda: model.get_image_features(pixel_values=nchw(IMAGES)))
    features = getattr(features, "pooler_output", features).numpy()
    capsys.readouterr()
    agrees(keras_vit.from_pretrained(tmp_path / "model"), features)
    said = capsys.readouterr().err
    assert "text_model" in said and "assumed, because neither" not in said
    config = json.loads((tmp_path / "model" / "config.json").read_text())
    for key in ("num_attention_heads", "hidden_act", "layer_norm_eps"):  # published configs omit the defaults
        config["vision_config"].pop(key)
    (tmp_path / "model" / "config.json").write_text(json.dumps(config))
    other = keras_vit.from_pretrained(tmp_path / "model")
    block = other.get_layer("encoder_block_00")
    assert block.num_heads == 12 and block.activation == ("quick_gelu" if name == "CLIP" else "gelu_tanh")


def test_siglips_classifier_averages_the_patches(tmp_path, capsys):
    transformers = parity.transformers()
    vision = transformers.SiglipVisionConfig(**SIZES)
    config = transformers.SiglipConfig(vision_config=vision.to_dict(), num_labels=5)
    model = saved(transformers.SiglipForImageClassification(config), tmp_path / "model")
    expected = quietly(lambda: model(nchw(IMAGES)).logits.numpy())
    capsys.readouterr()
    agrees(keras_vit.from_pretrained(tmp_path / "model"), expected)
    assert "ignored arrays of the file: vision_model (11 arrays)" in capsys.readouterr().err


def test_siglip_2_with_flat_patches(tmp_path):
    transformers = parity.transformers()
    import torch

    sizes = {key: value for key, value in SIZES.items() if key != "image_size"}
    model = transformers.Siglip2VisionModel(transformers.Siglip2VisionConfig(**sizes, num_patches=16))
    model = saved(model, tmp_path / "model")
    patches = IMAGES.reshape(2, 4, 8, 4, 8, 3).transpose(0, 1, 3, 2, 4, 5).reshape(2, 16, 192)
    mask, shapes = torch.ones(2, 16, dtype=torch.long), torch.tensor([[4, 4]] * 2)
    flat = torch.from_numpy(np.ascontiguousarray(patches))
    expected = quietly(lambda: model(flat, pixel_attention_mask=mask, spatial_shapes=shapes).pooler_output.numpy())
    agrees(keras_vit.from_pretrained(tmp_path / "model"), expected)


def test_a_classifier_that_computes_otherwise_is_refused_by_name(tmp_path):
    transformers = parity.transformers()
    vision = transformers.CLIPVisionConfig(**SIZES)
    clip = transformers.CLIPForImageClassification(
        transformers.CLIPConfig(vision_config=vision.to_dict(), num_labels=5)
    )
    saved(clip, tmp_path / "clip")
    with pytest.raises(ValueError, match="a classifier of patches before the last norm"):
        keras_vit.from_pretrained(tmp_path / "clip")
    native = transformers.Aimv2VisionModel(transformers.Aimv2VisionConfig(**SIZES, is_native=True, use_head=False))
    saved(native, tmp_path / "native")
    with pytest.raises(ValueError, match="expected 'is_native' to be False, received True"):
        keras_vit.from_pretrained(tmp_path / "native")


@pytest.mark.parametrize("name", ["vit_tiny_patch16_224", "deit_tiny_patch16_224"])
def test_timm_wrapper(name, tmp_path):
    parity.timm()
    transformers = parity.transformers()
    arguments = {"img_size": 64, "depth": 2, "embed_dim": 96, "num_heads": 3}
    config = transformers.TimmWrapperConfig(architecture=name, num_labels=5, model_args=arguments)
    model = saved(quietly(lambda: transformers.TimmWrapperForImageClassification(config)), tmp_path / "model")
    images = np.random.default_rng(1).uniform(-1, 1, (2, 64, 64, 3)).astype("float32")
    expected = quietly(lambda: model(nchw(images)).logits.numpy())
    agrees(keras_vit.from_pretrained(tmp_path / "model"), expected, images)
