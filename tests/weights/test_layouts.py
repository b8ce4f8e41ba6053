"""The other spellings and containers in which the same weights are found."""

import json
import shutil
from dataclasses import replace

import keras
import numpy as np
import pytest
from support import GOLDENS, golden, max_difference, randomise

import keras_vit
from keras_vit.models.variants.vit import S16
from keras_vit.weights.contents import read_contents
from keras_vit.weights.files import open_weights


def arrays(name):
    with np.load(GOLDENS / f"{name}.weights.npz") as file:
        return dict(file)


def save(path, values):
    np.savez(path, **values)
    return path


def logits_of(source, name, **options):
    return max_difference(keras_vit.from_pretrained(source, **options)(golden(name)["images"]), golden(name)["logits"])


def stacked(values):
    """As big_vision's scan keeps them: the blocks of an encoder in one array with a leading depth axis."""
    names = {name.split("encoderblock_0/")[1] for name in values if "encoderblock_0/" in name}
    depth = len({name.split("/")[1] for name in values if "encoderblock_" in name})
    rest = {name: value for name, value in values.items() if "encoderblock_" not in name}
    blocks = {
        f"Transformer/encoderblock/{name}": np.stack(
            [values[f"Transformer/encoderblock_{i}/{name}"] for i in range(depth)]
        )
        for name in names
    }
    return rest | blocks


def without_slot(values):
    """As big_vision keeps positions: at the root, none for the class token, which has its own added."""
    values = dict(values)
    positions = values.pop("Transformer/posembed_input/pos_embedding")
    if "cls" in values:
        values["cls"] = values["cls"] + positions[:, :1]
        positions = positions[:, 1:]
    return values | {"pos_embedding": positions}


def as_bfloat16(value):
    return (value.astype("<f4").view("<u4") >> 16).astype("<u2").view("V2")


@pytest.mark.parametrize("prefix", ["opt/target/", "params/", "params/img/", "img/"])
def test_prefixes_and_what_lies_beside_the_weights(prefix, tmp_path):
    values = {prefix + name: value for name, value in arrays("g3_linen").items()}
    beside = {"opt/state/step": np.zeros(1, "float32"), "params/txt/head/kernel": np.ones((2, 2), "float32")}
    path = save(tmp_path / "weights.npz", values | beside)
    assert logits_of(path, "g3") < 2e-5
    with open_weights(path) as file:
        assert read_contents(file).ignored == sorted(beside)


def test_big_vision_stacks_blocks_and_keeps_no_slot_for_the_class_token(tmp_path):
    linen = tmp_path / "linen.npz"
    keras_vit.save_weights(keras_vit.from_pretrained(GOLDENS / "g1.weights.npz"), linen, layout="linen")
    with np.load(linen) as file:
        values = dict(file)
    for name, found in {"root": without_slot(values), "scan": without_slot(stacked(values))}.items():
        path = save(tmp_path / f"{name}.npz", found)
        assert logits_of(path, "g1") < 2e-5
    assert logits_of(save(tmp_path / "slot.npz", stacked(values)), "g1") < 2e-5
    model = keras_vit.from_pretrained(path)
    assert model.get_layer("position_embedding").conversion == "the class token's position is zeros"
    values["pos_embedding"] = values.pop("Transformer/posembed_input/pos_embedding")
    assert logits_of(save(tmp_path / "root_slot.npz", stacked(values)), "g1") < 2e-5


