"""The image encoder of SAM: files of timm, of Meta and of transformers; windows, decomposed positions and the neck."""

from dataclasses import replace

import numpy as np
import parity
import pytest
import torch_files
from parity import nchw, quietly, timm_folder
from support import max_difference, quick_first

import keras_vit
from keras_vit.models.adapt import adapt_model
from keras_vit.models.adapt_settings import Adapt
from keras_vit.models.masked import build_masked
from keras_vit.models.variants import find_variant

WIDE = (80, 112)  # a grid of 5 x 7 patches, which windows of 3 pad to 6 x 9
IMAGES = np.random.default_rng(0).uniform(-1, 1, (2, *WIDE, 3)).astype("float32")
SMALL = {"img_size": list(WIDE), "depth": 3, "num_heads": 4, "window_size": 3, "global_attn_indexes": [1]}
KINDS = {  # name -> (architecture of timm, arguments)
    "classes": ("samvit_base_patch16", {**SMALL, "neck_chans": 24}),
    "no classes": ("samvit_base_patch16", {**SMALL, "neck_chans": 24, "num_classes": 0}),
    "a map": ("samvit_base_patch16", {**SMALL, "neck_chans": 24, "num_classes": 0, "global_pool": ""}),
    "no neck": ("samvit_base_patch16_224", SMALL),
    "no tables": ("samvit_base_patch16", {**SMALL, "neck_chans": 24, "use_rel_pos": False}),
    "other parts": ("samvit_base_patch16", {**SMALL, "init_values": 0.5, "qk_norm": True, "qkv_bias": False}),
}
STD = 0.2  # with larger weights softmax is nearly one-hot, which amplifies rounding


def compared(theirs, ours):
    """Return pairs of timm's and our values: the outputs, the map after the neck, and the map of each block."""
    names = [f"encoder_block_{i:02d}" for i in range(3)]
    as_ours = lambda x: x.numpy().transpose(0, 2, 3, 1) if x.ndim == 4 else x.numpy()  # noqa: E731
    last, blocks = quietly(lambda: theirs.forward_intermediates(nchw(IMAGES)))
    expected = [quietly(lambda: theirs(nchw(IMAGES))), last, *blocks]
    maps = keras_vit.feature_model(ours, ["neck_norm2", *names], as_grid=True)(IMAGES)
    assert maps[1].shape == (2, 5, 7, 96)
    return [(as_ours(one), other) for one, other in zip(expected, [ours(IMAGES), *maps], strict=True)]


@pytest.mark.parametrize("name", quick_first(KINDS, ["classes"], broad=KINDS))
def test_a_file_of_timm_computes_alike_and_goes_back(name, tmp_path, capsys):
    timm = parity.timm()
    architecture, arguments = KINDS[name]
    theirs = timm_folder(timm, architecture, tmp_path / "model", STD, **arguments)
    ours = keras_vit.from_pretrained(tmp_path / "model")
    said = capsys.readouterr().err
    assert "assumed" not in said and "resized" not in said
    assert ours.input_shape == (None, *WIDE, 3)
    for expected, values in compared(theirs, ours):
        assert max_difference(values, expected) < 2e-5 * np.abs(expected).max()
    keras_vit.save_weights(ours, tmp_path / "back", layout="timm")
    assert not capsys.readouterr().err
    again = quietly(lambda: timm.create_model(f"local-dir:{tmp_path / 'back'}", pretrained=True).eval())
    for expected, values in compared(again, ours):
        assert max_difference(values, expected) < 2e-5 * np.abs(expected).max()
    assert max_difference(keras_vit.from_pretrained(tmp_path / "back")(IMAGES), ours(IMAGES)) == 0
    ours.save(tmp_path / "own.keras")
    assert max_difference(keras_vit.from_pretrained(tmp_path / "own.keras", name="own")(IMAGES), ours(IMAGES)) == 0


