"""The prediction of scaling: closed forms, limits, the sums of the strategy, and benchmarks/scaling.md."""

import math
import re
from dataclasses import replace

import pytest
from support import ROOT, needs_tensorflow, run_python

import keras_vit
from keras_vit.cost import (
    Device,
    count,
    device_days,
    largest_batch,
    predict_scaling,
    published,
    smallest_batch,
    training_bytes,
)
from keras_vit.cost.scaling import ring_seconds
from keras_vit.cost.weightless import build_weightless

ROW = keras_vit.Variant("standard", width=64, depth=3, mlp_dim=256, num_heads=4, patch_size=4, image_size=32)
MODEL = build_weightless(ROW)
# Rates at which a step of MODEL takes milliseconds: 0.2 TFLOP/s, 50 GB/s, and 2 then 1 GB/s to the next device.
DEVICE = Device("d", 0.2, 1e9, 50e9, 4, 2e9, 1e9, 1e-6)
COUNTS = (1, 2, 4, 8, 64, 512)


def step(devices, batch_size=8, utilisation=0.5, device=DEVICE, model=MODEL, **options):
    return predict_scaling(model, device, devices, batch_size, utilisation, **options)


def test_one_device_has_no_all_reduce():
    alone = step(1)
    assert alone.all_reduce == alone.exposed == alone.waiting == 0
    assert alone.efficiency == alone.strong_efficiency == 1
    memory = training_bytes(MODEL, 8)
    assert alone.compute == pytest.approx(6 * 8 * count(MODEL).macs / (0.2e12 * 0.5))
    assert alone.update == pytest.approx((2 * memory.weights + memory.gradients + 2 * memory.optimizer) / 50e9)
    assert alone.seconds == alone.compute + alone.update
    assert alone.images_per_second == pytest.approx(8 / alone.seconds)


def test_seconds_of_a_ring_all_reduce():
    assert ring_seconds(1e9, 2, 1e9) == pytest.approx(1.0)  # each sends half, twice
    assert ring_seconds(1e9, 10**6, 1e9) == pytest.approx(2.0, rel=1e-5)
    assert ring_seconds(0, 5, 1e9, 0.25) == pytest.approx(2.0)  # eight messages in turn
    gradients = training_bytes(MODEL, 1).gradients
    assert step(4).all_reduce == pytest.approx(1.5 * gradients / 2e9 + 6e-6)  # within a host
    assert step(8).all_reduce == pytest.approx(1.75 * gradients / 1e9 + 14e-6)  # beyond it
    slow = replace(DEVICE, host_rate=1e8)
    assert step(8, device=slow).all_reduce == pytest.approx(1.75 * gradients / 1e8 + 14e-6)  # the slowest link


@pytest.mark.parametrize("quantity", ["efficiency", "strong_efficiency"])
def test_more_devices_are_never_more_efficient_and_more_images_never_less(quantity):
    by_devices = [getattr(step(devices), quantity) for devices in COUNTS]
    assert by_devices == sorted(by_devices, reverse=True) and by_devices[-1] < 0.8 < by_devices[0]
    by_images = [getattr(step(64, images), quantity) for images in (1, 2, 8, 64, 512)]
    assert by_images == sorted(by_images) and by_images[0] < by_images[-1] <= 1


def test_strong_scaling_includes_the_repeated_update():
    found = step(8)
    one = 8 * found.compute + found.update  # one device with all 64 images
    assert found.strong_efficiency == pytest.approx(one / (8 * found.seconds))
    assert found.strong_efficiency < found.efficiency


def test_overlap_hides_at_most_the_backward_pass():
    bare, some, whole = (step(8, overlap=share) for share in (0, 0.25, 1))
    backward = 2 / 3 * bare.compute
    assert bare.exposed == bare.all_reduce == some.all_reduce
    assert some.exposed == pytest.approx(bare.all_reduce - 0.25 * backward)
    assert whole.exposed == pytest.approx(max(0, bare.all_reduce - backward))
    assert step(8, 10_000, overlap=1).exposed == 0 < bare.exposed


def test_recomputation_adds_one_forward_pass_of_the_blocks():
    blocks = sum(layer.macs for layer in count(MODEL).layers if layer.kind == "EncoderBlock")
    more = step(1, recompute=True).compute / step(1).compute
    assert more == pytest.approx(1 + blocks / (3 * count(MODEL).macs)) and 1.3 < more < 4 / 3


