"""Parameter-efficient fine-tuning of a model: what is added, what it computes, and the files of adapters."""

import importlib.util
import json
from dataclasses import replace

import keras
import numpy as np
import parity
import pytest
from safetensors.numpy import load_file
from support import first_quick, max_difference, needs_tensorflow, randomise, run_python, trained_on_cpu

import keras_vit
from keras_vit.models.adapt import adapt_model, adapted_variables, merge_adapters
from keras_vit.models.adapt_settings import RANKS, Adapt
from keras_vit.private import stored_kernel

ROW = keras_vit.Variant("tiny", width=16, depth=2, mlp_dim=24, num_heads=2, patch_size=4, image_size=8)
IMAGES = np.random.default_rng(0).uniform(-1, 1, (3, 8, 8, 3)).astype("float32")
ALL = ("query", "key", "value", "out", "mlp")


def built(row=ROW, **options):
    return randomise(keras_vit.build(row, classes=5, **options))


def trained(model, kind, seed=1):
    """Change the variables that a kind trains, as a training does."""
    rng = np.random.default_rng(seed)
    for variable in adapted_variables(model, kind):
        variable.assign(variable + 0.3 * rng.standard_normal(variable.shape).astype("float32"))
    return model


def adapted(kind, row=ROW, **settings):
    return trained(adapt_model(built(row), Adapt(kind, **settings)), kind)


MERGED = [("lora", {"where": ALL}), ("lora", {}), ("ssf", {})]
KINDS = [("lora", {"where": ALL}), ("lora", {}), *((kind, {}) for kind in RANKS if kind != "lora")]


@pytest.mark.parametrize(("kind", "settings"), KINDS, ids=str)
def test_a_file_and_a_keras_file_have_all_that_a_kind_trains(kind, settings, tmp_path):
    plain = built()
    start = adapt_model(built(), Adapt(kind, **settings))
    assert (max_difference(start(IMAGES), plain(IMAGES)) == 0) == (kind != "vpt")  # prompts are tokens from the start
    model = trained(start, kind)
    answer = model(IMAGES)
    assert max_difference(answer, plain(IMAGES)) > 0.05
    model.save(tmp_path / "model.keras")
    assert max_difference(keras.saving.load_model(tmp_path / "model.keras")(IMAGES), answer) == 0
    keras_vit.save_adapter(model, tmp_path / "adapter.safetensors", kind if kind in ("bitfit", "probe") else None)
    other = built(ROW)
    assert max_difference(keras_vit.load_adapter(other, tmp_path / "adapter.safetensors")(IMAGES), answer) == 0
    assert max_difference(other(IMAGES), plain(IMAGES)) == 0  # the base stays as it is


@pytest.mark.parametrize(("kind", "settings"), MERGED, ids=str)
def test_merged_equals_unmerged(kind, settings):
    model = adapted(kind, **settings)
    merged = merge_adapters(model)
    assert max_difference(merged(IMAGES), model(IMAGES)) < 1e-6
    assert 0 < max_difference(model(IMAGES, training=True), model(IMAGES)) < 1e-6  # not merged in training
    assert [variable.path for variable in merged.variables] == [variable.path for variable in built().variables]
    assert len(merged.trainable_variables) == len(merged.variables)


@pytest.mark.broad
@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_merged_equals_unmerged_on_other_backends(backend):
    pytest.importorskip(backend)
    options = [__file__, "-q", "-p", "no:cacheprovider", "-k", "test_merged_equals_unmerged and not backends"]
    assert "3 passed" in run_python(f"import pytest, sys; sys.exit(pytest.main({options}))", backend)


def test_query_and_value_have_adapters_apart():
    """The kernel by NumPy: two products in two thirds, and the third of the keys as it was."""
    model, plain = adapted("lora", rank=3, alpha=6.0), built()
    dense = model.get_layer("encoder_block_01").attention.qkv
    a, b = (np.array(x) for x in (dense.lora_kernel_a, dense.lora_kernel_b))
    assert a.shape == (16, 6) and b.shape == (3, 32)
    added = np.concatenate([a[:, :3] @ b[:, :16], np.zeros((16, 16)), a[:, 3:] @ b[:, 16:]], axis=1)
    expected = np.array(plain.get_layer("encoder_block_01").attention.qkv.kernel) + 2.0 * added
    assert max_difference(dense.kernel, expected) < 1e-6 and max_difference(dense.merged_kernel(), expected) < 1e-6
    x = np.random.default_rng(3).normal(size=(7, 16)).astype("float32")
    for training in (False, True):
        assert max_difference(dense(x, training=training), x @ expected + np.array(dense.bias)) < 1e-5


