"""What `keras_vit.cost` predicts for 8 to 512 devices, as the tables of scaling.md: nothing here is measured.

Every constant of a device stands here with its source, or says that it is assumed.
"""

import functools
import math
from dataclasses import replace

from keras_vit.cost import (
    Device,
    count,
    device_days,
    largest_batch,
    predict_scaling,
    published,
    smallest_batch,
    training_bytes,
    training_exaflops,
)
from keras_vit.cost.scaling import ring_seconds
from keras_vit.cost.weightless import open_weightless

TPU_V3 = Device(
    "TPUv3 core",
    teraflops=123 / 2,  # of a chip of two cores; as all of these but the last: Cloud TPU documentation, "TPU v3"
    memory=32 * 2**30 / 2,
    memory_rate=900e9 / 2,
    per_host=8,  # a v3-8
    host_rate=340e12 / 1024 / 4,  # all-reduce bandwidth of a pod, over its chips and the four links of each
    network_rate=340e12 / 1024 / 4,
    latency=1e-6,  # assumed
)
H100 = Device(
    "H100, 8 x 400 Gb/s a host",
    teraflops=989.4,  # bfloat16 without sparsity; as the next three: NVIDIA's data sheet of the H100 SXM5
    memory=80e9,
    memory_rate=3.35e12,
    per_host=8,
    host_rate=900e9 / 2,  # NVLink, one direction of two
    network_rate=8
    * 400e9
    / 8,  # NVIDIA's data sheet of the DGX H100: one such adapter a GPU, and NCCL has a ring on each
    latency=5e-6,  # assumed
)
H100_ETHERNET = replace(H100, name="H100, 100 Gb/s a host", network_rate=100e9 / 8, latency=30e-6)  # both assumed
DEVICES = (TPU_V3, H100, H100_ETHERNET)
ASSUMED = 0.4  # share of a GPU's peak that training reaches; a TPU's is the paper's, model by model
MODELS = {"ViT-L/16": "ViT_L16", "ViT-H/14": "ViT_H14"}
COUNTS = (8, 16, 32, 64, 128, 256, 512)
BATCH = 4096  # of the paper's pre-training (Table 3)
ENOUGH = 0.9
DECODED = 754.4 / 2  # images a second and core, cropped and flipped: benchmarks/script_results.md
PAPER = (  # model, data set of Table 2, epochs, images of one, where the epochs are from
    ("ViT_H14", "ViT-H/14", "JFT-300M", 14, 303e6, "Table 6"),
    ("ViT_L16", "ViT-L/16", "JFT-300M", 14, 303e6, "Table 6"),
    ("ViT_L16", "ViT-L/16", "ImageNet-21k", 90, 14.2e6, "Table 3, the longer"),
    ("ViT_L16", "ViT-L/16", "ImageNet-21k", 30, 14.2e6, "Table 3, the shorter"),
    ("BiT_R152x4", "ResNet152x4", "JFT-300M", 30, 303e6, "appendix D.1"),
    ("BiT_R152x4", "ResNet152x4", "JFT-300M", 40, 303e6, "the BiT paper"),
    # Noisy Student (arXiv 1911.04252). Assumed: 475 pixels, and 14 unlabelled images beside each of ImageNet's.
    ("tf_efficientnet_l2_475", "EfficientNet-L2", "ImageNet and JFT-300M", 350, 15 * 1.281e6, "Noisy Student"),
)


weightless = functools.cache(open_weightless)


def share_of(device, name) -> float:
    """Share of a device's peak that training a model of `MODELS` is taken to reach."""
    if device is not TPU_V3:
        return ASSUMED
    (exaflops,) = [row.exaflops for row in published(6) if (row.model, row.epochs) == (name, 14)]
    (days,) = [row.core_days for row in published(2) if (row.model, row.pretraining) == (name, "JFT-300M")]
    return device_days(exaflops, device.teraflops, 1.0) / days


def table(heads, rows) -> str:
    """Markdown, numbers to the right."""
    ruler = ["---"] + ["---:"] * (len(heads) - 1)
    return "\n".join("| " + " | ".join(map(str, row)) + " |" for row in (heads, ruler, *rows)) + "\n"


def predicted() -> dict[str, str]:
    """Name -> table: everything that is predicted and was not measured, from constants and shapes."""
    models = {name: weightless(row) for name, row in MODELS.items()}
    parts = (_work, _efficiency, _breaks, _input, _memory)
    return {"constants": _constants(), **{part.__name__[1:]: part(models) for part in parts}, "paper": _paper()}


def _constants() -> str:
    rows = [
        ("peak, TFLOP/s in bfloat16", "61.5 [1]", "989.4 [2]", "989.4 [2]"),
        ("share of it that training reaches", "0.43, H/14 0.32 [4]", *[f"{ASSUMED}, assumed"] * 2),
        ("memory", "16 GiB [1]", "80 GB [2]", "80 GB [2]"),
        ("memory's rate, GB/s", "450 [1]", "3,350 [2]", "3,350 [2]"),
        ("devices of a host", "8 [1]", "8 [3]", "8 [3]"),
        ("to the next device, GB/s", "83 [1]", "450 [2]", "450 [2]"),
        ("beyond the host, GB/s", "83 [1]", "400 [3]", "12.5, assumed"),
        ("latency of a message, µs", "1, assumed", "5, assumed", "30, assumed"),
    ]
    return table(("", *(device.name for device in DEVICES)), rows)