def test_positions_are_resized_as_timm_resizes_them(tmp_path, capsys):
    """timm's model computes for images of another size than its positions and tables are stored for."""
    theirs = timm_folder(parity.timm(), *KINDS["classes"][:1], tmp_path / "model", STD, **KINDS["classes"][1])
    larger = np.random.default_rng(1).uniform(-1, 1, (1, 64, 144, 3)).astype("float32")
    expected = quietly(lambda: theirs(nchw(larger)).numpy())
    ours = keras_vit.from_pretrained(tmp_path / "model", input_shape=(64, 144, 3))
    assert max_difference(ours(larger), expected) < 2e-5 * np.abs(expected).max()
    said = capsys.readouterr().err
    assert "positions resized from (5, 7) to (4, 9) by 'timm'" in said
    assert "relative positions resized from 9 to 7 offsets" in said and "from 13 to 17 offsets" in said


def metas_arrays(model):
    """The arrays of a model of timm by the names of Meta's code, and some of the rest of its file."""
    names = {name: name.replace("mlp.fc", "mlp.lin") for name in model.state_dict() if not name.startswith("head.")}
    arrays = {f"image_encoder.{new}": model.state_dict()[name].numpy() for name, new in names.items()}
    for name in ("prompt_encoder.pe_layer.positional_encoding_gaussian_matrix", "mask_decoder.iou_token.weight"):
        arrays[name] = np.ones((2, 8), "float32")
    for name in ("mask_decoder.transformer.layers.0.self_attn.q_proj.", "prompt_encoder.point_embeddings.0."):
        arrays |= {f"{name}weight": np.ones((8, 8), "float32"), f"{name}bias": np.ones(8, "float32")}
    return arrays


def test_metas_file_is_read_without_a_config(tmp_path, capsys):
    """Its norms have an epsilon of 1e-6, which timm's class does not have."""
    theirs = timm_folder(parity.timm(), *KINDS["classes"][:1], tmp_path / "timm", STD, **KINDS["classes"][1])
    for block in theirs.blocks:
        block.norm1.eps = block.norm2.eps = 1e-6
    torch_files.save(tmp_path / "sam_vit_b_01ec64.pth", metas_arrays(theirs))
    expected = quietly(lambda: theirs.forward_features(nchw(IMAGES)).numpy()).transpose(0, 2, 3, 1)
    ours = keras_vit.from_pretrained(tmp_path / "sam_vit_b_01ec64.pth")
    assert ours.input_shape == (None, *WIDE, 3) and ours.output_shape == (None, 5, 7, 24)
    assert max_difference(ours(IMAGES), expected) < 2e-5 * np.abs(expected).max()
    said = capsys.readouterr().err
    assert "assumed" not in said
    assert "ignored arrays of the file: mask_decoder (3 arrays), prompt_encoder (3 arrays)" in said
    assert (ours.preprocessing.resize_mode, ours.preprocessing.mean) == ("corner", (0.485, 0.456, 0.406))
    pooled = keras_vit.from_pretrained(tmp_path / "sam_vit_b_01ec64.pth", pooling="gap", classes=3, include_top=True,
                                       strict=False)  # fmt: skip
    assert pooled.output_shape == (None, 3)
    capsys.readouterr()
    keras_vit.save_weights(ours, tmp_path / "back", layout="timm")
    said = capsys.readouterr().err
    assert "its readers assume layer_norm_epsilon=1e-05, the model has 1e-06" in said
    assert "its readers pad images on both ends" in said
    assert max_difference(keras_vit.from_pretrained(tmp_path / "back")(IMAGES), ours(IMAGES)) == 0