def test_factors_scale_the_outputs_of_every_dense_layer():
    model = adapted("ssf")
    dense = model.get_layer("encoder_block_00").mlp.fc1
    expected = np.array(stored_kernel(dense)) * np.array(dense.output_scale)
    assert max_difference(dense.kernel, expected) < 1e-7
    assert sum(variable.path.endswith("output_scale") for variable in adapted_variables(model, "ssf")) == 2 * 4


def test_the_bottleneck_is_adaptformers():
    mlp = adapted("adapter", rank=3).get_layer("encoder_block_00").mlp
    plain = built().get_layer("encoder_block_00").mlp
    x = np.random.default_rng(3).normal(size=(2, 5, 16)).astype("float32")
    down, up = ([np.array(v) for v in part.variables] for part in (mlp.down, mlp.up))
    expected = np.array(plain(x)) + 0.1 * (np.maximum(x @ down[0] + down[1], 0) @ up[0] + up[1])
    assert down[0].shape == (16, 3) and max_difference(mlp(x), expected) < 1e-5


def test_prompts_are_new_in_every_block():
    """The blocks called by hand: class token, prompts of the block, patches."""
    model, plain = adapted("vpt", rank=2), built()
    tokens = keras.Model(plain.input, plain.get_layer("embedding_dropout").output)(IMAGES)
    for i in range(2):
        token = np.repeat(np.array(model.get_layer(f"prompts_{i:02d}").token), 3, axis=0)
        rest = tokens[:, 1 + 2 * bool(i) :]
        tokens = keras.ops.concatenate([tokens[:, :1], token, rest], axis=1)
        tokens = plain.get_layer(f"encoder_block_{i:02d}")(tokens)
    features = plain.get_layer("encoder_norm")(tokens)[:, 0]
    logits = features @ np.array(model.get_layer("head").kernel) + np.array(model.get_layer("head").bias)
    assert max_difference(model(IMAGES), keras.ops.softmax(logits)) < 1e-6
    assert keras_vit.token_layout(model).prefix == ("class", "prompt_0", "prompt_1")


ROPE = replace(ROW, rope=keras_vit.Rope(coordinates="centers", pairs="halves"), qkv_bias="qv", positions="none")


@pytest.mark.parametrize(
    "row", first_quick([replace(ROW, registers=2, gated_mlp=True, activation="silu"), ROPE], 1), ids=str
)
@pytest.mark.parametrize("kind", ["lora", "ssf", "adapter", "vpt"])
def test_other_rows_are_adapted_too(row, kind, tmp_path):
    model = trained(adapt_model(built(row, pooling="gap"), Adapt(kind)), kind)
    keras_vit.save_adapter(model, tmp_path / "a.safetensors")
    loaded = keras_vit.load_adapter(built(row, pooling="gap"), tmp_path / "a.safetensors")
    assert max_difference(loaded(IMAGES), model(IMAGES)) == 0
    if kind == "vpt":  # behind the class token and the registers, before the patches
        prefix = keras_vit.token_layout(model).prefix
        assert prefix[-10:] == tuple(f"prompt_{i}" for i in range(10)) and model.get_layer(
            "pooling"
        ).prefix_tokens == len(prefix)
    if kind in ("lora", "ssf"):
        assert max_difference(merge_adapters(model)(IMAGES), model(IMAGES)) < 1e-6


@needs_tensorflow
@pytest.mark.parametrize(("kind", "settings"), MERGED, ids=str)
def test_the_faster_training_forms_have_the_adapters(kind, settings):
    model = adapted(kind, **settings)
    expected = model(IMAGES, training=True)
    with trained_on_cpu(model):
        assert max_difference(model(IMAGES, training=True), expected) < 1e-6
    assert max_difference(keras_vit.compiled(model, frozen=True)(IMAGES), model(IMAGES)) < 1e-6


