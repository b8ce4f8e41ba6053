"""The command `keras-vit evaluate MODEL --data FILE.csv` for a model of several labels per image."""

import json
from pathlib import Path

from keras_vit.cli.labelled import SPLIT, score_image_files
from keras_vit.cli.output import Result
from keras_vit.cli.table import table_lines, terminal_width

SHOWN = 25  # labels in the table
SOME_FAILED = 1  # exit status


def run_labels_verb(model, interface, options, recipe, left_out, origin, following) -> Result:
    """Evaluate a model of several labels per image, write the results, and return them.

    Args:
        model: a Keras model or an export.
        interface: the model's interface.
        options: the options of the verb.
        recipe: the recipe of the model; None without one.
        left_out: files of the recipe's data that may be missing.
        origin: origin of the weights.
        following: the next command.

    Raises:
        ValueError: an option is one of classes, or the data has other labels.
    """
    from keras_vit.analysis.labels_page import write_labels
    from keras_vit.evaluate.label_results import label_results
    from keras_vit.train.workdir import write_atomically

    for name in ("validation", "save_calibrated", "train_images"):
        if getattr(options, name):
            option = f"--{name.replace('_', '-')}"
            raise ValueError(f"{option} expected a model of one class per image, received {model.name} of several "
                             "labels per image.")  # fmt: skip
    files, hot = _labelled(options, interface, recipe, left_out)
    scores = score_image_files(model, files, hot, "--data", quiet=options.quiet)
    results = {
        "model": model.name, "weights": origin.weights, "sha256": origin.sha256, "data": options.data,
        **label_results(scores.probabilities, scores.labels, interface.thresholds, interface.labels, scores.images,
                        options.seed or 0),
        "unreadable": scores.unreadable,
    }  # fmt: skip
    output, positions = Path(options.output), {name: i for i, name in enumerate(scores.images)}
    output.mkdir(parents=True, exist_ok=True)
    write_atomically(output / "results.json", json.dumps(results, indent=1, ensure_ascii=False) + "\n")
    pictures = lambda names: scores.pictures([positions[name] for name in names])  # noqa: E731
    write_labels(output / "report.html", results, pictures)
    return Result(results, _text(results, options), following, SOME_FAILED if scores.unreadable else 0)


def _labelled(options, interface, recipe, left_out):
    """Return the image files of `--data`, and 0 or 1 for each label (N, K)."""
    from keras_vit.data.labelled import files_with_labels
    from keras_vit.data.sources import open_data
    from keras_vit.evaluate.accuracy import few

    if options.data != SPLIT:
        return files_with_labels(options.data, interface.labels)
    if recipe is None:
        raise ValueError("--data split expected a workdir or --recipe, received a model without a recipe.")
    examples = open_data(recipe.data, recipe.data.test_split, options.data_dir, left_out)
    if not examples.multi or examples.labels != interface.labels:
        raise ValueError(f"--data expected the model's labels ({few(interface.labels)}), found {few(examples.labels)}.")
    if examples.files is None:
        raise ValueError(f"--data split expected images in files with several labels per image, received the source "
                         f"{recipe.data.source!r}; without --data, evaluate measures it.")  # fmt: skip
    return list(examples.files), examples.targets


def _text(results, options) -> str:
    """Return the summary and the table of the labels, those with the lowest average precision first."""
    totals = {"mean average precision": "mean_average_precision", "F1": "f1", "micro F1": "micro_f1",
              "all labels right": "exact"}  # fmt: skip
    lines = [", ".join(f"{title} {_interval(results[name])}" for title, name in totals.items())
             + f" on {results['images']:,} images"]  # fmt: skip
    rows = sorted(
        (row for row in results["labels"] if row["images"]), key=lambda row: row["average_precision"]["value"]
    )
    names = ("label", "images", "average precision", "precision", "recall", "F1")
    rates = ("average_precision", "precision", "recall", "f1")
    cells = [(row["label"], f"{row['images']:,}", *(_interval(row[rate]) for rate in rates)) for row in rows[:SHOWN]]
    lines += ["", *table_lines([names, *cells], range(1, 6), terminal_width(), wrapped=0, names=names), ""]
    if len(rows) > SHOWN:
        lines.append(f"the {SHOWN} labels with the lowest average precision of {len(rows):,}")
    if without := [row["label"] for row in results["labels"] if not row["images"]]:
        lines.append(f"no image has {', '.join(without[:SHOWN])}{', ...' * (len(without) > SHOWN)}")
    if results["unreadable"]:
        lines.append(f"left out {len(results['unreadable']):,} images that cannot be read")
    return "\n".join([*lines, f"wrote results.json and report.html to {options.output}"])


def _interval(figure: dict) -> str:
    return f"{figure['value']:.1%} ({figure['low']:.1%} to {figure['high']:.1%})"
