"""The command `keras-vit evaluate MODEL --data FILE.csv` for a regression."""

import json
from pathlib import Path

import numpy as np

from keras_vit.cli.output import Result
from keras_vit.cli.table import table_lines, terminal_width

SOME_FAILED = 1  # exit status


def run_values_verb(model, interface, options, recipe, left_out, origin, following) -> Result:
    """Evaluate a regression on images with known values, write the results, and return them.

    Args:
        model: a Keras model or an export.
        interface: the model's interface.
        options: the options of the verb.
        recipe: the recipe of the model; None without one.
        left_out: files of the recipe's data that may be missing.
        origin: origin of the weights.
        following: the next command.

    Raises:
        ValueError: an option is one of classes, or the data has no values of the model's targets.
    """
    from keras_vit.analysis.values_page import write_values
    from keras_vit.evaluate.value_results import value_results
    from keras_vit.predict import predict
    from keras_vit.preprocessing.inputs import load_image
    from keras_vit.train.workdir import write_atomically

    for name in ("validation", "save_calibrated", "train_images"):
        if getattr(options, name):
            option = f"--{name.replace('_', '-')}"
            raise ValueError(f"{option} expected a classifier, received a regression of "
                             f"{', '.join(interface.targets)}.")  # fmt: skip
    files, values = _labelled(options, interface, recipe, left_out)
    found = predict(model, files)
    read = [i for i, row in enumerate(found) if row["error"] is None]
    unreadable = [{"image": row["image"], "error": row["error"]} for row in found if row["error"]]
    if not read:
        raise ValueError(f"--data expected images, found {len(files):,} files of which none can be read.")
    predicted = np.array([[entry["value"] for entry in found[i]["predictions"]] for i in read])
    values, images = values[read], [files[i] for i in read]
    results = {
        "model": model.name, "weights": origin.weights, "sha256": origin.sha256, "data": options.data,
        **value_results(predicted, values, interface.targets, images, options.seed or 0), "unreadable": unreadable,
    }  # fmt: skip
    output = Path(options.output)
    output.mkdir(parents=True, exist_ok=True)
    write_atomically(output / "results.json", json.dumps(results, indent=1, ensure_ascii=False) + "\n")
    pictures = lambda names: [load_image(name, interface.image_shape) for name in names]  # noqa: E731
    write_values(output / "report.html", results, values, predicted, pictures)
    return Result(results, _text(results, options), following, SOME_FAILED if unreadable else 0)


def _labelled(options, interface, recipe, left_out):
    """Return the image files of `--data` and their values (N, T)."""
    from keras_vit.cli.labelled import SPLIT
    from keras_vit.data.labelled import files_with_values
    from keras_vit.data.sources import open_data
    from keras_vit.evaluate.accuracy import few

    if options.data != SPLIT:
        return files_with_values(options.data, interface.targets, "--data")
    if recipe is None:
        raise ValueError("--data split expected a workdir or --recipe, received a model without a recipe.")
    examples = open_data(recipe.data, recipe.data.test_split, options.data_dir, left_out)
    if examples.kind != "numbers" or examples.labels != interface.targets:
        raise ValueError(f"--data expected the model's targets ({few(interface.targets)}), found "
                         f"{few(examples.labels)}.")  # fmt: skip
    return list(examples.files), examples.targets


def _text(results, options) -> str:
    from keras_vit.analysis.page import spread_of

    names = ("target", "MAE", "RMSE", "R2")
    cells = [(row["target"], *(spread_of(row[name]) for name in ("mae", "rmse", "r2"))) for row in results["targets"]]
    lines = [
        *table_lines([names, *cells], range(1, 4), terminal_width(), names=names),
        f"on {results['images']:,} images",
    ]
    if results["unreadable"]:
        lines.append(f"left out {len(results['unreadable']):,} images that cannot be read")
    return "\n".join([*lines, f"wrote results.json and report.html to {options.output}"])
