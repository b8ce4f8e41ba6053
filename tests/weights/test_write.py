"""Weights out again: bit for bit, and readable by the libraries themselves."""

import json
from dataclasses import replace

import numpy as np
import parity
import pytest
from parity import nchw, quietly
from support import GOLDENS, first_quick, golden, max_difference, randomise

import keras_vit

TINY = keras_vit.Variant("tiny", 16, 2, 24, 2, patch_size=4, image_size=8)
HYBRID = keras_vit.Variant("hybrid", 16, 1, 24, 2, patch_size=1, stem=keras_vit.ResNetStem((1, 1), 0.5))
KINDS = {
    "token": (TINY, {}),
    "gap": (TINY, {"pooling": "gap"}),
    "map": (TINY, {"pooling": "map"}),
    "map_with_a_class_token": (TINY, {"pooling": "map", "class_token": True}),
    "representation": (TINY, {"representation_size": 12}),
    "headless": (TINY, {"include_top": False}),
    "sequence": (TINY, {"include_top": False, "pooling": None}),
    "fc_norm": (TINY, {"pooling": "gap", "norm_after_pooling": True}),
    "fc_norm_beside_a_class_token": (TINY, {"pooling": "gap", "norm_after_pooling": True, "class_token": True}),
    "rectangular": (TINY, {"patch_size": (4, 2), "input_shape": (8, 4, 1)}),
    "sincos": (replace(TINY, positions="sincos2d"), {"pooling": "gap"}),
    "sincos_beside_a_class_token": (replace(TINY, positions="sincos2d"), {"input_shape": (8, 12, 3)}),
    "hybrid": (HYBRID, {"input_shape": (32, 32, 3)}),
    "stem_only": (keras_vit.Variant("s", 16, 1, 24, 2, 2, keras_vit.ResNetStem(())), {"input_shape": (16, 16, 3)}),
    "bit": (keras_vit.BiTVariant("bit", (1, 1), 0.5), {"input_shape": (32, 32, 3)}),
}
# Where a layout has no place for a kind, what it says.
REFUSED = {
    **{
        (layout, kind): f"layout '{layout}' expected learned positions, received 'sincos2d'"
        for layout in ("timm", "hf")
        for kind in ("sincos", "sincos_beside_a_class_token")
    },
    ("timm", "representation"): "layout 'timm' has no place for pre_logits/kernel",
    ("timm", "hybrid"): r"layout 'timm' expected a stem of width 1 with units among .*, received \(1, 1\)",
    ("timm", "bit"): r"layout 'timm' expected a BiT among R50x1, .*, received units \(1, 1\), 0.5 times as wide",
    ("linen", "bit"): "layout 'linen' has no place for root/kernel",
    ("npz", "fc_norm"): "layout 'npz' has no place for pooled_norm/gamma",
    ("npz", "fc_norm_beside_a_class_token"): "layout 'npz' has no place for pooled_norm/gamma",
    ("linen", "fc_norm"): "layout 'linen' has no place for pooled_norm/gamma",
    ("linen", "fc_norm_beside_a_class_token"): "layout 'linen' has no place for pooled_norm/gamma",
    ("hf", "representation"): "layout 'hf' expected a classifier on the class token alone",
    ("hf", "fc_norm"): "IJepaForImageClassification is the most similar, received one with norm_after_pooling=True",
    ("hf", "fc_norm_beside_a_class_token"): "the most similar, received one with norm_after_pooling=True; timm's",
    ("hf", "map"): "layout 'hf' expected a model like those of transformers, .* received one with pooling='map'",
    ("hf", "map_with_a_class_token"): "ViTForImageClassification is the most similar, received one with pooling='map'",
    **{("hf", kind): "layout 'hf' expected a ViT without a stem" for kind in ("hybrid", "stem_only")},
}
ENDINGS = {"npz": ".npz", "linen": ".npz", "timm": ".safetensors", "hf": ".safetensors", None: ".keras"}


