"""The command `keras-vit compare FIRST SECOND --data FILE.csv` for two regressions."""

from pathlib import Path

import numpy as np

from keras_vit.cli.compare import SHOWN, finished, same_names, unlabelled_files
from keras_vit.cli.output import Result
from keras_vit.cli.table import table_lines, terminal_width


def compare_values(models, options) -> Result:
    """Compare two regressions of the same targets."""
    from keras_vit.analysis.page import cell, heading, number, table
    from keras_vit.data.labelled import files_with_values
    from keras_vit.evaluate.paired import value_agreement
    from keras_vit.predict.predictor import interface_of
    from keras_vit.preprocessing.inputs import load_image

    interface = interface_of(models[0])
    targets, order = interface.targets, same_names(interface.targets, interface_of(models[1]).targets, "targets")
    files, values = unlabelled_files(options.data), None
    if files is None:
        files, values = files_with_values(options.data, targets)
    images, read, first, second, unreadable = _predicted(models, files)
    second = second[:, order]
    values = None if values is None else values[read].astype("float64")
    result = {"first": options.first, "second": options.second, "data": options.data}
    result |= value_agreement(first, second, targets, values)
    spread = np.maximum((first if values is None else values).std(axis=0), 1e-12)
    farthest = np.argsort(-(np.abs(second - first) / spread).max(axis=1), kind="stable")[:SHOWN]
    result["changes"] = [
        {"image": images[i], "first": first[i].tolist(), "second": second[i].tolist(),
         "true": None if values is None else values[i].tolist()}
        for i in farthest
    ]  # fmt: skip
    result["unreadable"] = unreadable
    cells = [("target", "mean difference", "first MAE", "second MAE", "change", "p"), *map(_cells, result["targets"])]
    lines = table_lines(cells, range(1, 6), terminal_width(), names=cells[0])
    lines.append(f"on {result['images']:,} images" + ("" if values is not None else " without known values"))
    if values is not None:
        lines.append("change: of the mean absolute error, with its 95% interval; p: of the paired randomisation test")
    facts = {"images": f"{result['images']:,}", "pictures": f"the {len(farthest)} answers that differ most"}
    rows = table(cells[0], [[cell(name), *map(number, rest)] for name, *rest in cells[1:]])
    captions = [_caption(row, targets) for row in result["changes"]]
    pictures = lambda: [load_image(row["image"], interface.image_shape) for row in result["changes"]]  # noqa: E731
    return finished(options, result, lines, facts, captions, pictures, [heading("Targets"), rows])


def _predicted(models, files):
    """Return the images that can be read, their indices, the values (N, T) of both models, and the other files."""
    from keras_vit.predict import predict

    found = [predict(model, files) for model in models]
    unreadable = [{"image": row["image"], "error": row["error"]} for row in found[0] if row["error"]]
    read = [i for i, row in enumerate(found[0]) if row["error"] is None]
    if not read:
        raise ValueError(f"--data expected images, found {len(files):,} files of which none can be read.")
    first, second = (np.array([[entry["value"] for entry in rows[i]["predictions"]] for i in read]) for rows in found)
    return [files[i] for i in read], read, first, second, unreadable


def _cells(row) -> tuple[str, ...]:
    """Return the cells of a target in the table."""
    if "mae" not in row:
        return row["target"], f"{row['difference']:.4g}", "", "", "", ""
    change = f"{row['change']['value']:+.4g} ({row['change']['low']:+.4g} to {row['change']['high']:+.4g})"
    return (row["target"], f"{row['difference']:.4g}", *(f"{value:.4g}" for value in row["mae"]), change,
            f"{row['p']:.3g}")  # fmt: skip


def _caption(row, targets) -> str:
    texts = []
    for j, name in enumerate(targets):
        true = "" if row["true"] is None else f", true {row['true'][j]:.4g}"
        texts.append(f"{name} {row['first'][j]:.4g} became {row['second'][j]:.4g}{true}")
    return f"{Path(row['image']).name}: {'; '.join(texts)}"
