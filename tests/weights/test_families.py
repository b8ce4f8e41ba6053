"""DeiT III, DINOv2 and CLIP: files of timm, read and written, and the official files' names."""

import json
from dataclasses import replace

import keras
import numpy as np
import parity
import pytest
from parity import nchw, quietly, timm_folder
from support import max_difference, randomise

import keras_vit

IMAGES = np.random.default_rng(0).uniform(-1, 1, (2, 64, 64, 3)).astype("float32")
KINDS = {  # architecture -> tokens in front of the patches
    "deit3_small_patch16_224": ("class",),
    "vit_small_patch14_dinov2": ("class",),
    "vit_small_patch14_reg4_dinov2": ("class", "register_0", "register_1", "register_2", "register_3"),
    "vit_medium_patch16_reg4_gap_256": ("register_0", "register_1", "register_2", "register_3"),
    "vit_base_patch16_clip_224": ("class",),
    "vit_base_patch16_clip_quickgelu_224": ("class",),
    "vit_giant_patch14_dinov2": ("class",),
    "vit_giant_patch14_reg4_dinov2": ("class", "register_0", "register_1", "register_2", "register_3"),
    "beit3_base_patch16_224": ("class",),
    "deit_base_distilled_patch16_224": ("class", "distillation"),
    "vit_base_patch16_radio_v3": ("class", *(f"register_{i}" for i in range(7))),
    "vit_intern300m_patch14_448": ("class",),
    "vit_so150m_patch16_reg4_map_256": ("register_0", "register_1", "register_2", "register_3"),
    "aimv2_large_patch14_224": (),
    "test_vit3": ("register",),
    "test_vit4": ("register",),
}
CHANGES = {  # arguments of timm: a width that the heads divide
    "vit_intern300m_patch14_448": {"embed_dim": 112, "patch_size": 16},
    "vit_so150m_patch16_reg4_map_256": {"embed_dim": 112},
    "aimv2_large_patch14_224": {"embed_dim": 64},  # with 96 the logits cancel to values near 0
}
TINY = keras_vit.Variant("tiny", 24, 2, 48, 3, patch_size=8, image_size=32)


@pytest.mark.parametrize("name", KINDS)
def test_a_file_of_timm_computes_alike_and_goes_back(name, tmp_path, capsys):
    timm = parity.timm()
    theirs = timm_folder(timm, name, tmp_path / "model", **CHANGES.get(name, {}))
    expected = quietly(lambda: theirs(nchw(IMAGES)).numpy())
    ours = keras_vit.from_pretrained(tmp_path / "model")
    scale = np.abs(expected).max()
    assert max_difference(ours(IMAGES), expected) < 3e-6 * scale
    assert keras_vit.token_layout(ours).prefix == KINDS[name]
    said = capsys.readouterr().err
    assert "assumed" not in said and "positions" not in said
    keras_vit.save_weights(ours, tmp_path / "back", layout="timm")
    again = quietly(lambda: timm.create_model(f"local-dir:{tmp_path / 'back'}", pretrained=True).eval())
    assert max_difference(quietly(lambda: again(nchw(IMAGES)).numpy()), expected) < 3e-6 * scale
    assert max_difference(keras_vit.from_pretrained(tmp_path / "back")(IMAGES), ours(IMAGES)) == 0
    ours.save(tmp_path / "own.keras")
    larger = keras_vit.from_pretrained(tmp_path / "own.keras", input_shape=(80, 64, 3))
    assert keras_vit.token_layout(larger).prefix == KINDS[name] and larger.output_shape == (None, 5)