def test_enable_lora_is_for_model_fit_what_a_recipe_has(tmp_path):
    model = built()
    model.enable_lora(rank=4, where=("query", "value", "mlp"))
    settings = Adapt("lora", rank=4, where=("query", "value", "mlp"))
    same = adapted_variables(adapt_model(built(), settings), "lora")
    assert [v.path for v in model.trainable_variables] == [v.path for v in same]
    before = {variable.path: np.array(variable) for variable in model.variables}
    model.compile(keras.optimizers.SGD(1.0), "sparse_categorical_crossentropy")
    model.fit(IMAGES, np.arange(3), epochs=2, verbose=0)
    changed = {variable.path for variable in model.variables if not np.array_equal(variable, before[variable.path])}
    assert changed == {variable.path for variable in model.trainable_variables}
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    assert [v.path for v in again.trainable_variables] == [v.path for v in model.trainable_variables]
    assert max_difference(merge_adapters(again)(IMAGES), model(IMAGES)) < 1e-6


def test_the_gradient_of_adapters_is_that_of_the_merged_kernel():
    """dA = dW B^T and dB = A^T dW by the chain rule, from the gradient of the merged model."""
    tf = pytest.importorskip("tensorflow", reason="TensorFlow is not installed")
    if keras.backend.backend() != "tensorflow":
        pytest.skip("TensorFlow's gradient")
    model = adapted("lora", rank=2)
    merged = merge_adapters(model)

    def gradients(model, variables):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(model(IMAGES, training=True)[:, 0])
        return [np.array(x) for x in tape.gradient(loss, [variable.value for variable in variables])]

    dense = model.get_layer("encoder_block_00").attention.qkv
    by_a, by_b = gradients(model, [dense.lora_kernel_a, dense.lora_kernel_b])
    (by_kernel,) = gradients(merged, [merged.get_layer("encoder_block_00").attention.qkv.kernel])
    a, b = np.array(dense.lora_kernel_a)[:, 2:], np.array(dense.lora_kernel_b)[:, 16:]  # of the values
    assert max_difference(by_a[:, 2:], by_kernel[:, 32:] @ b.T) < 1e-6
    assert max_difference(by_b[:, 16:], a.T @ by_kernel[:, 32:]) < 1e-6


def test_a_file_of_s16_has_pefts_names_and_less_than_a_megabyte(tmp_path):
    model = keras_vit.ViT_S16(classes=100, input_shape=(32, 32, 3))
    model.enable_lora(rank=8)
    keras_vit.save_adapter(model, tmp_path / "adapter.safetensors", base="google/vit-small")
    assert (tmp_path / "adapter.safetensors").stat().st_size < 1_000_000
    arrays = load_file(tmp_path / "adapter.safetensors")
    name = "base_model.model.vit.layers.11.attention.v_proj.lora_{}.weight"
    assert arrays[name.format("A")].shape == (8, 384) and arrays[name.format("B")].shape == (384, 8)
    assert arrays["base_model.model.classifier.weight"].shape == (100, 384)
    assert len(arrays) == 12 * 2 * 2 + 2
    keras_vit.save_adapter(model, tmp_path / "older" / "a.safetensors", transformers=4)
    older = load_file(tmp_path / "older" / "a.safetensors")
    older_name = "base_model.model.vit.encoder.layer.11.attention.attention.value.lora_A.weight"
    assert np.array_equal(older[older_name], arrays[name.format("A")])
    config = json.loads((tmp_path / "adapter_config.json").read_text())
    assert (config["peft_type"], config["r"], config["lora_alpha"]) == ("LORA", 8, 8)
    assert config["base_model_name_or_path"] == "google/vit-small" and config["modules_to_save"] == ["classifier"]


def test_another_classifier_comes_with_its_labels(tmp_path):
    model = adapt_model(keras_vit.build(ROW, classes=2, labels=("cat", "dog")), Adapt())
    keras_vit.save_adapter(trained(model, "lora"), tmp_path / "pets")
    loaded = keras_vit.load_adapter(keras_vit.build(ROW, classes=5), tmp_path / "pets")
    assert loaded.get_layer("head").labels == ("cat", "dog") and loaded.output_shape == (None, 2)


@pytest.fixture
def of_transformers(tmp_path):
    """Our model with LoRA, and transformers' ViT with the weights of its base."""
    transformers = parity.transformers()
    base = built()
    keras_vit.save_weights(base, tmp_path / "base", layout="hf")
    return base, parity.quietly(
        lambda: transformers.ViTForImageClassification.from_pretrained(tmp_path / "base").eval()
    )