def test_devices_wait_for_a_slow_host():
    fast = step(4)
    slow = step(4, device=replace(DEVICE, decode_rate=fast.images_per_second / 4))
    assert slow.seconds == pytest.approx(4 * fast.seconds)  # all four are fed by one host
    assert slow.images_per_second == pytest.approx(fast.images_per_second / 4)
    enough = replace(DEVICE, decode_rate=1.01 * fast.images_per_second)
    assert step(4, device=enough) == fast


@pytest.mark.parametrize("overlap", [0, 1])
def test_the_smallest_batch_is_the_first_that_is_efficient(overlap):
    least = smallest_batch(MODEL, DEVICE, 64, 0.5, 0.9, overlap=overlap)
    assert least > 1
    assert step(64, least, overlap=overlap).efficiency >= 0.9 > step(64, least - 1, overlap=overlap).efficiency
    assert smallest_batch(MODEL, DEVICE, 1, 0.5) == 1
    assert smallest_batch(MODEL, replace(DEVICE, decode_rate=1), 2, 0.5) is None


def test_activations_with_recomputation_equal_a_published_formula():
    """Korthikanti et al. (arXiv 2205.05198, section 5): 2 s b h bytes per layer in 16 bits."""
    tokens, width, images = 65, 64, 6
    options = {"precision": "mixed_bfloat16", "recompute": True}
    deep = build_weightless(replace(ROW, depth=5))
    more = training_bytes(deep, images, **options).activations - training_bytes(MODEL, images, **options).activations
    assert more == 2 * (2 * tokens * images * width)
    plain, again = (training_bytes(MODEL, images, recompute=x).activations for x in (False, True))
    (block, *_) = [layer.activations for layer in count(MODEL).layers if layer.kind == "EncoderBlock"]
    assert plain - again == 4 * images * 2 * (block - tokens * width)  # two of three blocks are not in memory


def test_micro_batches_reduce_activations_and_double_gradients():
    whole, parts = training_bytes(MODEL, 12), training_bytes(MODEL, 12, accumulate=4)
    assert parts.activations * 4 == whole.activations
    assert parts.gradients == 2 * whole.gradients == 2 * whole.weights and parts.optimizer == whole.optimizer
    with pytest.raises(ValueError, match="batch_size expected a multiple of accumulate=5, received 12"):
        training_bytes(MODEL, 12, accumulate=5)


