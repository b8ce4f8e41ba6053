"""The command `keras-vit evaluate MODEL --data FOLDER`."""

import argparse
from pathlib import Path

from keras_vit.cli.labelled import score_labelled
from keras_vit.cli.options import recipe_of, short_name
from keras_vit.cli.output import Result
from keras_vit.cli.table import table_lines, terminal_width

OPTIONS = ("validation", "save_calibrated", "train_images", "seed")
SHOWN = 25  # classes in the table
SOME_FAILED = 1  # exit status


def add_data(sub: argparse.ArgumentParser) -> None:
    """Add the options of labelled images to the parser of `keras-vit evaluate`."""
    group = sub.add_argument_group("labelled images")
    group.add_argument("--data", help="a folder CLASS/IMAGE, a .csv file as for training (path and label, labels or "
                       "values), or `split` for the recipe's test split; writes results.json and report.html to "
                       "--output")  # fmt: skip
    group.add_argument("--validation", metavar="DATA", help="other labelled images, as --data, to fit a temperature on")
    group.add_argument("--save-calibrated", metavar="FILE", help="write the model with the temperature of --validation "
                       "as a .keras file")  # fmt: skip
    group.add_argument("--train-images", metavar="DATA", help="the training images, a folder or .csv file, to find "
                       "their near-duplicates in --data")  # fmt: skip
    group.add_argument("--seed", type=int, help="seed of the confidence intervals (default 0)")


def require_data_options(options) -> None:
    """Raise a ValueError if an option of labelled images does not apply."""
    name = lambda option: f"--{option.replace('_', '-')}"  # noqa: E731
    given = [name(option) for option in OPTIONS if getattr(options, option) is not None]
    if options.data is None:
        if given:
            raise ValueError(f"--data expected labelled images with {', '.join(given)}, received nothing.")
        return
    if options.suite or options.flip:
        raise ValueError(f"--data expected neither --suite nor --flip, received "
                         f"{'--suite' if options.suite else '--flip'}.")  # fmt: skip
    if options.output is None:
        raise ValueError("--output expected the folder of the results, received nothing.")
    if options.save_calibrated:
        if options.validation is None:
            raise ValueError("--validation expected labelled images with --save-calibrated, received nothing.")
        if Path(options.save_calibrated).suffix != ".keras":
            raise ValueError(f"--save-calibrated expected a .keras file, received {options.save_calibrated!r}.")


def run_data_verb(options) -> Result:
    """Evaluate a model on labelled images, write the results, and return them."""
    from keras_vit.data.near_duplicates import thumbnail
    from keras_vit.evaluate.results import labelled_results, temperature_results
    from keras_vit.export import origin_of
    from keras_vit.models.model_names import require_trained
    from keras_vit.predict import load_predictor
    from keras_vit.predict.predictor import interface_of
    from keras_vit.terminal import hide_stderr
    from keras_vit.train.left_out import absent_files

    require_trained(options.model)
    recipe, left_out = recipe_of(options), absent_files(options.model, options.recipe)
    with hide_stderr():  # TFLite prints information
        model = load_predictor(options.model)
    if interface_of(model).targets or interface_of(model).thresholds:
        from keras_vit.cli.evaluate_labels import run_labels_verb
        from keras_vit.cli.evaluate_values import run_values_verb

        following, origin = _following(model, options), origin_of(options.model)
        run = run_values_verb if interface_of(model).targets else run_labels_verb
        return run(model, interface_of(model), options, recipe, left_out, origin, following)
    if options.save_calibrated:
        _require_keras_model(model, options)
    given = {"recipe": recipe, "data_dir": options.data_dir, "left_out": left_out, "quiet": options.quiet}
    each = thumbnail if options.train_images else None
    test = score_labelled(model, options.data, each=each, **given)
    interface = interface_of(model)
    origin = origin_of(options.model)
    results = {
        "model": model.name,
        "weights": origin.weights,
        "sha256": origin.sha256,
        "data": options.data,
        **labelled_results(
            test.probabilities, test.labels, interface.labels, test.images, options.seed or 0, interface.ordered
        ),
        "unreadable": test.unreadable,
        "temperature": None,
        "near_duplicates": None,
    }
    if options.validation:
        other = score_labelled(model, options.validation, argument="--validation", **given)
        results["temperature"] = temperature_results((other.logits, other.labels), (test.logits, test.labels))
    if options.train_images:
        results["near_duplicates"] = _near_duplicates(options, test, interface)
    _write(options, results, test)
    if options.save_calibrated:
        from keras_vit.evaluate.temperature import set_temperature

        set_temperature(model, results["temperature"]["value"])
        model.save(options.save_calibrated)
    status = SOME_FAILED if test.unreadable else 0
    return Result(results, _text(results, options), _following(model, options), status)


