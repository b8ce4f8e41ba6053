"""Count the cost of a model for `keras-vit summary`."""

from dataclasses import asdict, dataclass, replace

from keras_vit.cost.budget import BYTES, JFT_IMAGES, device_days, training_bytes, training_exaflops
from keras_vit.cost.operations import Cost, LayerCost, count
from keras_vit.cost.published import published
from keras_vit.cost.weightless import open_weightless
from keras_vit.models.variants import AnyVariant, find_variant


@dataclass(frozen=True)
class Summary:
    """The cost of a model.

    Args:
        report: all values, as JSON values.
        above: lines above the table.
        table: rows of cells, first the names of the columns.
        below: lines below the table.
        is_named: whether the model was given by a model's name, rather than a path.
    """

    report: dict
    above: list[str]
    table: list[tuple[str, ...]]
    below: list[str]
    is_named: bool


def run_summary(options) -> Summary:
    """Count the cost of a model. `options` are the parsed arguments of `keras-vit summary`."""
    model = open_weightless(options.model, options.image_size)
    cost = count(model)
    memory = training_bytes(model, options.batch, options.optimizer, options.precision)
    report = {
        "model": cost.name,
        "input_shape": list(cost.input_shape),
        "parameters": cost.parameters,
        "macs": cost.macs,
        "flops": cost.flops,
        "activations": cost.activations,
        "layers": [asdict(layer) for layer in cost.layers],
        "training": {"batch": options.batch, "optimizer": options.optimizer, "precision": options.precision},
    }
    report["training"]["bytes"] = {**asdict(memory), "total": memory.total}
    if options.epochs:
        report["exaflops"] = training_exaflops(cost, options.epochs, options.images)
        if options.peak:
            report["device_days"] = device_days(report["exaflops"], options.peak, options.utilisation)
    elif options.peak or options.accuracy:
        raise ValueError("--epochs expected the epochs of pre-training, received nothing.")
    if options.plot:
        from keras_vit.cost.plot import plot_compute

        models = {cost.name: (report["exaflops"], dict(options.accuracy))} if options.accuracy else None
        plot_compute(options.plot, models)
    above, below = _lines(cost, report, options)
    return Summary(report, above, _table(cost, BYTES[options.precision]), below, _row_of(options.model) is not None)


def _lines(cost: Cost, report: dict, options) -> tuple[list[str], list[str]]:
    """Return the lines above and below the table."""
    down, across, channels = cost.input_shape
    memory = report["training"]["bytes"]
    groups = [f"{name} {_gigabytes(memory[name])}" for name in ("weights", "gradients", "optimizer", "activations")]
    above = [
        f"{cost.name}, {down} x {across} x {channels}: {cost.parameters:,} parameters, {cost.macs / 1e9:,.3f} GMACs = "
        f"{cost.flops / 1e9:,.2f} GFLOPs per image",
        "",
    ]
    lines = [
        "MB to train: activations per image that the backward pass needs",
        "",
        f"training with {options.optimizer}, {options.batch} images in {options.precision}: "
        f"{_gigabytes(memory['total'])} ({', '.join(groups)})",
    ]
    if options.epochs:
        line = f"{options.epochs:g} epochs of {options.images:,.0f} images: {report['exaflops']:,.4g} exaFLOPs"
        lines.append(line + _published_exaflops(cost, options))
    if "device_days" in report:
        lines.append(f"on a device of {options.peak:g} TFLOP/s with {options.utilisation:.0%} utilisation: "
                     f"{report['device_days']:,.4g} days")  # fmt: skip
    if options.plot:
        lines.append(f"wrote {options.plot}")
    return above, lines


def _table(cost: Cost, bytes_per_value: int) -> list[tuple[str, ...]]:
    """Return a row per layer. Consecutive blocks with the same cost are one line."""
    runs = []
    for layer in cost.layers:
        if not (layer.parameters or layer.macs or layer.activations):
            continue
        if runs and _same_cost(runs[-1][-1], layer):
            runs[-1].append(layer)
        else:
            runs.append([layer])
    rows = [("layer", "output", "parameters", "MMACs", "MB to train")]
    rows += [(_names(run), " x ".join(map(str, run[0].output_shape)), *_sums(run, bytes_per_value)) for run in runs]
    rows.append(("total", "", *_sums(cost.layers, bytes_per_value)))
    return rows


def _same_cost(one: LayerCost, other: LayerCost) -> bool:
    return one.kind.endswith(("Block", "Unit")) and replace(one, name="") == replace(other, name="")


def _names(run) -> str:
    if len(run) == 1:
        return run[0].name
    return f"{run[0].name} ... {run[-1].name.rpartition('_')[2]} ({len(run)} equal layers)"


def _sums(run, bytes_per_value) -> tuple[str, str, str]:
    parameters, macs, activations = (
        sum(getattr(layer, name) for layer in run) for name in ("parameters", "macs", "activations")
    )
    return f"{parameters:,}", f"{macs / 1e6:,.2f}", f"{activations * bytes_per_value / 1e6:,.2f}"


def _gigabytes(count: int) -> str:
    return f"{count / 1e9:,.2f} GB"


def _published_exaflops(cost: Cost, options) -> str:
    """Return the exaFLOPs of the ViT paper's Table 6 in parentheses; an empty text if the table has no such row."""
    if cost.input_shape != (224, 224, 3) or options.images != JFT_IMAGES:
        return ""
    row = _row_of(options.model)
    name = row and row.paper_name
    rows = [row for row in published(6) if (row.model, row.epochs) == (name, options.epochs)]
    return f" (the paper's Table 6: {rows[0].exaflops:,})" if rows else ""


def _row_of(model: str) -> AnyVariant | None:
    """Return the row of a model's name; None for a path or an unknown name."""
    try:
        return find_variant(model)[0]
    except ValueError:
        return None
