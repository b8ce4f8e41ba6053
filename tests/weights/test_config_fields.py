"""What a file does not say: a config, an architecture's name, an option, or a printed assumption."""

import json

import numpy as np
import pytest
from support import GOLDENS, max_difference, randomise

import keras_vit

T1 = GOLDENS / "t1.weights.safetensors"
TINY = keras_vit.Variant("tiny", 48, 1, 96, 3, patch_size=8, image_size=32)
S16 = keras_vit.Variant("small", 384, 1, 64, 12, patch_size=16, image_size=32)


def written(folder, model, config):
    keras_vit.save_weights(model, folder, layout="timm")
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def tiny(**options):
    row = keras_vit.Variant("tiny", 48, 1, 96, options.pop("num_heads", 3), patch_size=8, image_size=32)
    return randomise(keras_vit.build(row, **{"classes": 3, "classifier_activation": None, **options}))


def images():
    return np.random.default_rng(0).uniform(-1, 1, (2, 32, 32, 3)).astype("float32")


def test_the_architecture_decides_heads_activation_and_pooling(tmp_path, capsys):
    model = tiny(num_heads=12, activation="gelu_tanh", pooling="gap")
    folder = written(tmp_path / "siglip", model, {"architecture": "vit_base_patch32_siglip_gap_256"})
    restored = keras_vit.from_pretrained(folder)
    block = restored.get_layer("encoder_block_00")
    assert (block.num_heads, block.activation) == (12, "gelu_tanh")
    assert max_difference(restored(images()), model(images())) == 0
    assert "neither the file" not in capsys.readouterr().err

    model = tiny(num_heads=16, activation="gelu", pooling="gap")
    folder = written(tmp_path / "gap", model, {"architecture": "vit_base_patch16_gap_224"})
    assert max_difference(keras_vit.from_pretrained(folder)(images()), model(images())) == 0
    with pytest.raises(ValueError, match="num_heads expected 16, as in .*, received 12 in 'encoder_block_00'"):
        keras_vit.load_weights(tiny(num_heads=12, activation="gelu", pooling="gap"), folder)

    model = tiny(num_heads=12, activation="gelu", pooling="gap", class_token=True)
    config = {"architecture": "vit_base_patch16_224", "global_pool": "avg"}
    folder = written(tmp_path / "avg", model, config)
    assert max_difference(keras_vit.from_pretrained(folder)(images()), model(images())) == 0


def test_model_args_win_over_the_architecture(tmp_path):
    model = tiny(num_heads=4, activation="silu")
    arguments = {"num_heads": 4, "act_layer": "silu"}
    config = {"architecture": "vit_base_patch32_siglip_gap_256", "model_args": arguments, "global_pool": "token"}
    restored = keras_vit.from_pretrained(written(tmp_path, model, config))
    assert max_difference(restored(images()), model(images())) == 0
    (tmp_path / "config.json").write_text(json.dumps(config | {"model_args": arguments | {"norm_layer": "batchnorm"}}))
    with pytest.raises(ValueError, match="expected 'model_args.norm_layer' to be one of .*, received 'batchnorm'"):
        keras_vit.from_pretrained(tmp_path)


def test_what_nothing_states_is_assumed_aloud(tmp_path, capsys):
    keras_vit.save_weights(randomise(keras_vit.build(S16, classes=3, activation="gelu")), tmp_path, layout="timm")
    (tmp_path / "config.json").unlink()
    with pytest.raises(ValueError, match="num_heads expected the number of attention heads"):
        keras_vit.from_pretrained(tmp_path)
    capsys.readouterr()
    keras_vit.from_pretrained(T1, num_heads=3)
    said = capsys.readouterr().err
    assumed = "assumed, because neither the file nor its config states them: "
    assert assumed + "activation='gelu', layer_norm_epsilon=1e-06, pooling='token'" in said
    unseen = "no rotary positions, and norms at the start of the branches, which no array shows"
    assert f"assumed, because no config names the architecture: {unseen}" in said
    keras_vit.from_pretrained(T1, num_heads=3, activation="gelu", layer_norm_epsilon=1e-6, pooling="token")
    assert assumed not in capsys.readouterr().err
    model = keras_vit.from_pretrained(T1, num_heads=3, activation="gelu_tanh")
    assert "the model has activation" not in capsys.readouterr().err
    assert model.get_layer("encoder_block_00").activation == "gelu_tanh"
    report = keras_vit.load_weights(model, T1)
    assert "the model has activation='gelu_tanh', files of this layout come from 'gelu'" in report.notes
    assert any("num_heads=3" in note for note in report.notes)


def test_heads_taken_from_a_model_of_the_same_sizes_are_assumed_aloud(tmp_path, capsys):
    """As of MoCo v3's ViT-S, which has 12 heads at the width where everyone else has 6."""
    model = keras_vit.ViT_Ti16(classes=3, input_shape=(32, 32, 3), activation="gelu")
    keras_vit.save_weights(randomise(model), tmp_path, layout="timm")
    (tmp_path / "config.json").unlink()
    keras_vit.from_pretrained(tmp_path)
    assert "num_heads=3" in capsys.readouterr().err
    assert keras_vit.from_pretrained(tmp_path, num_heads=6).get_layer("encoder_block_00").num_heads == 6
    assert "num_heads=" not in capsys.readouterr().err


def test_official_files_leave_nothing_to_assume(capsys):
    keras_vit.from_pretrained(GOLDENS / "g1.weights.npz")
    assert capsys.readouterr().err == ""


def test_a_pooler_of_another_activation_and_another_model_type_are_refused(tmp_path):
    model = randomise(keras_vit.build(TINY, include_top=False, representation_size=48))
    keras_vit.save_weights(model, tmp_path, layout="hf")
    config = json.loads((tmp_path / "config.json").read_text())
    keras_vit.from_pretrained(tmp_path)
    for key, value, sentence in (
        ("pooler_act", "gelu", "expected 'pooler_act' to be 'tanh', the only one that is supported, received 'gelu'"),
        ("model_type", "flava_image_model", "expected 'model_type' to be one of .*, received 'flava_image_model'"),
    ):
        (tmp_path / "config.json").write_text(json.dumps(config | {key: value}))
        with pytest.raises(ValueError, match=sentence):
            keras_vit.from_pretrained(tmp_path)
        with pytest.raises(ValueError, match=sentence):
            keras_vit.load_weights(model, tmp_path)
