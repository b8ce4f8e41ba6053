"""Compare counts with the paper's Table 6, TensorFlow's profiler, XLA, a published formula and optimizers."""

import json
import re
import zipfile
from dataclasses import replace

import keras
import numpy as np
import pytest
from support import first_quick, needs_tensorflow, run_python

import keras_vit
from keras_vit import cli
from keras_vit.cost.budget import device_days, training_bytes, training_exaflops
from keras_vit.cost.operations import count, macs_of_variant
from keras_vit.cost.plot import plot_compute
from keras_vit.cost.published import published
from keras_vit.cost.weightless import build_weightless, open_weightless
from keras_vit.models.variants import find_variant

TOLERANCE = {
    ("ViT-B/32", 7): 0.025,
    ("R50+ViT-L/16", 7): 0.035,
}  # the second row contradicts the row with twice the epochs
GIGA = {"ViT_B32": 4.408, "ViT_B16": 17.563, "ViT_L32": 15.377, "ViT_L16": 61.554, "ViT_H14": 167.294}  # without head
TINY = keras_vit.Variant("tiny", width=32, depth=2, mlp_dim=48, num_heads=4, patch_size=4, image_size=16)
AXIAL_RESNET = keras_vit.BiTVariant("axial", units=(1, 1), width_factor=0.5, axial=True)
LOCAL = keras_vit.Variant("local", 32, 2, 48, 4, 4, image_size=16, mlp_kernel_size=3)
HYBRID = keras_vit.Variant("hybrid", 32, 1, 48, 4, 1, stem=keras_vit.ResNetStem((1, 2), 0.5), image_size=32)


@pytest.mark.parametrize("row", published(6), ids=lambda row: row.label)
def test_exaflops_of_pre_training_equal_table_6(row):
    cost = count(open_weightless(row.model.replace("ResNet", "BiT_R")))
    found = training_exaflops(cost, row.epochs)
    assert found == pytest.approx(row.exaflops, rel=TOLERANCE.get((row.model, row.epochs), 0.01))


def test_a_model_built_after_a_weightless_one_has_weights():
    counted = build_weightless(TINY)
    real = keras_vit.build(TINY)
    assert np.isfinite(np.asarray(real(np.zeros((1, 16, 16, 3), "float32")))).all()
    assert all(variable._value is None for variable in counted.trainable_variables)


@pytest.mark.parametrize("name", GIGA)
def test_macs_of_vision_transformers(name):
    assert macs_of_variant(find_variant(name)[0], (224, 224, 3)) / 1e9 == pytest.approx(GIGA[name], abs=5e-4)


CASES = [
    (TINY, {"input_shape": (16, 24, 3)}),
    (TINY, {"input_shape": (16, 16, 1), "patch_size": (8, 4), "pooling": "gap"}),
    (TINY, {"pooling": "map", "representation_size": 8}),
    (replace(TINY, positions="relative"), {"input_shape": (16, 24, 3)}),
    (replace(TINY, positions="relative", axial=True), {"input_shape": (16, 24, 3), "pooling": "gap"}),
    (replace(TINY, positions="2d", positions_at="shared"), {}),
    (LOCAL, {}),
    (replace(TINY, gated_mlp=True, mlp_inner_norm=True, attention_inner_norm=True), {}),
    (replace(TINY, mlp_inner_norm=True, norm="rms", dense_bias=False), {"pooling": "gap"}),
    (replace(TINY, distillation_token=True), {}),
    (replace(TINY, registers=3, pool_prefix=False), {"pooling": "map"}),
    (
        replace(TINY, window=3, global_blocks=(1,), relative_bias="decomposed"),
        {"input_shape": (16, 24, 3), "pooling": "gap"},
    ),
    (HYBRID, {"input_shape": (32, 64, 3)}),
    pytest.param(find_variant("ViT_B32")[0], {}, id="ViT_B32"),
]