def _work(models) -> str:
    rows = []
    for name, model in models.items():
        cost, size = count(model), training_bytes(model, 1).gradients
        ring = ring_seconds(size, 512, 1e9) * 1e9
        rows.append((name, f"{cost.parameters:,}", f"{size:,}", f"{ring:,.0f}", f"{3 * cost.flops / 1e9:,.0f}",
                     f"{3 * cost.flops / size:,.0f}"))  # fmt: skip
    heads = ("at 224 pixels, 1,000 classes", "parameters", "bytes summed a step", "bytes a device sends, n = 512",
             "training GFLOP an image", "FLOP an image a byte summed")  # fmt: skip
    return table(heads, rows)


def _efficiency(models) -> str:
    rows = []
    for name, model in models.items():
        for device in DEVICES:
            share, cells = share_of(device, name), []
            for devices in COUNTS:
                told = [predict_scaling(model, device, devices, BATCH // devices, share, overlap=x) for x in (0, 1)]
                cells.append(" / ".join(f"{100 * x.strong_efficiency:.0f}" for x in told))
            rows.append((f"{name}, {device.name}", *cells))
    return table(("strong-scaling efficiency, %: no overlap / all of the backward pass", *map(str, COUNTS)), rows)


def _breaks(models) -> str:
    rows = []
    for name, model in models.items():
        for device in DEVICES:
            share = share_of(device, name)
            least = [smallest_batch(model, device, 512, share, ENOUGH, overlap=x) for x in (0, 1)]
            last = []
            for x in (0, 1):
                told = [predict_scaling(model, device, n, BATCH // n, share, overlap=x) for n in COUNTS]
                good = [step.devices for step in told if step.strong_efficiency >= ENOUGH]
                last.append(good[-1] if good else "none")
            step = predict_scaling(model, device, 512, BATCH // 512, share)
            parts = f"{1e3 * step.compute:.1f} + {1e3 * step.update:.1f} + {1e3 * step.all_reduce:.1f}"
            rows.append((f"{name}, {device.name}", *least, *last, parts, f"{step.images_per_second:,.0f}"))
    heads = ("", "weak: images a device for 90 % at 512", "overlapped",
             f"strong: devices of a batch of {BATCH:,} at 90 %", "overlapped",
             "512 devices, ms: compute + update + all-reduce", "images/s")  # fmt: skip
    return table(heads, rows)


def _input(models) -> str:
    rows = []
    for name, model in {"ViT-B/16": weightless("ViT_B16"), **models}.items():
        for device in (TPU_V3, H100):
            share = share_of(device, name if name in models else "ViT-L/16")
            step = predict_scaling(model, device, device.per_host, 512, share)
            rows.append((f"{name}, {device.name}", f"{step.images_per_second:,.0f}",
                         math.ceil(step.images_per_second / DECODED)))  # fmt: skip
    return table(("", "images/s that a host uses up", f"cores that decode {DECODED:.0f} each"), rows)


def _memory(models) -> str:
    rows = []
    ways = {
        "as it is": {},
        "moments in bfloat16": {"moment_dtype": "bfloat16"},
        "recomputed": {"recompute": True},
        "recomputed, moments in bfloat16": {"recompute": True, "moment_dtype": "bfloat16"},
        "the same in parts (accumulated)": {"recompute": True, "moment_dtype": "bfloat16", "accumulate": 2},
    }
    for name, model in models.items():
        for way, options in ways.items():
            options = {"precision": "mixed_bfloat16", **options}
            one = training_bytes(model, options.get("accumulate", 1), **options)
            fits = [largest_batch(model, device.memory, **options) for device in (TPU_V3, H100)]
            plain, own = (predict_scaling(model, H100, 1, 1, 1, recompute=x) for x in (False, "recompute" in options))
            fixed = one.total - one.activations
            rows.append((f"{name}, {way}", f"{fixed / 1e9:.2f}", f"{one.activations / 1e6:,.0f}", *fits,
                         f"{own.compute / plain.compute:.2f}"))  # fmt: skip
    heads = ("activations in bfloat16", "GB whatever the batch", "MB an image", "images at once in 16 GiB", "in 80 GB",
             "operations, x")  # fmt: skip
    return table(heads, rows)


def _paper() -> str:
    days = {(row.model, row.pretraining): row.core_days for row in published(2)}
    listed = {(row.model, row.epochs): row.exaflops for row in published(6)}
    rows = []
    for source, name, data, epochs, images, why in PAPER:
        exaflops = training_exaflops(count(weightless(source)), epochs, images)
        theirs = listed.get((name, epochs)) if data == "JFT-300M" else None
        share = device_days(exaflops, TPU_V3.teraflops, 1.0) / days[name, data]
        rows.append((f"{name}, {data}", f"{epochs} ({why})", f"{exaflops:,.0f}", f"{theirs:,}" if theirs else "–",
                     f"{days[name, data]:,}", f"{TPU_V3.teraflops * share:.1f}", f"{share:.2f}"))  # fmt: skip
    heads = ("", "epochs", "exaFLOPs, counted", "Table 6", "core-days, Table 2", "TFLOP/s a core", "utilisation")
    return table(heads, rows)