def make(kind):
    row, options = KINDS[kind]
    defaults = {} if "include_top" in options else {"classes": 5, "classifier_activation": None}
    return randomise(keras_vit.build(row, **{**defaults, **options}))


@pytest.mark.parametrize("layout", ENDINGS, ids=str)
@pytest.mark.parametrize("kind", first_quick(KINDS, 4))
def test_reading_back_is_bit_exact(kind, layout, tmp_path):
    model, path = make(kind), tmp_path / f"weights{ENDINGS[layout]}"
    before = model.get_weights()
    if (layout, kind) in REFUSED:
        with pytest.raises(ValueError, match=REFUSED[layout, kind]):
            keras_vit.save_weights(model, path, layout=layout)
        assert list(tmp_path.iterdir()) == []
        return
    keras_vit.save_weights(model, path, layout=layout)
    other = make(kind)
    other.set_weights([np.zeros_like(w) for w in before])
    report = keras_vit.load_weights(other, path)
    assert not report.conversions and not report.left_over
    restored = keras_vit.from_pretrained(path)
    for weights in (other.get_weights(), restored.get_weights()):
        for old, new in zip(before, weights, strict=True):
            np.testing.assert_array_equal(old, new)
    if layout in ("timm", None):  # whose files say how tokens are pooled
        assert restored.output_shape == model.output_shape
    if layout is None:
        images = np.random.default_rng(0).uniform(-1, 1, (2, *model.input_shape[1:])).astype("float32")
        assert max_difference(restored(images), model(images)) == 0
    written = {file.name for file in tmp_path.iterdir()}
    assert written == {path.name} | ({"weights.config.json"} if path.suffix == ".safetensors" else set())


@pytest.mark.parametrize("name", ["g2", "g3", "g4", "g5b", "h1", "t1", "t1b", "t2", "g6"])
def test_goldens_are_written_as_they_were(name, tmp_path):
    source = next(GOLDENS.glob(f"{name}.weights.*"))
    layout = {"g": "npz", "h": "hf", "t": "timm"}[name[0]]
    if name == "t2":
        pytest.skip("timm itself has no stem of units (1, 1)")
    needed = {"t1": {"num_heads": 3}, "t1b": {"num_heads": 4, "input_shape": (32, 48, 3)}}.get(name, {})
    path = tmp_path / f"again{source.suffix}"
    keras_vit.save_weights(keras_vit.from_pretrained(source, **needed), path, layout=layout)
    old, new = read(source), read(path)
    assert old.keys() == new.keys()
    for key, value in old.items():
        np.testing.assert_array_equal(new[key], value)


def read(path):
    if path.suffix == ".npz":
        with np.load(path) as file:
            return dict(file)
    from safetensors.numpy import load_file

    return load_file(path)


@pytest.mark.parametrize("name", first_quick(["g1", "g3", "h1", "t1", "t1b"]))
def test_timm_itself_gives_the_same_logits(name, tmp_path):
    timm = parity.timm()
    needed = {"t1": {"num_heads": 3}, "t1b": {"num_heads": 4, "input_shape": (32, 48, 3)}}.get(name, {})
    model = keras_vit.from_pretrained(next(GOLDENS.glob(f"{name}.weights.*")), **needed)
    keras_vit.save_weights(model, tmp_path / "model", layout="timm")
    assert_timm_agrees(timm, model, tmp_path / "model", golden(name)["images"], 1e-5)