@needs_tensorflow
@pytest.mark.parametrize(("row", "options"), CASES)
def test_tensorflows_profiler_counts_the_same(row, options):
    """Compare matmuls, and all operations of ViT-B/32. The profiler also counts convolution taps outside the image."""
    import tensorflow as tf

    model = keras_vit.build(row, **options)
    model = keras.Model(model.input, model.output)  # without skipping the patch tokens of the last block
    call = tf.function(lambda x: model(x)).get_concrete_function(tf.TensorSpec((1, *model.input_shape[1:])))
    builder = tf.compat.v1.profiler.ProfileOptionBuilder
    wanted = builder(builder.float_operation()).with_empty_output().build()
    profile = tf.compat.v1.profiler.profile(call.graph, cmd="op", options=wanted)
    operations, nodes = {}, [profile]
    while nodes:
        node = nodes.pop()
        operations[node.name] = node.float_ops
        nodes += node.children
    names = ("MatMul", "BatchMatMulV2", "Conv2D", "DepthwiseConv2dNative")
    products = sum(operations.get(name, 0) for name in names)
    cost = count(model)
    if row in (HYBRID, LOCAL):
        assert 0.7 * products < cost.flops < products  # the next test compares their convolutions
    else:
        assert products == cost.flops
    if row.name == "ViT_B32":
        assert cost.flops == pytest.approx(profile.total_float_ops, rel=0.01)


@pytest.mark.large
def test_xla_counts_convolutions_the_same():
    """Compare with XLA's cost analysis of convolutions, a small hybrid and a small BiT."""
    pytest.importorskip("jax", reason="the JAX backend is not installed")
    code = (
        "import jax, keras, numpy, keras_vit\n"
        "from jax import lax\n"
        "from keras_vit.cost.layer_rules import convolution\n"
        "for height, width, size, stride in ((13, 16, 3, 1), (16, 13, 3, 2), (30, 30, 7, 2), (9, 8, 1, 2)):\n"
        "    x, k = numpy.zeros((1, height, width, 4), 'f'), numpy.zeros((size, size, 4, 6), 'f')\n"
        "    call = jax.jit(lambda x, k: lax.conv_general_dilated(\n"
        "        x, k, (stride, stride), 'SAME', dimension_numbers=('NHWC', 'HWIO', 'NHWC')))\n"
        "    found = call.lower(x, k).cost_analysis()['flops']\n"
        "    print(found, 2 * convolution((height, width), size, stride, 4, 6)[0])\n"
        "from keras_vit.cost.operations import count\n"
        "stem = keras_vit.ResNetStem((1, 1), 1.0)\n"
        "for row in (keras_vit.Variant('h', 256, 1, 1024, 4, 1, stem=stem), keras_vit.BiTVariant('b', (1, 1))):\n"
        "    model = keras_vit.build(row, input_shape=(96, 96, 3), classes=10)\n"
        "    model = keras.Model(model.input, model.output)\n"
        "    values = [v.value for v in model.trainable_variables]\n"
        "    rest = [v.value for v in model.non_trainable_variables]\n"
        "    call = jax.jit(lambda values, x: model.stateless_call(values, rest, x)[0])\n"
        "    found = call.lower(values, numpy.zeros((1, 96, 96, 3), 'f')).cost_analysis()['flops']\n"
        "    print(found, count(model).flops)\n"
    )
    rows = [tuple(map(float, line.split())) for line in run_python(code, backend="jax").strip().splitlines()]
    assert all(found == ours for found, ours in rows[:4])
    for found, ours in rows[4:]:  # XLA also counts norms, activation functions and standardised kernels
        assert 0.85 * found < ours < found