def test_an_official_file_without_positions_has_the_fixed_ones(tmp_path):
    s16 = replace(S16, depth=1, positions="sincos2d")
    model = randomise(keras_vit.build(s16, pooling="gap", classes=3, classifier_activation=None))
    keras_vit.save_weights(model, tmp_path / "linen.npz", layout="linen")
    with np.load(tmp_path / "linen.npz") as file:
        values = dict(file)
    assert not [name for name in values if "pos" in name]
    images = np.random.default_rng(0).uniform(-1, 1, (1, 224, 224, 3)).astype("float32")
    for name, found in {"simple": values, "scan": stacked(values)}.items():
        path = save(tmp_path / f"{name}.npz", {f"params/{key}": value for key, value in found.items()})
        restored = keras_vit.from_pretrained(path, num_heads=6)
        assert restored.input_shape == (None, None, None, 3)  # nothing in the file is of one size
        assert max_difference(restored(images), model(images)) < 2e-5
        fixed = keras_vit.from_pretrained(path, num_heads=6, input_shape=(32, 48, 3))
        assert fixed.get_layer("position_embedding").grid == (2, 3)
    with pytest.raises(ValueError, match=r"missing from the file: position_embedding/embedding"):
        keras_vit.load_weights(
            keras_vit.build(replace(s16, positions="learned"), pooling="gap", classes=3), tmp_path / "linen.npz"
        )
    for other, kind in {"none": "NoPositions", "sincos2d_mae": "MAEPositions"}.items():
        model = keras_vit.build(replace(s16, positions=other), pooling="gap", classes=3)
        with pytest.raises(ValueError, match=f"a model with {kind}, received .* build the model with .*='sincos2d'"):
            keras_vit.load_weights(model, tmp_path / "linen.npz")


def test_a_torch_file_without_positions_is_refused(tmp_path):
    from safetensors.numpy import load_file, save_file

    values = load_file(GOLDENS / "t1.weights.safetensors")
    del values["pos_embed"]
    save_file(values, tmp_path / "t1.safetensors")
    with pytest.raises(
        ValueError,
        match="source expected a position embedding, or a config that names a model with rotary",
    ):
        keras_vit.from_pretrained(tmp_path / "t1.safetensors", num_heads=3)


def test_bfloat16_as_raw_bytes(tmp_path):
    exact = arrays("g3_linen")
    rounded = {name: (value.view("<u4") & 0xFFFF0000).view("<f4") for name, value in exact.items()}
    expected = keras_vit.from_pretrained(save(tmp_path / "rounded.npz", rounded))
    for name, values in {"plain": rounded, "stacked": stacked(rounded)}.items():
        path = save(tmp_path / f"{name}.npz", {key: as_bfloat16(value) for key, value in values.items()})
        with np.load(path) as file:
            assert {value.dtype.kind for value in file.values()} == {"V"}
        images = golden("g3")["images"]
        assert max_difference(keras_vit.from_pretrained(path)(images), expected(images)) < 1e-6


def test_a_map_head_and_its_old_place_at_the_root(tmp_path):
    variant = keras_vit.Variant("tiny", 16, 2, 24, 2, patch_size=4, image_size=8)
    model = keras_vit.build(variant, pooling="map", classes=3, classifier_activation=None)
    rng = np.random.default_rng(0)
    model.set_weights([rng.normal(size=w.shape).astype("float32") for w in model.get_weights()])
    keras_vit.save_weights(model, tmp_path / "map.npz", layout="linen")
    with np.load(tmp_path / "map.npz") as file:
        values = dict(file)
    old = {name.removeprefix("MAPHead_0/"): value for name, value in values.items()}
    images = rng.uniform(-1, 1, (2, 8, 8, 3)).astype("float32")
    for path in (tmp_path / "map.npz", save(tmp_path / "old.npz", old)):
        restored = keras_vit.from_pretrained(path)
        assert max_difference(restored(images), model(images)) == 0


def test_bits_numbered_names_and_the_distilled_ones(tmp_path):
    values = arrays("g6")
    numbered = {
        name.replace("/standardized_conv2d/", f"/standardized_conv2d_{i}/"): value
        for i, (name, value) in enumerate(values.items())
    }
    assert logits_of(save(tmp_path / "numbered.npz", numbered), "g6") < 1e-4
    letters = {"a": 1, "b": 2, "c": 3}
    distilled = {}
    for name, value in values.items():
        name = name.removeprefix("resnet/").replace("a/proj/standardized_conv2d", "conv_proj")
        for letter, number in letters.items():
            name = name.replace(f"/{letter}/standardized_conv2d", f"/conv{number}")
            name = name.replace(f"/{letter}/group_norm", f"/gn{number}")
        name = name.replace("root_block/standardized_conv2d", "root_block/conv_root").replace("head/conv2d", "head")
        name = name.replace("group_norm", "norm-pre-head").replace("gamma", "scale").replace("beta", "bias")
        distilled[name] = value.reshape(1, 1, 1, -1) if "gn" in name or "norm-pre-head" in name else value
    assert {"block1/unit01/gn1/scale", "block1/unit01/conv_proj/kernel", "norm-pre-head/bias"} <= set(distilled)
    assert logits_of(save(tmp_path / "distilled.npz", distilled), "g6") < 1e-4