@pytest.mark.parametrize("kind", ["SamVisionModel", "SamModel"])
def test_a_folder_of_transformers_computes_alike(kind, tmp_path, capsys):
    transformers = parity.transformers()
    vision = {"hidden_size": 48, "num_hidden_layers": 3, "num_attention_heads": 4, "image_size": 80, "patch_size": 16}
    vision |= {"window_size": 3, "global_attn_indexes": [1], "output_channels": 24, "mlp_dim": 64}
    config = transformers.SamVisionConfig(**vision)
    if kind == "SamModel":
        decoder = {"hidden_size": 24, "mlp_dim": 32, "num_attention_heads": 2, "iou_head_hidden_dim": 16}
        prompt = {"hidden_size": 24, "image_size": 80, "patch_size": 16}
        config = transformers.SamConfig(
            vision_config=config.to_dict(), prompt_encoder_config=prompt, mask_decoder_config=decoder
        )
    theirs = quietly(lambda: getattr(transformers, kind)(config).eval())
    for parameter in theirs.parameters():
        parameter.data.normal_(std=STD)
    quietly(lambda: theirs.save_pretrained(tmp_path / "model"))
    images = IMAGES[:, :, :80]
    expected = quietly(lambda: theirs.vision_encoder(nchw(images)).last_hidden_state.numpy()).transpose(0, 2, 3, 1)
    capsys.readouterr()
    ours = keras_vit.from_pretrained(tmp_path / "model")
    said = capsys.readouterr().err
    assert max_difference(ours(images), expected) < 2e-5 * np.abs(expected).max()
    assert "assumed, because neither" not in said and ("mask_decoder" in said) == (kind == "SamModel")
    with pytest.raises(ValueError, match="layout 'hf' expected a plain ViT, received one with window, neck; timm"):
        keras_vit.save_weights(ours, tmp_path / "back", layout="hf")


def test_a_name_of_timm_finds_its_row():
    for name, row, size in (("samvit_base_patch16", "SAM_B16", 1024), ("samvit_base_patch16_224", "SAM_B16_224", 224),
                            ("samvit_huge_patch16.sa1b", "SAM_H16", 1024)):  # fmt: skip
        found, _ = find_variant(name)
        assert (found.name, found.image_size) == (row, size)


ROW = keras_vit.Variant("tiny", 24, 2, 48, 3, patch_size=8, image_size=32, window=2, global_blocks=(1,), pooling="gap")


@pytest.mark.parametrize(
    ("changes", "options", "sentence"),
    [
        ({}, {"pooling": "token"}, "pooling expected 'gap' or None without a class token or registers"),
        ({"registers": 2}, {}, "pooling expected 'gap' or None without a class token or registers"),
        ({}, {"input_shape": (None, None, 3)}, "input_shape expected a known size with window or neck"),
        ({"rope": keras_vit.Rope()}, {}, "window expected 0 with rope, received 2"),
        ({"relative_bias": "table"}, {}, "window expected 0 with relative_bias, received 2"),
        (
            {"global_blocks": (1, 2)},
            {},
            r"global_blocks expected numbers of the 2 blocks beside a window, received \[2\]",
        ),
        ({"window": 0}, {}, r"global_blocks expected numbers of .* received \[1\] with window=0"),
        ({"global_blocks": (0, 0)}, {}, r"global_blocks expected a tuple of block numbers, received \(0, 0\)"),
        ({"neck": 8}, {"pooling": "map"}, "pooling expected 'gap' or None with a neck"),
        ({"neck": -1}, {}, "neck expected a positive int, 0 or null, received -1"),
        ({"axial": True}, {}, "window expected 0 with axial blocks, received 2"),
    ],
)
def test_a_row_with_parts_that_do_not_go_together_is_refused(changes, options, sentence):
    with pytest.raises(ValueError, match=sentence):
        keras_vit.build(replace(ROW, **changes), classes=3, **options)


def test_layouts_and_tools_without_a_place_for_windows_refuse_them(tmp_path):
    model = keras_vit.build(ROW, classes=3)
    with pytest.raises(ValueError, match="layout 'npz' expected a plain ViT, received one with window; timm's layout"):
        keras_vit.save_weights(model, tmp_path / "model.npz")
    with pytest.raises(ValueError, match="expected windows or decomposed positions in .* a neck .*received neck=None"):
        keras_vit.save_weights(model, tmp_path / "timm", layout="timm")
    with pytest.raises(ValueError, match="positions or convolutions inside the blocks have no place for prompts"):
        adapt_model(model, Adapt("vpt", 2))
    with pytest.raises(ValueError, match="expected a row with a final norm and no neck for masked prediction"):
        build_masked(replace(ROW, neck=8), 3, "mean", input_shape=(32, 32, 3), pooling="gap")