@pytest.mark.parametrize("sides", [(32, 32), (64, 32)])
def test_an_axial_unit_replaces_a_convolution_by_two_attentions(sides):
    plain = keras_vit.BiTVariant("b", (1,), 1.0)
    bit, axial = (count(build_weightless(replace(plain, axial=axial), sides)) for axial in (False, True))
    h, w = (side // 4 for side in sides)
    conv = (3 * h - 2) * (3 * w - 2) * 64**2
    attentions = h * w * (8 * 64**2 + 64 * (2 * w + 2 * w - 1) + 64 * (2 * h + 2 * h - 1))
    assert axial.macs - bit.macs == attentions - conv


def test_activations_equal_a_published_formula():
    """Korthikanti et al. (arXiv 2205.05198, equation 1): 34 s b h + 5 a s^2 b bytes per layer in 16 bits.

    Without dropout: 32 s b h + 2 a s^2 b.
    """
    row = keras_vit.Variant("standard", width=64, depth=1, mlp_dim=256, num_heads=4, patch_size=4, image_size=32)
    (block,) = [layer for layer in count(build_weightless(row)).layers if layer.kind == "EncoderBlock"]
    tokens = 65
    assert 2 * block.activations == 32 * tokens * 64 + 2 * 4 * tokens**2


@needs_tensorflow
@pytest.mark.parametrize("kind", ["adamw", "sgd", "lamb", "adafactor", "muon"])
@pytest.mark.parametrize("moment", first_quick(["float32", "bfloat16"]))
@pytest.mark.parametrize(
    "row", [keras_vit.Variant("t", 64, 1, 96, 2, 4), LOCAL, HYBRID, AXIAL_RESNET], ids=lambda row: row.name
)
def test_optimizer_bytes_equal_those_of_the_optimizer(kind, moment, row):
    from keras_vit.train.optim.optimizer import build_optimizer
    from keras_vit.train.recipe import Optimizer

    model = keras_vit.build(row, input_shape=(32, 32, 3))
    optimizer = build_optimizer(Optimizer(kind, moment_dtype=moment), lambda step: 0.1, model.trainable_variables)
    slot_variables = [slot for slots in optimizer._slots for slot in slots]
    real = sum(int(np.prod(slot.shape)) * (2 if slot.dtype == "bfloat16" else 4) for slot in slot_variables)
    found = training_bytes(model, 2, kind, "mixed_bfloat16", moment, average=True)
    assert found.optimizer == real and found.weights == found.average == 4 * model.count_params()
    assert found.activations == 2 * 2 * count(model).activations
    assert found.total == real + 3 * found.weights + found.activations


def test_frozen_weights_have_no_gradients_and_moments():
    model = keras_vit.build(keras_vit.Variant("t", 64, 1, 96, 2, 4), input_shape=(32, 32, 3), classes=3)
    whole = training_bytes(model, 2, average=True)
    for layer in model.layers[:-2]:
        layer.trainable = False
    found, head = training_bytes(model, 2, average=True), 4 * sum(np.prod(w.shape) for w in model.trainable_weights)
    assert 0 < head < whole.weights / 50
    assert (found.weights, found.gradients, found.optimizer, found.average) == (whole.weights, head, 2 * head, head)


def test_device_days_equal_table_2():
    by_name = {(row.model, row.pretraining): row.core_days for row in published(2)}
    assert device_days(4258, 61.5, 0.32) == pytest.approx(by_name["ViT-H/14", "JFT-300M"], rel=0.02)
    assert device_days(1567, 61.5, 0.434) == pytest.approx(by_name["ViT-L/16", "JFT-300M"], rel=0.02)
    with pytest.raises(ValueError, match=r"utilisation expected a fraction in \(0, 1\], received 40"):
        device_days(1, 1, 40)


def test_the_published_tables_agree_with_each_other():
    for row in published(9):
        *tasks, mean = row.scores.values()
        assert len(tasks) == 19 and np.mean(tasks) == pytest.approx(mean, abs=0.06)
    whole = {(row.model, row.pretraining): row.scores.get("vtab") for row in published(2)}
    assert all(row.scores["mean"] == pytest.approx(whole[row.model, row.pretraining], abs=0.06) for row in published(9))
    six = {(row.model, row.epochs): row.scores for row in published(6)}
    for row in (row for row in published(5) if row.pretraining == "JFT-300M" and row.model != "ViT-H/14"):
        assert row.scores == six[row.model, 14 if row.model == "ViT-L/16" else 7]
    with pytest.raises(ValueError, match=r"table expected one of \[2, 5, 6, 9\], received 4"):
        published(4)


def test_a_file_is_counted_from_its_configuration(tmp_path):
    keras_vit.build(TINY, classes=3).save(tmp_path / "model.keras")
    found = count(open_weightless(tmp_path))
    assert found == count(keras_vit.build(TINY, classes=3))
    keras_vit.build(TINY, input_shape=(None, None, 3)).save(tmp_path / "free.keras")
    own, larger = (count(open_weightless(tmp_path / "free.keras", size)) for size in (None, (32, 16)))
    assert own.input_shape == (16, 16, 3) and larger.input_shape == (32, 16, 3)
    assert larger.trunk_macs == macs_of_variant(TINY, (32, 16, 3))


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["ViT_B61"], "nothing lies at 'ViT_B61', and as a name it is unknown: .* ViT_B16"),
        (
            ["{tmp}/model.keras", "--image-size", "32"],
            r"image_size expected \(16, 16\), which the model's file",
        ),
        (["{tmp}/broken.keras"], "model expected a .keras or .h5 file or a file of weights"),
        (["{tmp}/other.keras"], "expected a .keras file of this package, received .* no item named 'config.json'"),
        (["{tmp}/empty.keras"], "model expected a .keras file of this package, received .*empty.keras'"),
        (["{tmp}/layer.keras"], "model expected a .keras file of this package, received .*: it is a Dense"),
        (
            ["ViT_Ti16", "--optimizer", "adam"],
            "optimizer expected one of adamw, .*, muon, received 'adam'",
        ),
        (["ViT_Ti16", "--peak", "10"], "--epochs expected the epochs of pre-training"),
        (["ViT_Ti16", "--image-size", "8"], "expected images of at least one patch"),
    ],
)
def test_wrong_arguments_raise_an_error(arguments, sentence, tmp_path, capsys):
    keras_vit.build(TINY).save(tmp_path / "model.keras")
    (tmp_path / "broken.keras").write_text("no archive")
    layer = '{"module": "keras.layers", "class_name": "Dense", "config": {"units": 3}}'
    members = {"other": ("notes.txt", ""), "empty": ("config.json", "{}"), "layer": ("config.json", layer)}
    for name, member in members.items():
        with zipfile.ZipFile(tmp_path / f"{name}.keras", "w") as archive:
            archive.writestr(*member)
    assert cli.main(["summary", *(argument.format(tmp=tmp_path) for argument in arguments)]) == 2
    error = capsys.readouterr().err
    assert re.search(sentence, error) and error.strip().count("\n") == 0