@pytest.mark.parametrize("name", ["vit_small_patch14_dinov2", "vit_small_patch14_reg4_dinov2"])
def test_positions_are_resized_as_the_publisher_of_the_file_does(name, tmp_path):
    """timm's own file, and one of Meta's names, whose code resizes DINOv2 without registers in another way."""
    safetensors = pytest.importorskip("safetensors.numpy")
    theirs = timm_folder(parity.timm(), name, tmp_path / "model")
    size = {"input_shape": (96, 80, 3)}
    ours = keras_vit.from_pretrained(tmp_path / "model", **size)
    assert ours.get_layer("position_embedding").conversion.endswith("by 'timm'")
    arrays = {key: tensor.numpy() for key, tensor in theirs.state_dict().items()} | {
        "mask_token": np.ones((1, 96), "float32")
    }
    safetensors.save_file(arrays, tmp_path / "meta.safetensors")
    options = {"num_heads": 6, "activation": "gelu", "layer_norm_epsilon": 1e-6, "strict": False}
    ours = keras_vit.from_pretrained(tmp_path / "meta.safetensors", **options, **size)
    method = "dinov2" if name == "vit_small_patch14_dinov2" else "timm"
    assert ours.get_layer("position_embedding").conversion.endswith(f"by {method!r}")