def test_transformers_backbone_without_prefix_and_with_a_pooler(tmp_path):
    from safetensors.numpy import load_file, save_file

    values = load_file(GOLDENS / "h1.weights.safetensors")
    bare = {name.removeprefix("vit."): value for name, value in values.items() if "classifier" not in name}
    folder = tmp_path / "bare"
    folder.mkdir()
    save_file(bare, folder / "model.safetensors")
    shutil.copy(GOLDENS / "h1.config.json", folder / "config.json")
    features = keras_vit.from_pretrained(folder)
    assert max_difference(features(golden("h1")["images"]), golden("h1")["pre_logits"]) < 2e-5
    pooler = {"pooler.dense.weight": np.eye(48, dtype="float32"), "pooler.dense.bias": np.zeros(48, "float32")}
    save_file(bare | pooler, folder / "model.safetensors")
    pooled = keras_vit.from_pretrained(folder)
    assert max_difference(pooled(golden("h1")["images"]), np.tanh(golden("h1")["pre_logits"])) < 2e-5


def test_several_files_under_an_index(tmp_path):
    from safetensors.numpy import load_file, save_file

    values = load_file(GOLDENS / "h1.weights.safetensors")
    halves = [dict(list(values.items())[:30]), dict(list(values.items())[30:])]
    where = {}
    for i, half in enumerate(halves):
        save_file(half, tmp_path / f"part-{i}.safetensors")
        where |= dict.fromkeys(half, f"part-{i}.safetensors")
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": where}))
    shutil.copy(GOLDENS / "h1.config.json", tmp_path / "config.json")
    assert logits_of(tmp_path, "h1") < 2e-5
    where["classifier.bias"] = "../part-0.safetensors"
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": where}))
    with pytest.raises(ValueError, match="expected an index of files in its own folder, received '../part-0"):
        keras_vit.from_pretrained(tmp_path)


def test_bfloat16_safetensors(tmp_path):
    import ml_dtypes
    from safetensors.numpy import load_file, save_file

    values = load_file(GOLDENS / "t1.weights.safetensors")
    save_file({name: value.astype(ml_dtypes.bfloat16) for name, value in values.items()}, tmp_path / "t1.safetensors")
    assert logits_of(tmp_path / "t1.safetensors", "t1", num_heads=3) < 0.1


def test_torch_files_are_opened_without_unpickling(tmp_path):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    from safetensors.torch import load_file

    state = load_file(GOLDENS / "t1.weights.safetensors")
    for name, content in {"plain.pth": state, "nested.bin": {"epoch": 3, "state_dict": state}}.items():
        torch.save(content, tmp_path / name)
        assert logits_of(tmp_path / name, "t1", num_heads=3) < 2e-5

    class Surprise:
        def __reduce__(self):
            return (print, ("unpickled",))

    torch.save({"model": Surprise()}, tmp_path / "surprise.pth")
    with pytest.raises(ValueError, match="expected a torch file of tensors and plain values, received .*print"):
        keras_vit.from_pretrained(tmp_path / "surprise.pth")


def test_our_own_files(tmp_path):
    model = keras_vit.from_pretrained(GOLDENS / "g5.weights.npz")
    images, expected = golden("g5")["images"], golden("g5")["logits"]
    for name in ("model.keras", "model.weights.h5"):
        keras_vit.save_weights(model, tmp_path / name)
        other = keras.models.clone_model(model)
        keras_vit.load_weights(other, tmp_path / name)
        assert max_difference(other(images), model(images)) == 0
    assert logits_of(tmp_path / "model.keras", "g5") < 3e-5
    larger = keras_vit.from_pretrained(tmp_path / "model.keras", input_shape=(96, 96, 3), classes=4)
    assert larger.output_shape == (None, 4)
    assert larger.get_layer("position_embedding").grid == (6, 6)
    with pytest.raises(ValueError, match="expected a file that states its architecture, .*build the model"):
        keras_vit.from_pretrained(tmp_path / "model.weights.h5")
    with pytest.raises(ValueError, match="expected a Keras file that fits"):
        keras_vit.load_weights(keras_vit.from_pretrained(GOLDENS / "g1.weights.npz"), tmp_path / "model.weights.h5")
    assert expected.shape == (3, 6)