@pytest.mark.parametrize("options", [{}, {"recompute": True, "moment_dtype": "bfloat16"}, {"accumulate": 3}])
def test_the_largest_batch_is_the_last_that_fits(options):
    parts = options.get("accumulate", 1)
    most = largest_batch(MODEL, 1e9, **options)
    assert training_bytes(MODEL, most * parts, **options).total <= 1e9
    assert training_bytes(MODEL, (most + 1) * parts, **options).total > 1e9
    assert largest_batch(MODEL, 1000, **options) == 0


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: step(0), "devices expected a positive number, received 0"),
        (lambda: step(2, batch_size=-1), "batch_size expected a positive number, received -1"),
        (lambda: step(2, utilisation=40), r"utilisation expected a fraction in \(0, 1\], received 40"),
        (lambda: step(2, overlap=1.5), "overlap expected a fraction in .0, 1., received 1.5"),
        (
            lambda: step(2, optimizer="adam"),
            "optimizer expected one of adamw, .*, muon, received 'adam'",
        ),
        (lambda: replace(DEVICE, network_rate=0), "network_rate expected a positive number, received 0"),
        (lambda: replace(DEVICE, latency=-1), "latency expected seconds, 0 or more, received -1"),
        (
            lambda: smallest_batch(MODEL, DEVICE, 2, 0.5, 1.5),
            r"efficiency expected a fraction in \(0, 1\], received 1.5",
        ),
        (lambda: largest_batch(MODEL, math.nan), "memory expected a positive number, received nan"),
    ],
)
def test_wrong_arguments_raise_an_error(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()


SUMMED = """
import tensorflow as tf
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)

from keras_vit.cost import training_bytes
from keras_vit.train.recipe import Data, Model, Optimizer, Recipe, Variant
from keras_vit.train.stages import spans_of
from keras_vit.train.state import first_state
from keras_vit.train.step import compiled_steps

class Watched(tf.distribute.ReductionToOneDevice):
    def note(self, value):
        summed.append((value.values[0].shape.num_elements(), value.values[0].dtype.size))
    def reduce_implementation(self, op, value, destinations, options):
        self.note(value)
        return super().reduce_implementation(op, value, destinations, options)
    def batch_reduce_implementation(self, op, pairs, options):
        for value, _ in pairs:
            self.note(value)
        return [super(Watched, self).reduce_implementation(op, *pair, options) for pair in pairs]

strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"], cross_device_ops=Watched())
row = Variant("tiny", width=8, depth=2, mlp_dim=16, num_heads=2, patch_size=4, image_size=8)
for accumulate in (1, 2):
    recipe = Recipe("t", Model(row), Data(batch_size=8), optimizer=Optimizer("adamw", 1e-3, accumulate=accumulate),
                    precision="mixed_bfloat16", steps=10)
    state = first_state(recipe, tuple("abcde"), 10, strategy)
    run = compiled_steps(recipe, state, strategy, spans_of(recipe, 10)[0])
    batch = tf.data.Dataset.from_tensors((tf.zeros((8, 8, 8, 3)), tf.one_hot(tf.zeros(8, tf.int32), 5))).repeat()
    summed = []
    run.get_concrete_function(iter(strategy.experimental_distribute_dataset(batch)), tf.constant(1))
    found = sum(count * size for count, size in summed)
    print(found, training_bytes(state.model, 8).gradients, len(state.trained), len(summed))
"""


@pytest.mark.broad
@needs_tensorflow
def test_the_strategy_sums_the_float32_gradients_and_the_loss_once():
    """Record the tensors that `tf.distribute` sums when it traces the step, in bfloat16 and with micro-batches."""
    for line in run_python(SUMMED).strip().splitlines():
        found, gradients, variables, sums = map(int, line.split())
        assert found == gradients + 4 and sums == variables + 1


@pytest.fixture(scope="module")
def benchmarks():
    """Return the modules of benchmarks/ that write the page."""
    from benchmarks import scaling_predicted, scaling_report

    return scaling_predicted, scaling_report


def test_the_prediction_is_the_sum_of_measured_parts(benchmarks):
    """An artificial run: 50 ms per step and 2 ms per image on one core, 30 ms for the gradients, 0.5 ms per message."""
    alone = {f"step of {images}": [0.05 + 0.002 * images] * 2 for images in (8, 16, 32, 64)}
    summed = {"sum": [0.03] * 2, "small sum": [10 * 2 * 0.0005] * 2}
    two = {"step of 16": [0.1] * 2, "step of 64": [0.2] * 2}
    seconds = {"one": {**alone, "matmul": [2 * 1000**3 / 4e11] * 2}, "workers": {**two, **summed}}
    found = {"model": "ViT_Ti16", "image_size": 64, "matmul_side": 1000, "small_sums": 10, "seconds": seconds}
    run = benchmarks[1].Measured(found)
    core, share = run.device("workers")
    assert core.teraflops == pytest.approx(0.4) and core.latency == pytest.approx(0.0005)
    assert share == pytest.approx(6 * count(run.model).macs / 0.002 / 4e11)
    told = step(2, 8, share, core, run.model)
    assert told.seconds == pytest.approx(0.05 + 8 * 0.002 + 0.03)
    assert run.efficiencies("workers", 8) == pytest.approx([0.066 / 0.1] * 2)
    assert run.efficiencies("workers", 32, strong=True) == pytest.approx([0.178 / 0.2 / 2] * 2)


def test_the_tables_of_the_page_are_current(benchmarks):
    text = (ROOT / "benchmarks/scaling.md").read_text(encoding="utf-8")
    for name, table in benchmarks[0].predicted().items():
        found = re.search(rf"<!-- {name} -->\n(.*?)<!-- /{name} -->", text, re.DOTALL)
        assert found and found[1] == table, f"{name}: run `python -m benchmarks.scaling --predict`"


def test_its_utilisations_reproduce_the_papers_core_days(benchmarks):
    report = benchmarks[0]
    days = {(row.model, row.pretraining): row.core_days for row in published(2)}
    exaflops = {(row.model, row.epochs): row.exaflops for row in published(6)}
    for name in report.MODELS:
        share = report.share_of(report.TPU_V3, name)
        assert device_days(exaflops[name, 14], 61.5, share) == pytest.approx(days[name, "JFT-300M"])
    assert report.share_of(report.TPU_V3, "ViT-H/14") == pytest.approx(0.32, abs=0.005)
    # "a standard cloud TPUv3 with 8 cores in approximately 30 days" (abstract and section 4.2): ViT-L/16, ImageNet-21k
    assert days["ViT-L/16", "ImageNet-21k"] == pytest.approx(8 * 30, rel=0.05)
