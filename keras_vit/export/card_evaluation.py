"""Describe an evaluation in a model card."""

import json
import os
from pathlib import Path

from keras_vit.export.origin import Origin

MOST = 30  # classes listed
NEEDED = ("weights", "sha256", "data", "images", "accuracy", "macro", "classes", "calibration", "rejection")
VALUES_NEEDED = ("weights", "sha256", "data", "images", "targets")  # of a regression
LABELS_NEEDED = ("weights", "sha256", "data", "images", "f1", "micro_f1", "labels")  # of several labels per image


def read_evaluation(path: str | os.PathLike, origin: Origin) -> dict:
    """Return the content of a `results.json` of `keras-vit evaluate --data`.

    Args:
        path: the file.
        origin: origin of the exported weights, which must be those that were evaluated.

    Raises:
        FileNotFoundError: the file does not exist.
        ValueError: the file is no such file, or is about other weights.
    """
    if not Path(path).is_file():
        raise FileNotFoundError(f"--results expected a results.json, found none at {str(path)!r}.")
    try:
        results = json.loads(Path(path).read_text(encoding="utf-8"))
    except ValueError:
        results = None
    needed = NEEDED
    if isinstance(results, dict):
        several = "mean_average_precision" in results
        needed = VALUES_NEEDED if "targets" in results else LABELS_NEEDED if several else NEEDED
    if not isinstance(results, dict) or any(name not in results for name in needed):
        raise ValueError(f"--results expected a results.json of keras-vit evaluate --data, received {str(path)!r}.")
    if (results["sha256"] or results["weights"]) != (origin.sha256 or origin.weights):
        raise ValueError(f"--results expected an evaluation of the exported weights, received one of "
                         f"{results['weights']!r}: evaluate this model, then export it.")  # fmt: skip
    return results


def _values_section(results: dict) -> list[str]:
    """Return the lines of the section about an evaluation of a regression."""
    rows = [("target", "mean absolute error", "root mean squared error", "R2")]
    for row in results["targets"]:
        figures = (row[name]["value"] for name in ("mae", "rmse", "r2"))
        rows.append((row["target"], *("unknown" if value is None else f"{value:.4g}" for value in figures)))
    title = f"On {results['images']:,} images of `{results['data']}` with known values."
    return ["## Evaluation", "", title, "", *markdown_table(rows), ""]


def _labels_section(results: dict) -> list[str]:
    """Return the lines of the section about an evaluation of several labels per image."""
    figures = [("figure", "value", f"{results['interval']['level']:.0%} interval")]
    for name in ("mean_average_precision", "f1", "micro_f1"):
        figures.append((name.replace("_", " ").replace("f1", "F1"), *_cells(results[name])))
    known = (row for row in results["labels"] if row["images"])
    rows = sorted(known, key=lambda row: row["average_precision"]["value"])
    labels = [("label", "images", "average precision", "precision", "recall", "F1")]
    for row in rows[:MOST]:
        rates = [f"{row[name]['value']:.1%}" for name in ("average_precision", "precision", "recall", "f1")]
        labels.append((row["label"], f"{row['images']:,}", *rates))
    title = "Lowest average precision first:"
    if len(rows) > MOST:
        title = f"The {MOST} of {len(rows):,} labels with the lowest average precision:"
    lines = ["## Evaluation", "", f"On {results['images']:,} images of `{results['data']}` with known labels.", ""]
    return [*lines, *markdown_table(figures), "", title, "", *markdown_table(labels), ""]


def evaluation_section(results: dict) -> list[str]:
    """Return the lines of the section about an evaluation, in Markdown."""
    if "targets" in results:
        return _values_section(results)
    if "mean_average_precision" in results:
        return _labels_section(results)
    level, top = results["interval"]["level"], results["top_k"]
    figures = [
        ("figure", "value", f"{level:.0%} interval"),
        ("accuracy", *_cells(results["accuracy"])),
        (f"top-{top['k']} accuracy", *_cells(top)),
        ("macro F1", *_cells(results["macro"]["f1"])),
        ("expected calibration error", f"{results['calibration']['ece']:.2%}", ""),
    ]
    rejected = [("images answered", "accuracy", "confidence at least")]
    rejected += [(f"{row['coverage']:.1%}", f"{row['accuracy']:.2%}", f"{row['threshold']:.4f}")
                 for row in results["rejection"]["by_coverage"]]  # fmt: skip
    rows = sorted((row for row in results["classes"] if row["images"]), key=lambda row: row["f1"]["value"])
    classes = [("class", "images", "precision", "recall", "F1", f"{level:.0%} interval of F1")]
    for row in rows[:MOST]:
        rates = [f"{row[name]['value']:.1%}" for name in ("precision", "recall", "f1")]
        classes.append((row["label"], f"{row['images']:,}", *rates, _cells(row["f1"])[1]))
    title = f"The {MOST} of {len(rows):,} classes with the lowest F1:" if len(rows) > MOST else "Lowest F1 first:"
    lines = ["## Evaluation", "", f"On {results['images']:,} labelled images of `{results['data']}`.", ""]
    lines += [*markdown_table(figures), "", "Accuracy where images of low confidence are rejected:", ""]
    lines += [*markdown_table(rejected), "", title, "", *markdown_table(classes), ""]
    return lines + _findings(results)


def _findings(results: dict) -> list[str]:
    """Return the lines about confused classes, labels and near-duplicates."""
    pairs = [f"{row['first']} and {row['second']} ({row['first_as_second'] + row['second_as_first']:,} mistakes)"
             for row in results["hardest_pairs"][:5]]  # fmt: skip
    lines = [f"- Classes confused most often: {'; '.join(pairs)}."] if pairs else []
    lines.append(f"- Labels that are likely wrong: {results['likely_wrong_labels_in_all']:,}.")
    if results["near_duplicates"] is not None:
        lines.append(f"- Evaluated images that look like a training image: {len(results['near_duplicates']):,}.")
    return [*lines, ""]


def _cells(figure: dict) -> tuple[str, str]:
    return f"{figure['value']:.2%}", f"{figure['low']:.2%} to {figure['high']:.2%}"


def markdown_table(lines) -> list[str]:
    """Return a table in Markdown. The first line has the names of the columns."""
    head, *rows = ["| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines]
    return [head, "|" + "---|" * len(lines[0]), *rows]
