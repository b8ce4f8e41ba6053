"""What `scaling.py` measured, beside what the prediction makes of its parts; the tables and the plot of scaling.md."""

import functools
import io
import re
import statistics
from dataclasses import dataclass
from pathlib import Path

from benchmarks.scaling_predicted import BATCH, COUNTS, DEVICES, ENOUGH, MODELS, predicted, share_of, table, weightless
from keras_vit.cost import Device, count, predict_scaling, training_bytes
from keras_vit.cost.weightless import open_weightless

KINDS = {
    "one": "one replica, one core",
    "both": "one replica, both cores",
    "mirrored": "two replicas, a thread each",
    "workers": "two processes, a core each",
}


BUSY = 2.5  # a load that is not this benchmark's alone


def middle(values, form="{:.3g}") -> str:
    """Median, minimum and maximum."""
    told = lambda x: form.format(x) if x < 1000 else f"{x:,.0f}"  # noqa: E731
    return f"{told(statistics.median(values))} ({told(min(values))} – {told(max(values))})"


@dataclass(frozen=True)
class Measured:
    """A run of `scaling.py`, and what the prediction takes from it."""

    found: dict

    @functools.cached_property
    def model(self):
        return open_weightless(self.found["model"], (self.found["image_size"],) * 2)

    def seconds(self, kind, images) -> list[float]:
        return self.found["seconds"][kind][f"step of {images}"]

    def efficiencies(self, kind, each, strong=False) -> list[float]:
        """Round by round, of two devices with so many images each."""
        alone, two = self.seconds("one", 2 * each if strong else each), self.seconds(kind, 2 * each)
        return [a / b / (2 if strong else 1) for a, b in zip(alone, two, strict=True)]

    def line(self) -> tuple[float, float]:
        """Seconds of a step on one core without an image, and those that an image adds: least squares."""
        batches = [int(label.split()[-1]) for label in self.found["seconds"]["one"] if label.startswith("step")]
        seconds = [statistics.median(self.seconds("one", images)) for images in batches]
        slope, start = statistics.linear_regression(batches, seconds)
        return start, slope

    @property
    def matmul(self) -> float:
        """Operations a second of a matrix product on one core."""
        return 2 * self.found["matmul_side"] ** 3 / statistics.median(self.found["seconds"]["one"]["matmul"])

    @property
    def reached(self) -> float:
        """Operations a second of training on one core, what does not grow with the images left out."""
        return 3 * count(self.model).flops / self.line()[1]

    def device(self, kind) -> tuple[Device, float]:
        """A core as a device, and the share of its peak that training reaches."""
        found, held = self.found["seconds"], training_bytes(self.model, 1)
        moved = 2 * held.weights + held.gradients + 2 * held.optimizer
        latency = statistics.median(found[kind]["small sum"]) / self.found["small_sums"] / 2  # two messages in turn
        ring = max(statistics.median(found[kind]["sum"]) - 2 * latency, 1e-9)
        rate = held.gradients / ring
        peak = max(self.matmul, self.reached)  # on a machine with other work either may be unlucky
        core = Device("core", peak / 1e12, 1.0, moved / max(self.line()[0], 1e-9), 2, rate, rate, latency)
        return core, self.reached / peak


def measured(found) -> str:
    """What was measured, and the prediction from its parts beside it."""
    run = Measured(found)
    seconds, model = found["seconds"], run.model
    gradients = training_bytes(model, 1).gradients
    lines = [f"{found['date']}, {found['machine']}. Rounds: {found['rounds']}. Mean load of the machine in the "
             f"quarter of an hour to the end: {found['load']:.1f}; this benchmark's own is at most 2.\n"]  # fmt: skip
    if found["load"] > BUSY:
        lines.append("**Other work ran on the machine's cores: no time below says how it scales, the bytes hold.**\n")
    rows = []
    for kind, title in KINDS.items():
        for label, values in seconds[kind].items():
            if label.startswith("step"):
                images = int(label.split()[-1])
                rows.append((title, images, middle([1000 * x for x in values]), middle([images / x for x in values])))
    lines.append(table(("", "images a step", "ms, median (min – max)", "images/s"), rows))
    rows = []
    for kind in ("mirrored", "workers"):
        device, share = run.device(kind)
        for each in found["each"]:
            told = predict_scaling(model, device, 2, each, share)
            rows.append((KINDS[kind], each, middle(run.efficiencies(kind, each), "{:.2f}"), f"{told.efficiency:.2f}",
                         middle(run.efficiencies(kind, each, strong=True), "{:.2f}"),
                         f"{told.strong_efficiency:.2f}"))  # fmt: skip
    heads = ("", "images on each", "weak efficiency", "from its parts", "strong efficiency", "from its parts")
    lines.append(table(heads, rows))
    start, slope = run.line()
    line = f"{1000 * start:.1f} ms, and {1000 * slope:.2f} an image: {run.reached / 1e9:.0f} GFLOP/s"
    rows = [("matmul on one core", f"{run.matmul / 1e9:.0f} GFLOP/s"), ("a step on one core", line)]
    for kind in ("mirrored", "workers"):
        device, _ = run.device(kind)
        took, rate = middle([1000 * x for x in seconds[kind]["sum"]]), device.host_rate / 1e9
        line = f"{took} ms: {rate:.2f} GB/s; 2 x {1000 * device.latency:.2f} ms with next to nothing"
        rows.append((f"gradients summed alone, {KINDS[kind]}", line))
    lines.append(table(("parts", "median (min – max)"), rows))
    summed, sent = found["collectives"], found["loopback_bytes"]
    size = "of unknown size" if None in summed else f"of {max(summed):,} bytes the larger"
    rows = [("from the gradients' shapes and types", f"{gradients:,}")]
    rows.append((f"the traced step's {len(summed)} collective operations, {size}",
                 "unknown" if None in summed else f"{sum(summed):,}"))  # fmt: skip
    for label, values in sent.items():
        if values and label != "small sum":
            halves = middle([x / 2 for x in values])
            rows.append((f"over loopback, {label}, half of what both processes sent", halves))
    return "\n".join([*lines, table(("bytes summed over the devices a step", ""), rows)])