def _require_keras_model(model, options) -> None:
    """Raise a ValueError if the model cannot be saved with a temperature."""
    from keras_vit.evaluate.temperature import require_temperature
    from keras_vit.exported import ExportedModel

    if isinstance(model, ExportedModel):
        raise ValueError(f"--save-calibrated expected a Keras model, received the export {options.model!r}: calibrate "
                         "the model, then export it.")  # fmt: skip
    require_temperature(model)
    if not Path(options.save_calibrated).absolute().parent.is_dir():
        raise ValueError(f"--save-calibrated expected a file in a folder that exists, received "
                         f"{options.save_calibrated!r}.")  # fmt: skip


def _near_duplicates(options, test, interface) -> list[dict]:
    """Return the evaluated images that look like a training image."""
    from keras_vit.data.labelled import training_files
    from keras_vit.data.near_duplicates import near_duplicates, thumbnail
    from keras_vit.predict.progress import Progress
    from keras_vit.predict.scores import thumbnails_of

    files = training_files(options.train_images, "--train-images")
    with Progress(len(files), options.quiet) as progress:
        progress.describe("training images")
        notes = thumbnails_of(files, interface, progress, thumbnail)
    files = [file for file, note in zip(files, notes, strict=True) if note is not None]
    found = near_duplicates(test.notes, [note for note in notes if note is not None])
    return [{"image": test.images[i], "train_image": files[j], "correlation": value} for i, j, value in found]


def _write(options, results, test) -> None:
    """Write `results.json` and `report.html`."""
    import json

    from keras_vit.analysis.evaluation_page import write_evaluation
    from keras_vit.evaluate.mistakes import coverage_curve
    from keras_vit.train.workdir import write_atomically

    output, positions = Path(options.output), {name: i for i, name in enumerate(test.images)}
    output.mkdir(parents=True, exist_ok=True)
    write_atomically(output / "results.json", json.dumps(results, indent=1, ensure_ascii=False) + "\n")
    curve = coverage_curve(test.probabilities, test.labels)
    pictures = lambda names: test.pictures([positions[name] for name in names])  # noqa: E731
    write_evaluation(output / "report.html", results, curve, pictures)


def _following(model, options) -> tuple[str, ...]:
    """Return the command that exports the model; none for an export."""
    from keras_vit.exported import ExportedModel

    if isinstance(model, ExportedModel):
        return ()
    output = f"saved_models/{short_name(options.model)}"
    if options.save_calibrated:
        return ("export", options.save_calibrated, "--output", output)
    return ("export", options.model, "--output", output, "--results", str(Path(options.output) / "results.json"))


def _text(results: dict, options) -> str:
    """Return the summary and the table of the classes, those with the lowest F1 first."""
    from keras_vit.analysis.page import spread_of

    calibrated, top = results["calibration"], results["top_k"]
    lines = [
        f"accuracy {_interval(results['accuracy'])}, top-{top['k']} {_interval(top)}, macro F1 "
        f"{_interval(results['macro']['f1'])}, weighted F1 {_interval(results['weighted']['f1'])}",
        f"expected calibration error {calibrated['ece']:.2%}, log loss {calibrated['log_loss']:.4f} on "
        f"{results['images']:,} images",
    ]
    if "ranks" in results:
        error, kappa = (spread_of(results["ranks"][name]) for name in ("rank_error", "kappa"))
        lines.append(f"mean rank error {error}, quadratic weighted kappa {kappa}")
    if results["temperature"]:
        temperature, after = results["temperature"]["value"], results["temperature"]["calibration"]
        lines.append(f"with the temperature {temperature:.3f}: expected calibration error {after['ece']:.2%}, log loss "
                     f"{after['log_loss']:.4f}")  # fmt: skip
    if results["unreadable"]:
        lines.append(f"left out {len(results['unreadable']):,} images that cannot be read")
    rows = sorted((row for row in results["classes"] if row["images"]), key=lambda row: row["f1"]["value"])
    names = ("class", "images", "precision", "recall", "F1")
    cells = [(row["label"], f"{row['images']:,}", *(_interval(row[rate]) for rate in ("precision", "recall", "f1")))
             for row in rows[:SHOWN]]  # fmt: skip
    lines += ["", *table_lines([names, *cells], range(1, 5), terminal_width(), wrapped=0, names=names), ""]
    if len(rows) > SHOWN:
        lines.append(f"the {SHOWN} classes with the lowest F1 of {len(rows):,}")
    lines.append(f"wrote results.json and report.html to {options.output}")
    if options.save_calibrated:
        lines.append(f"wrote the model with the temperature to {options.save_calibrated}")
    return "\n".join(lines)


def _interval(figure: dict) -> str:
    return f"{figure['value']:.1%} ({figure['low']:.1%} to {figure['high']:.1%})"