def test_the_official_names_of_deit_iii_and_dinov2_are_read(tmp_path):
    """DINOv2's file has a position of the class token, which timm has added to the token, and none of the registers."""
    timm = parity.timm()
    safetensors = pytest.importorskip("safetensors.numpy")
    for name in ("deit3_small_patch16_224", "vit_small_patch14_reg4_dinov2"):
        theirs = timm_folder(timm, name, tmp_path / name)
        arrays = {key: tensor.numpy() for key, tensor in theirs.state_dict().items()}
        if "reg_token" in arrays:
            position = np.random.default_rng(1).normal(size=(1, 1, 96)).astype("float32")
            arrays["cls_token"] = arrays["cls_token"] - position
            arrays["pos_embed"] = np.concatenate([position, arrays["pos_embed"]], axis=1)
            arrays["register_tokens"] = arrays.pop("reg_token")
            arrays["mask_token"] = np.ones((1, 96), "float32")
        else:
            for i in range(2):
                arrays |= {f"blocks.{i}.gamma_{n}": arrays.pop(f"blocks.{i}.ls{n}.gamma") for n in (1, 2)}
        safetensors.save_file(arrays, tmp_path / "official.safetensors")
        options = {
            "num_heads": 6,
            "activation": "gelu",
            "layer_norm_epsilon": 1e-6,
            "strict": False,
            "input_shape": (64, 64, 3),
        }
        ours = keras_vit.from_pretrained(tmp_path / "official.safetensors", **options)
        expected = quietly(lambda model=theirs: model(nchw(IMAGES)).numpy())
        assert max_difference(ours(IMAGES), expected) < 3e-6 * np.abs(expected).max(), name


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("Dinov2", {}),
        ("Dinov2", {"use_swiglu_ffn": True}),
        ("Dinov2WithRegisters", {}),
        ("CLIPVision", {"intermediate_size": 96}),
        ("CLIPVision", {"intermediate_size": 96, "hidden_act": "gelu"}),
    ],
)
def test_a_folder_of_transformers_computes_alike(kind, options, tmp_path, capsys):
    transformers = parity.transformers()
    sizes = {"hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 3, "image_size": 32, "patch_size": 8}
    theirs = getattr(transformers, f"{kind}Model")(getattr(transformers, f"{kind}Config")(**sizes, **options)).eval()
    for parameter in theirs.parameters():
        parameter.data.normal_(std=0.5)
    quietly(lambda: theirs.save_pretrained(tmp_path / "model"))
    images = IMAGES[:, :32, :32]
    expected = quietly(lambda: theirs(nchw(images)).pooler_output.numpy())
    capsys.readouterr()
    ours = keras_vit.from_pretrained(tmp_path / "model")
    assert max_difference(ours(images), expected) < 3e-6 * np.abs(expected).max()
    assert "assumed, because neither" not in capsys.readouterr().err


def test_deits_two_classifiers_of_transformers_compute_their_mean(tmp_path, capsys):
    transformers = parity.transformers()
    sizes = {"hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 3, "image_size": 32, "patch_size": 8}
    config = transformers.DeiTConfig(**sizes, intermediate_size=96, num_labels=5)
    theirs = transformers.DeiTForImageClassificationWithTeacher(config).eval()
    for parameter in theirs.parameters():
        parameter.data.normal_(std=0.5)
    quietly(lambda: theirs.save_pretrained(tmp_path / "model"))
    images = IMAGES[:, :32, :32]
    expected = quietly(lambda: theirs(nchw(images)).logits.numpy())
    capsys.readouterr()
    ours = keras_vit.from_pretrained(tmp_path / "model")
    assert max_difference(ours(images), expected) < 3e-6 * np.abs(expected).max()
    assert "assumed, because neither" not in capsys.readouterr().err


def test_dinov2s_classifier_of_transformers_is_refused(tmp_path):
    """It sees the class token and the mean of the patches side by side."""
    transformers = parity.transformers()
    sizes = {"hidden_size": 48, "num_hidden_layers": 1, "num_attention_heads": 3, "image_size": 32, "patch_size": 8}
    model = transformers.Dinov2ForImageClassification(transformers.Dinov2Config(**sizes, num_labels=5))
    quietly(lambda: model.save_pretrained(tmp_path / "model"))
    with pytest.raises(ValueError, match=r"classifier.weight \(expected \(5, 48\), received \(5, 96\)\)"):
        keras_vit.from_pretrained(tmp_path / "model")


def test_clip_without_a_config_has_its_epsilon_and_says_what_is_assumed(tmp_path, capsys):
    timm_folder(parity.timm(), "vit_base_patch16_clip_224", tmp_path / "model")
    (tmp_path / "model" / "config.json").write_text(json.dumps({"model_args": {"img_size": 64}}))
    model = keras_vit.from_pretrained(tmp_path / "model", num_heads=12)
    assert model.get_layer("pre_norm").epsilon == 1e-5
    said = capsys.readouterr().err
    assert "neither the file nor its config states them: activation='gelu', layer_norm_epsilon=1e-05" in said


def test_a_row_of_clip_keeps_its_activation_and_epsilon_unless_the_config_states_others(tmp_path):
    timm_folder(parity.timm(), "vit_base_patch16_clip_224", tmp_path / "model")
    row = replace(
        TINY, width=96, mlp_dim=384, num_heads=12, patch_size=16, image_size=64, pre_norm=True, patch_bias=False
    )
    row = replace(row, activation="quick_gelu", layer_norm_epsilon=1e-5)
    for config, activation in ((True, "gelu"), (False, "quick_gelu")):
        if not config:
            (tmp_path / "model" / "config.json").unlink()
        block = keras_vit.build(row, weights=tmp_path / "model", classes=5).get_layer("encoder_block_00")
        assert (block.activation, block.layer_norm_epsilon) == (activation, 1e-5)


def test_a_missing_bias_of_the_patches_is_no_clip(tmp_path):
    timm_folder(parity.timm(), "deit3_small_patch16_224", tmp_path / "model")
    safetensors = pytest.importorskip("safetensors.numpy")
    arrays = safetensors.load_file(tmp_path / "model" / "model.safetensors")
    del arrays["patch_embed.proj.bias"]
    safetensors.save_file(arrays, tmp_path / "model" / "model.safetensors")
    with pytest.raises(ValueError, match="a patch embedding without bias"):
        keras_vit.from_pretrained(tmp_path / "model")


def test_layouts_without_a_place_for_a_part_refuse_it_and_positions_are_filled_with_zeros(tmp_path):
    patches_only = randomise(keras_vit.build(replace(TINY, prefix_positions=False), classes=3))
    keras_vit.save_weights(patches_only, tmp_path / "model.npz")
    whole = keras_vit.build(TINY, classes=3)
    keras_vit.load_weights(whole, tmp_path / "model.npz")
    images = IMAGES[:, :32, :32]
    assert max_difference(whole(images), patches_only(images)) < 1e-6
    assert not np.any(whole.get_layer("position_embedding").embedding[0, 0])
    for field, name in {"layer_scale": "attention_scale/gamma", "registers": "registers/token"}.items():
        model = keras_vit.build(replace(TINY, **{field: 1}), classes=3)
        with pytest.raises(ValueError, match=f"layout 'npz' has no place for .*{name}"):
            keras_vit.save_weights(model, tmp_path / "other.npz")
        with pytest.raises(
            ValueError, match=f"ViTForImageClassification is the most similar, received one with {field}=1"
        ):
            keras_vit.save_weights(model, tmp_path / "other.safetensors", layout="hf")
        assert not list(tmp_path.glob("other*"))
    clip = keras_vit.build(replace(TINY, pre_norm=True, patch_bias=False), classes=3)
    with pytest.raises(ValueError, match="layout 'npz' expected a patch embedding with a bias, received one without"):
        keras_vit.save_weights(clip, tmp_path / "clip.npz")
    odd = keras_vit.build(replace(TINY, pre_norm=True), classes=3)
    with pytest.raises(ValueError, match=r"layout 'timm' expected a patch embedding with a bias, or without one and"):
        keras_vit.save_weights(odd, tmp_path / "odd.safetensors", layout="timm")


def test_a_model_with_positions_of_its_registers_takes_a_file_without_them(tmp_path, capsys):
    timm = parity.timm()
    theirs = timm_folder(timm, "vit_small_patch14_reg4_dinov2", tmp_path / "model")
    row = keras_vit.Variant("reg", 96, 2, 384, 6, patch_size=14, registers=4, layer_scale=1.0, image_size=64)
    model = keras_vit.build(row, classes=5, classifier_activation=None, activation="gelu")
    keras_vit.load_weights(model, tmp_path / "model")
    assert "positions of tokens in front of the patches are zeros" in capsys.readouterr().err
    expected = quietly(lambda: theirs(nchw(IMAGES)).numpy())
    assert max_difference(model(IMAGES), expected) < 3e-6 * np.abs(expected).max()


@pytest.mark.parametrize(
    ("changes", "options", "sentence"),
    [
        ({"registers": -1}, {}, "registers expected a positive int, received -1"),
        ({"layer_scale": 0.0}, {}, "layer_scale expected a positive number or null, received 0.0"),
        ({"registers": 2, "axial": True}, {"pooling": "gap"}, "registers expected 0 with axial blocks"),
        ({"layer_scale": 1e-5, "axial": True}, {"pooling": "gap"}, "layer_scale expected None with axial blocks"),
        ({"norm": "rms"}, {"pooling": "map"}, "pooling expected 'token', 'gap' or None with gated_mlp or norm='rms'"),
        ({"norm": "batch"}, {}, r"norm expected one of \('layer', 'rms'\), received 'batch'"),
        (
            {"distillation_token": True},
            {"pooling": "gap"},
            "pooling expected 'token' or None with a distillation token",
        ),
        (
            {"distillation_token": True},
            {"pooling": None, "include_top": False, "class_token": False},
            "class_token expected True with a distillation token",
        ),
        ({"final_norm": False}, {"norm_after_pooling": True}, "norm_after_pooling expected False with pooling=None or"),
        ({"gated_mlp": True, "mlp_kernel_size": 3}, {}, "mlp_kernel_size expected 0 with gated_mlp"),
        ({"gated_mlp": True, "axial": True}, {"pooling": "gap"}, "gated_mlp expected False with axial blocks"),
        (
            {"prefix_positions": False, "positions": "sincos2d"},
            {},
            "prefix_positions expected True unless",
        ),
    ],
)
def test_a_row_with_parts_that_do_not_go_together_is_refused(changes, options, sentence):
    with pytest.raises(ValueError, match=sentence):
        keras_vit.build(replace(TINY, **changes), classes=3, **options)


def test_a_new_model_of_a_family_has_its_activation_and_epsilon():
    model = keras_vit.build(replace(TINY, activation="quick_gelu", layer_norm_epsilon=1e-5), classes=3)
    block = model.get_layer("encoder_block_00")
    assert (block.activation, block.layer_norm_epsilon) == ("quick_gelu", 1e-5)
    assert keras_vit.build(TINY, classes=3, activation="gelu").get_layer("encoder_block_00").activation == "gelu"
    x = np.linspace(-4, 4, 9).astype("float32")
    assert max_difference(block.mlp.activate(keras.ops.convert_to_tensor(x)), x / (1 + np.exp(-1.702 * x))) < 1e-6