def peft_module():
    parity.transformers()
    if importlib.util.find_spec("peft") is None:
        pytest.skip("peft is not installed")
    import peft

    return peft


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("where", [("query", "value"), ALL, ("mlp",), ("key", "out")], ids=str)
def test_peft_loads_a_folder_onto_transformers_vit(where, of_transformers, tmp_path):
    peft = peft_module()
    base, theirs = of_transformers
    model = trained(adapt_model(base, Adapt(rank=3, alpha=7.0, where=where)), "lora")
    keras_vit.save_adapter(model, tmp_path / "adapter")
    loaded = parity.quietly(lambda: peft.PeftModel.from_pretrained(theirs, str(tmp_path / "adapter")).eval())
    logits = parity.quietly(lambda: loaded(parity.nchw(IMAGES)).logits.softmax(-1).numpy())
    assert max_difference(model(IMAGES), logits) < 1e-5


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("rslora", [False, True])
def test_a_folder_of_peft_is_read(rslora, of_transformers, tmp_path):
    peft = peft_module()
    import torch

    base, theirs = of_transformers
    options = {"target_modules": ["query", "value", "q_proj", "v_proj"], "modules_to_save": ["classifier"]}
    adapted = peft.get_peft_model(theirs, peft.LoraConfig(r=4, lora_alpha=6, use_rslora=rslora, **options)).eval()
    torch.manual_seed(0)
    for name, parameter in adapted.named_parameters():
        if "lora_" in name or "classifier" in name:
            parameter.data.normal_(std=0.2)
    adapted.save_pretrained(tmp_path / "peft")
    logits = parity.quietly(lambda: adapted(parity.nchw(IMAGES)).logits.softmax(-1).numpy())
    assert max_difference(keras_vit.load_adapter(base, tmp_path / "peft")(IMAGES), logits) < 1e-5


def test_adapters_of_timms_fused_kernel_are_read(tmp_path):
    """One pair for query, key and value together, as peft has it for timm's `qkv`."""
    from safetensors.numpy import save_file

    rng = np.random.default_rng(0)
    a, b = (rng.normal(size=shape).astype("float32") for shape in ((2, 16), (48, 2)))
    name = "base_model.model.blocks.1.attn.qkv.lora_{}.weight"
    save_file({name.format("A"): a, name.format("B"): b}, tmp_path / "adapter_model.safetensors")
    (tmp_path / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA", "r": 2, "lora_alpha": 4}))
    base = built()
    model = keras_vit.load_adapter(base, tmp_path)
    dense, plain = (m.get_layer("encoder_block_01").attention.qkv for m in (model, base))
    assert max_difference(dense.kernel, np.array(plain.kernel) + 2.0 * (b @ a).T) < 1e-5
    keras_vit.save_adapter(model, tmp_path / "apart")  # three pairs with the same first matrix
    assert max_difference(keras_vit.load_adapter(base, tmp_path / "apart")(IMAGES), model(IMAGES)) < 1e-6


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kind": "dora"}, "kind expected one of lora, adapter, vpt, ssf, bitfit, probe, received 'dora'"),
        (
            {"kind": "probe", "rank": 8},
            "rank expected null with 'probe', which has none; lora, adapter, vpt have a rank",
        ),
        ({"rank": 0}, "rank expected a positive int or null, received 0"),
        ({"kind": "vpt", "alpha": 2.0}, "alpha expected null with 'vpt'; only 'lora' uses it, received 2.0"),
        ({"alpha": -1.0}, "alpha expected a positive number or null, received -1.0"),
        ({"where": ("queries",)}, r"where expected some of query, key, value, out, mlp, received \('queries',\)"),
        ({"kind": "ssf", "where": ("mlp",)}, "where expected .* with 'ssf'; only 'lora' uses it"),
    ],
)
def test_a_setting_that_does_not_fit_says_which_would(settings, message):
    with pytest.raises(ValueError, match=message):
        Adapt(**settings)