@pytest.mark.broad
def test_attention_pooling_is_timms_both_ways(tmp_path):
    timm, torch = parity.timm(), pytest.importorskip("torch")
    from safetensors.torch import save_file

    torch.manual_seed(0)
    sizes = {"img_size": 8, "patch_size": 4, "embed_dim": 16, "depth": 2, "num_heads": 2, "mlp_ratio": 1.5}
    theirs = timm.models.VisionTransformer(**sizes, num_classes=5, class_token=False, global_pool="map").eval()
    for parameter in theirs.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    save_file(theirs.state_dict(), tmp_path / "theirs.safetensors")
    model = keras_vit.from_pretrained(tmp_path / "theirs.safetensors", num_heads=2)
    images = np.random.default_rng(0).uniform(-1, 1, (2, 8, 8, 3)).astype("float32")
    assert max_difference(model(images), quietly(lambda: theirs(nchw(images)).numpy())) < 1e-5
    keras_vit.save_weights(model, tmp_path / "model", layout="timm")
    assert read(tmp_path / "model/model.safetensors").keys() == theirs.state_dict().keys()
    assert_timm_agrees(timm, model, tmp_path / "model", images, 1e-5)


@pytest.mark.broad
@pytest.mark.parametrize("name", ["R_ViT_Ti16", "BiT_R50x1"])
def test_timm_itself_runs_hybrids_and_bit(name, tmp_path):
    timm = parity.timm()
    model = randomise(getattr(keras_vit, name)(classes=4, input_shape=(64, 64, 3), classifier_activation=None))
    keras_vit.save_weights(model, tmp_path / "model", layout="timm")
    images = np.random.default_rng(0).uniform(-1, 1, (2, 64, 64, 3)).astype("float32")
    model = keras_vit.from_pretrained(tmp_path / "model")
    # timm standardises kernels by formulas of its own: sqrt(variance + 1e-8), here std + 1e-5 and 1e-10 in BiT.
    scale = float(np.abs(np.asarray(model(images))).max())
    assert_timm_agrees(timm, model, tmp_path / "model", images, 5e-5 * scale)


def assert_timm_agrees(timm, model, folder, images, tolerance):
    theirs = quietly(lambda: timm.create_model(f"local-dir:{folder}", pretrained=True).eval()(nchw(images)).numpy())
    assert max_difference(model(images), theirs) < tolerance


@pytest.mark.parametrize("name", first_quick(["h1", "g1", "t1"]))
def test_transformers_itself_gives_the_same_logits(name, tmp_path):
    transformers = parity.transformers()
    model = keras_vit.from_pretrained(
        next(GOLDENS.glob(f"{name}.weights.*")), **({"num_heads": 3} if name == "t1" else {})
    )
    keras_vit.save_weights(model, tmp_path / "model", layout="hf")
    theirs = quietly(lambda: transformers.AutoModelForImageClassification.from_pretrained(tmp_path / "model").eval())
    images = golden(name)["images"]
    assert max_difference(model(images), quietly(lambda: theirs(nchw(images)).logits.numpy())) < 1e-5
    processor = json.loads((tmp_path / "model" / "preprocessor_config.json").read_text())
    assert processor["size"] == {"height": 32, "width": 32} and processor["image_mean"] == [0.5] * 3


@pytest.mark.broad
def test_transformers_backbone_with_a_pooler(tmp_path):
    transformers = parity.transformers()
    model = randomise(keras_vit.build(TINY, include_top=False, representation_size=16))
    keras_vit.save_weights(model, tmp_path / "model", layout="hf")
    images = np.random.default_rng(0).uniform(-1, 1, (2, 8, 8, 3)).astype("float32")
    theirs = quietly(lambda: transformers.ViTModel.from_pretrained(tmp_path / "model").eval())
    assert max_difference(model(images), quietly(lambda: theirs(nchw(images)).pooler_output.numpy())) < 1e-5


def test_labels_and_activation_survive_in_the_config(tmp_path):
    labels = ("a", "b", "c")
    for layout in ("hf", "timm"):
        model = randomise(keras_vit.build(TINY, classes=3, labels=labels, activation="gelu", layer_norm_epsilon=1e-5))
        keras_vit.save_weights(model, tmp_path / layout, layout=layout)
        restored = keras_vit.from_pretrained(tmp_path / layout, classifier_activation="softmax")
        assert restored.get_layer("head").labels == labels
        images = np.random.default_rng(0).uniform(-1, 1, (2, 8, 8, 3)).astype("float32")
        assert max_difference(restored(images), model(images)) == 0