def test_summary_prints_a_table_and_an_object(capsys):
    assert cli.main(["summary", "ViT-L/16", "--epochs", "14", "--peak", "61.5", "--utilisation", "0.434"]) == 0
    text = capsys.readouterr().out
    assert "304,326,632 parameters" in text and "encoder_block_00 ... 23 (24 equal layers)" in text
    assert "1,567 exaFLOPs (the paper's Table 6: 1,567)" in text and "679" in text
    assert cli.main(["summary", "BiT_R50x1", "--image-size", "160x96", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["input_shape"] == [160, 96, 3] and found["macs"] == sum(layer["macs"] for layer in found["layers"])
    assert found["training"]["bytes"]["total"] > 16 * found["parameters"]


def test_the_plot_has_the_published_and_the_further_models(tmp_path):
    matplotlib = pytest.importorskip("matplotlib", reason="extra `analysis` is not installed")
    from matplotlib.figure import Figure

    drawn = []
    saved = Figure.savefig
    Figure.savefig = lambda self, *args, **options: (drawn.append(self), saved(self, *args, **options))[1]
    try:
        plot_compute(tmp_path / "own.png", {"mine": (100.0, {"imagenet": 80.0})})
    finally:
        Figure.savefig = saved
    assert matplotlib and (tmp_path / "own.png").stat().st_size > 10_000
    left, right = drawn[0].axes
    points = [tuple(point) for line in left.lines for point in line.get_xydata()]
    assert sorted(points) == sorted([(row.exaflops, row.scores["imagenet"]) for row in published(6)] + [(100.0, 80.0)])
    assert sum(len(line.get_xydata()) for line in right.lines) == len(published(6))  # no ReaL accuracy, no point
    shown = [text.get_text() for text in left.get_xticklabels(which="both")]
    assert "100" in shown and not any("$" in text for text in shown)  # formulas are off


def test_layers_without_a_rule_raise_an_error():
    images = keras.Input((8, 8, 3))
    model = keras.Model(images, keras.layers.Conv2D(2, 3)(images))
    with pytest.raises(ValueError, match="model expected layers of this package, received 'conv2d"):
        count(model)
    with pytest.raises(ValueError, match="model expected one input of known size"):
        count(keras_vit.build(TINY, input_shape=(None, None, 3)))