def test_a_model_without_a_place_is_refused(tmp_path):
    bit = keras_vit.build(keras_vit.BiTVariant("small", (1, 1), 0.5, image_size=16), classes=3)
    with pytest.raises(
        ValueError, match="kind expected 'bitfit' or 'probe' with small, which has no plain Transformer"
    ):
        adapt_model(bit, Adapt("lora"))
    for kind, advice in (("lora", "call keras_vit.merge_adapters first"), ("vpt", "load the plain model")):
        with pytest.raises(ValueError, match=f"model expected none that is adapted already, .* with {kind}: {advice}"):
            adapt_model(adapted(kind), Adapt("ssf"))
    users = keras.Sequential([keras.Input((8, 8, 3)), keras_vit.build(ROW, include_top=False), keras.layers.Dense(4)])
    with pytest.raises(ValueError, match="received 'sequential.*' with a dense layer at the end: pass the ViT inside"):
        keras_vit.save_adapter(users, tmp_path / "a.safetensors", "probe")
    relative = built(replace(ROW, positions="relative"))
    with pytest.raises(ValueError, match="kind expected 'lora' with tiny, whose positions or convolutions .* 'vpt'"):
        adapt_model(relative, Adapt("vpt"))
    with pytest.raises(ValueError, match="kind expected 'lora' or 'vpt' with encoder_block_00, whose MLP has a convol"):
        adapt_model(built(replace(ROW, mlp_kernel_size=3)), Adapt("adapter"))
    with pytest.raises(ValueError, match="freeze expected patterns that leave a block for 'lora', received"):
        adapt_model(built(), Adapt(), ("encoder_block_*",))
    with pytest.raises(ValueError, match="model expected LoRA adapters or SSF factors, received 'tiny' without"):
        merge_adapters(built())
    with pytest.raises(ValueError, match="layers of one kind of adapter, or kind='bitfit' or 'probe', received 'tiny'"):
        keras_vit.save_adapter(built(), tmp_path / "a.safetensors")
    with pytest.raises(
        ValueError, match="path expected a folder or a file that ends in .safetensors, received .*a.npz"
    ):
        keras_vit.save_adapter(adapted("lora"), tmp_path / "a.npz")


def test_an_adapter_that_does_not_fit_is_refused(tmp_path):
    keras_vit.save_adapter(adapted("lora"), tmp_path / "lora")
    wider = built(replace(ROW, width=24))
    with pytest.raises(ValueError, match=r"lora_kernel_a of shape \(24, 16\), received \(16, 16\)"):
        keras_vit.load_adapter(wider, tmp_path / "lora")
    with pytest.raises(ValueError, match="adapter expected LoRA adapters of dense layers of 'tiny', received 'vit.lay"):
        keras_vit.load_adapter(built(replace(ROW, depth=1)), tmp_path / "lora")
    with pytest.raises(ValueError, match="model expected a classifier, which the adapter replaces, received"):
        keras_vit.load_adapter(keras_vit.build(ROW, include_top=False), tmp_path / "lora")
    config = tmp_path / "lora" / "adapter_config.json"
    arrays = load_file(tmp_path / "lora" / "adapter_model.safetensors")
    from safetensors.numpy import save_file

    save_file(arrays, tmp_path / "lora" / "adapter_model.safetensors")  # as peft writes it, without a config inside
    config.write_text(json.dumps({**json.loads(config.read_text()), "use_dora": True}))
    with pytest.raises(ValueError, match="use_dora expected False in the adapter's config, received True"):
        keras_vit.load_adapter(built(), tmp_path / "lora")
    config.write_text(json.dumps({"peft_type": "IA3"}))
    with pytest.raises(ValueError, match="path expected an adapter of save_adapter or LoRA of peft, received 'ia3'"):
        keras_vit.load_adapter(built(), tmp_path / "lora")
    config.unlink()
    with pytest.raises(FileNotFoundError, match="path expected adapter_config.json next to adapter_model.safetensors"):
        keras_vit.load_adapter(built(), tmp_path / "lora")
    dense = adapted("lora").get_layer("encoder_block_00").attention.qkv
    with pytest.raises(ValueError, match="expected no adapters of parts of its kernel .*merge_adapters first"):
        dense.quantize("int8")


def test_a_full_disk_leaves_an_older_adapter_as_it_was(tmp_path, monkeypatch):
    model = adapted("lora")
    keras_vit.save_adapter(model, tmp_path / "pets", base="older")
    before = {file.name: file.read_bytes() for file in (tmp_path / "pets").iterdir()}
    from pathlib import Path

    def full(self, *_, **__):
        self.write_bytes(b"{")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(OSError, match="No space left"):
        keras_vit.save_adapter(model, tmp_path / "pets", base="newer")
    assert {file.name for file in (tmp_path / "pets").iterdir()} == set(before)
    assert (tmp_path / "pets" / "adapter_config.json").read_bytes() == before["adapter_config.json"]