def test_two_files_in_one_folder_keep_their_own_configs(tmp_path):
    for name, activation in (("a.v1", "gelu"), ("a.v2", "gelu_tanh"), ("model", "relu")):
        path = tmp_path / f"{name}.safetensors"
        keras_vit.save_weights(randomise(keras_vit.build(TINY, activation=activation)), path, layout="hf")
    for name, activation in (("a.v1", "gelu"), ("a.v2", "gelu_tanh"), ("model", "relu")):
        model = keras_vit.from_pretrained(tmp_path / f"{name}.safetensors")
        assert model.get_layer("encoder_block_00").activation == activation
    assert json.loads((tmp_path / "config.json").read_text())["hidden_act"] == "relu"  # what transformers loads


def test_a_free_size_is_written_as_that_of_its_positions(tmp_path):
    model = keras_vit.build(replace(TINY, image_size=12), input_shape=(None, None, 3))
    said = {}
    for layout in ("hf", "timm"):
        keras_vit.save_weights(model, tmp_path / layout, layout=layout)
        said[layout] = json.loads((tmp_path / layout / "config.json").read_text())
    processor = json.loads((tmp_path / "hf" / "preprocessor_config.json").read_text())
    assert said["hf"]["image_size"] == said["timm"]["model_args"]["img_size"] == 12
    assert processor["size"] == {"height": 12, "width": 12}
    assert said["timm"]["pretrained_cfg"]["input_size"] == [3, 12, 12]


def test_what_readers_will_compute_otherwise_is_said(tmp_path, capsys):
    model = keras_vit.build(TINY, activation="gelu", layer_norm_epsilon=1e-12)
    keras_vit.save_weights(model, tmp_path / "weights.npz")
    said = capsys.readouterr().err
    assert "layout 'npz': its readers assume activation='gelu_tanh', the model has 'gelu'." in said
    assert "layout 'npz': its readers assume layer_norm_epsilon=1e-06, the model has 1e-12." in said
    keras_vit.save_weights(model, tmp_path / "hf", layout="hf")
    assert capsys.readouterr().err == ""
    pooled = keras_vit.build(TINY, include_top=False, pooling="gap", class_token=True)
    for layout, path in {"npz": "gap.npz", "linen": "gap.npz", "hf": "hf", "timm": "timm"}.items():
        keras_vit.save_weights(pooled, tmp_path / path, layout=layout)
        note = f"layout {layout!r}: its readers assume pooling='token', the model has 'gap'."
        assert (note in capsys.readouterr().err) == (layout != "timm")  # whose config has a key for it


@pytest.mark.parametrize(
    ("name", "layout", "sentence"),
    [
        ("x.npz", "flax", r"layout expected one of \('npz', 'linen', 'timm', 'hf', 'keras_hub'\), received 'flax'"),
        ("x.safetensors", None, "layout expected one of .* received None"),
        ("x.npz", "timm", "path expected to end in '.safetensors' for layout 'timm', received .*x.npz'"),
        ("x.safetensors", "linen", "path expected to end in '.npz' for layout 'linen'"),
    ],
)
def test_mistakes_get_a_sentence(name, layout, sentence, tmp_path):
    with pytest.raises(ValueError, match=sentence):
        keras_vit.save_weights(keras_vit.build(TINY), tmp_path / name, layout=layout)
    assert list(tmp_path.iterdir()) == []


def test_a_failing_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "weights.npz"
    path.write_text("old")
    monkeypatch.setattr(np.lib.format, "write_array", lambda *_, **__: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        keras_vit.save_weights(keras_vit.build(TINY), path)
    assert path.read_text() == "old" and [file.name for file in tmp_path.iterdir()] == ["weights.npz"]