@pytest.mark.parametrize(
    ("file", "options", "sentence"),
    [
        ("t1.weights.safetensors", {}, r"num_heads expected .* does not say \(width 48, 3 blocks\), received None"),
        ("t1b.weights.safetensors", {"num_heads": 4}, r"input_shape expected .* or source_grid .* 24 positions"),
        (
            "t1b.weights.safetensors",
            {"num_heads": 4, "input_shape": (64, 64, 3)},
            "source_grid expected .* of a grid that is not square, received 24 tokens",
        ),
    ],
)
def test_ambiguity_names_the_option_that_settles_it(file, options, sentence):
    with pytest.raises(ValueError, match=sentence):
        keras_vit.from_pretrained(GOLDENS / file, **options)


def test_the_grid_of_a_file_that_could_be_square_or_not_is_asked_for(tmp_path):
    variant = keras_vit.Variant("tiny", 16, 1, 24, 2, patch_size=4)
    wide = keras_vit.build(variant, input_shape=(8, 32, 3), classes=3)
    wide.get_layer("head").kernel.assign(np.ones((16, 3), "float32"))
    keras_vit.save_weights(wide, tmp_path / "wide.npz")
    with pytest.raises(ValueError, match=r"source_grid expected \(4, 4\) or \(2, 8\)"):
        keras_vit.load_weights(wide, tmp_path / "wide.npz")
    report = keras_vit.load_weights(wide, tmp_path / "wide.npz", source_grid=(2, 8))
    assert not report.conversions
    for layout in ("hf", "timm"):  # whose config has the size
        keras_vit.save_weights(wide, tmp_path / layout, layout=layout)
        assert keras_vit.from_pretrained(tmp_path / layout).get_layer("position_embedding").grid == (2, 8)
        assert not keras_vit.load_weights(wide, tmp_path / layout).conversions
    report = keras_vit.load_weights(wide, tmp_path / "wide.npz", source_grid=(4, 4))
    assert report.conversions == ["positions resized from (4, 4) to (2, 8) by 'official'"]


def test_a_config_of_another_model_is_refused(tmp_path):
    shutil.copy(GOLDENS / "h1.weights.safetensors", tmp_path / "model.safetensors")
    config = json.loads((GOLDENS / "h1.config.json").read_text())
    for change, sentence in (
        ({"hidden_size": 64}, "the config of .* expected width=48, as in the arrays, received 64"),
        ({"hidden_act": "tanhshrink"}, "expected a known 'hidden_act', received 'tanhshrink'"),
        ({"patch_size": "eight"}, "expected a known 'patch_size', received 'eight'"),
    ):
        (tmp_path / "config.json").write_text(json.dumps(config | change))
        with pytest.raises(ValueError, match=sentence):
            keras_vit.from_pretrained(tmp_path)
    (tmp_path / "config.json").write_text("[1, 2]")
    with pytest.raises(ValueError, match=r"expected a JSON object in .*received \[1, 2\]"):
        keras_vit.from_pretrained(tmp_path)


def test_labels_come_from_the_config(tmp_path):
    shutil.copy(GOLDENS / "h1.weights.safetensors", tmp_path / "model.safetensors")
    config = json.loads((GOLDENS / "h1.config.json").read_text())
    config["id2label"] = {str(i): f"animal {i}" for i in range(7)}
    (tmp_path / "config.json").write_text(json.dumps(config))
    labels = keras_vit.from_pretrained(tmp_path).get_layer("head").labels
    assert labels == tuple(f"animal {i}" for i in range(7))