def refresh(path: Path, found=None) -> None:
    """Put the predicted tables, and those of a run where there is one, between their markers in a Markdown file."""
    text = path.read_text(encoding="utf-8")
    for name, part in (predicted() | ({"measured": measured(found)} if found else {})).items():
        text = between(text, name, part)
    path.write_text(text, encoding="utf-8")


def between(text: str, name: str, part: str) -> str:
    """The text with another part between the markers of a name."""
    pattern = re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.DOTALL)
    if not pattern.search(text):
        raise ValueError(f"the Markdown expected the markers <!-- {name} --> and <!-- /{name} -->, has none.")
    return pattern.sub(lambda match: f"{match[1]}{part.strip()}\n{match[2]}", text)


def plot(found, path: Path) -> None:
    """Efficiency: of two devices, measured and from its parts, over the batch; of up to 512, predicted, over n."""
    from PIL import Image

    from keras_vit.analysis.plots import style

    drawn = io.BytesIO()
    with style.canvas(drawn, (9, 3.9), layout="constrained") as figure:
        left, right = figure.subplots(1, 2)
        _plot_measured(left, Measured(found), style)
        _plot_predicted(right, style)
        for axes in (left, right):
            axes.set(ylim=(0, 120), xscale="log")
            axes.set_yticks(range(0, 101, 20))
            axes.minorticks_off()
            axes.grid(True)
            axes.set_axisbelow(True)
        each = found["each"]
        for axes, ticks in ((left, [min(each) // 2, *each, 2 * max(each)]), (right, COUNTS)):
            axes.set_xticks(ticks, map(str, ticks))
    with Image.open(drawn) as picture:
        picture.convert("RGB").quantize(64).save(path, optimize=True)  # a few colours: a third of the bytes


def _plot_measured(axes, run: Measured, style):
    each = run.found["each"]
    spread = range(min(each) // 2, 2 * max(each) + 1)
    for kind, colour, marker in (("mirrored", style.BLUE, "o"), ("workers", style.VERMILION, "s")):
        device, share = run.device(kind)
        told = [100 * predict_scaling(run.model, device, 2, images, share).efficiency for images in spread]
        axes.plot(spread, told, color=colour, linewidth=1)
        values = [[100 * x for x in run.efficiencies(kind, images)] for images in each]
        at = [statistics.median(row) for row in values]
        bars = [[x - min(row) for x, row in zip(at, values, strict=True)],
                [max(row) - x for x, row in zip(at, values, strict=True)]]  # fmt: skip
        axes.errorbar(each, at, bars, color=colour, marker=marker, capsize=3, label=KINDS[kind], linestyle="none")
    axes.plot([], [], color=style.GREY, linewidth=1, label="from the measured parts")
    busy = ", on a busy machine" if run.found["load"] > BUSY else ""
    axes.set(title=f"Two devices: measured{busy}", xlabel="images on each device", ylabel="weak-scaling efficiency, %")
    axes.legend(loc="upper left", frameon=False, fontsize=7.5, ncols=2, columnspacing=1)


def _plot_predicted(axes, style):
    models = {name: weightless(row) for name, row in MODELS.items()}
    for device, colour in zip(DEVICES, (style.GREEN, style.BLUE, style.VERMILION), strict=True):
        for (name, model), line in zip(models.items(), ("-", "--"), strict=True):
            share = share_of(device, name)
            told = [100 * predict_scaling(model, device, n, BATCH // n, share).strong_efficiency for n in COUNTS]
            axes.plot(COUNTS, told, line, color=colour, label=device.name if line == "-" else None)
    axes.axhline(100 * ENOUGH, color=style.GREY, linewidth=0.8, linestyle=":")
    axes.set(title="8 to 512: predicted, not measured", xlabel=f"devices that share {BATCH:,} images",
             ylabel="strong-scaling efficiency, %, no overlap")  # fmt: skip
    kinds = ", ".join(f"{name[4:]} {line}" for name, line in zip(models, ("solid", "dashed"), strict=True))
    axes.legend(loc="lower left", frameon=False, fontsize=8, title=kinds, title_fontsize=8, alignment="left")
