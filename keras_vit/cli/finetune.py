"""The command `keras-vit finetune FOLDER`: from a folder of images to a tested model and its export."""

import datetime
import shlex
import textwrap
from dataclasses import replace
from pathlib import Path

from keras_vit.cli.output import Result
from keras_vit.cli.table import terminal_width
from keras_vit.cli.table_options import OPTIONS, add_table_options, table_targets

RECIPE, TABLE, EXPORT, REPORT = "recipe.py", "splits.csv", "export", "report"
SHOWN = 5  # names of classes


def add(verb) -> None:
    """Add the verb and its options to the command line."""
    sub = verb(
        "finetune",
        run,
        "Fine-tune a model on a folder of images, test it, export it and draw a report.",
        "finetune photos --workdir runs/photos",
    )
    sub.description += (
        " The folder is read first, and divided into train, validation and test. The chosen recipe is written to the "
        "workdir. The same command again goes on with it, also after you have edited it before the training."
    )
    sub.add_argument(
        "folder",
        metavar="FOLDER",
        help="CLASS/*.jpg, or train/CLASS/*.jpg and test/CLASS/*.jpg; a CSV file with the columns path, label and, if "
        "given, split; or tfds:NAME",
    )
    sub.add_argument("--workdir", required=True, help="folder of the recipe, the run, the export and the report")
    sub.add_argument(
        "--model", help="a tag or a file of published weights (default vit_small_patch16_224.augreg_in21k)"
    )
    sub.add_argument("--image-size", type=int, help="side of the images in pixels; by default the model's")
    sub.add_argument("--splits", metavar="FILE.csv", help="splits.csv of an earlier run, whose files keep their splits")
    sub.add_argument("--plan", action="store_true", help="write the recipe and stop before the training")
    add_table_options(sub)
    sub.add_argument("--log", help="mlflow or wandb, which then follows the run and keeps the report")
    sub.add_argument("--formats", help="formats of the export; see `keras-vit export --help`")


def run(options) -> Result:
    """Plan, train, export and report; what an earlier call has finished is kept."""
    workdir = Path(options.workdir)
    recipe_file = workdir / RECIPE
    if not recipe_file.exists():
        _plan(options, workdir)
    elif any(getattr(options, name) for name in ("splits", "model", "image_size", *OPTIONS)):
        raise ValueError(
            f"--workdir expected a new folder with --model, --image-size or --splits, received {str(workdir)!r}, which "
            f"has a recipe; edit {recipe_file}, or remove it to plan again."
        )
    command = ("finetune", options.folder, "--workdir", options.workdir)
    if options.plan:
        return Result({"recipe": str(recipe_file)}, "", command)
    from keras_vit.train.engine import train
    from keras_vit.train.recipe.file import load_recipe

    recipe = load_recipe(recipe_file)
    summary = train(recipe, workdir, log=options.log)
    _further(options, workdir)
    if options.log:
        from keras_vit.train.log.trackers import send_report

        send_report(options.log, recipe, workdir)
    from keras_vit.train.log.figures import NUMBERS, headline

    measured = {name: value for name, value in summary.items() if name.startswith(("accuracy", *NUMBERS[1:]))}
    data = {**measured, "test_examples": summary["test_examples"], "steps": summary["steps"],
            "seconds": summary["seconds"], "model": str(workdir / "model.keras"), "export": str(workdir / EXPORT),
            "report": str(workdir / REPORT / "index.html")}  # fmt: skip
    text = (
        f"{headline(summary)} on {summary['test_examples']:,} images, measured once, after "
        f"{summary['steps']:,} updates in {summary['seconds']:.0f} s\n"
        f"model  {data['model']}\nexport {data['export']}\nreport {data['report']}"
    )
    return Result(data, text, ("serve", str(workdir / EXPORT)))


def _plan(options, workdir: Path) -> None:
    """Read the images, choose a recipe, and write it with the table of splits."""
    from keras_vit.models.model_names import find_named, require_trained

    if workdir.is_dir() and any(workdir.iterdir()):
        raise ValueError(f"--workdir expected a new or empty folder, received {str(workdir)!r}, which holds files.")
    if options.image_size is not None and options.image_size < 1:
        raise ValueError(f"--image-size expected a positive int, received {options.image_size}.")
    if options.model:
        require_trained(options.model)
        if not Path(options.model).exists():
            find_named(options.model)  # raises an error before the data is read
    from keras_vit.cli.finetune_data import facts_of
    from keras_vit.cli.new_recipe import model_facts, recipe_text
    from keras_vit.cli.plan import finetuning_plan
    from keras_vit.train.workdir import write_atomically

    workdir.mkdir(parents=True, exist_ok=True)
    try:
        targets = table_targets(options, options.folder)
        data, findings = facts_of(options.folder, workdir / TABLE, options.splits, targets)
        model = model_facts(options.model, data)
        model = replace(model, image_size=options.image_size or model.image_size)
        plan = finetuning_plan(data)
        command = shlex.join(("finetune", options.folder, "--workdir", options.workdir))
        text = recipe_text(workdir.name, data, model, plan, f"keras-vit {command}", f"{datetime.date.today()}")
        write_atomically(workdir / RECIPE, text)
    except BaseException:
        (workdir / TABLE).unlink(missing_ok=True)
        if not any(workdir.iterdir()):
            workdir.rmdir()
        raise
    options.printer.line(_chosen(data, model, plan, workdir), "\n".join(_lines(data, findings, model, plan, workdir)))


def _chosen(data, model, plan, workdir) -> dict:
    """Return the plan as JSON values."""
    return {
        "recipe": str(workdir / RECIPE),
        "model": model.name,
        "image_size": model.image_size,
        "train_examples": data.train,
        "validation_examples": data.validation,
        "test_examples": data.test,
        "batch_size": plan.batch,
        "epochs": plan.epochs,
        "learning_rate": plan.learning_rate,
        "patience": plan.patience,
    }


def _lines(data, findings, model, plan, workdir):
    """Yield what was found and chosen, and why, in a few lines."""
    from keras_vit.cli.new_recipe import better
    from keras_vit.cli.plan import IMBALANCE, SMALL

    names = [f"{label} {count:,}" for label, count in findings.counts] or list(data.labels)
    more = f", and {len(names) - SHOWN:,} more" if len(names) > SHOWN else ""
    found = f"{data.train:,} images to train on, {data.validation:,} for validation, {data.test:,} to test"
    small = f"{'fewer than' if data.train < SMALL else 'at least'} {SMALL:,} images"
    rows = [("data", f"{found}: {', '.join(names[:SHOWN])}{more}. {data.split_note}")]
    rows += [("left out", f"{path}: {reason}") for path, reason in findings.broken[:SHOWN]]
    rows += [("left out", f"{len(findings.broken) - SHOWN:,} more files")] if len(findings.broken) > SHOWN else []
    rows += [
        ("care", f"the same picture in two given splits, which makes the test too easy: {', '.join(paths)}")
        for paths in findings.across[:SHOWN]
    ]
    rows += [
        ("model", f"{model.name} with images of {model.image_size} pixels, and a new {_head(data)}"),
        ("updates", f"at most {plan.epochs * plan.updates:,} of {plan.batch} images, in {plan.epochs} epochs; fewer if "
                    f"{plan.patience} epochs bring no {better(data)} on the validation split"),
        ("rate", f"{plan.learning_rate:g}, lower in the first layers, for {small}"),
        ("changes", f"crops of at least {plan.crop_area:.0%} of an image, mirror images, {_smoothing(data)}stochastic "
                    f"depth, for {small}"),
    ]  # fmt: skip
    if plan.adjusts:
        (most, many), (rarest, few) = data.train_counts[0], data.train_counts[-1]
        rows.append(("rare", f"{rarest} has {few:,} images to train on and {most} {many:,}, over {IMBALANCE} times as "
                             "many, so rare classes count more (logit_adjustment=1 in the recipe): the mean accuracy "
                             "of the classes rises, and the accuracy may fall"))  # fmt: skip
    for title, text in rows:
        width, indent = terminal_width() or 100, " " * 9
        whole = {"break_long_words": False, "break_on_hyphens": False}  # paths
        yield textwrap.fill(f"{title:<9}{text}", width, subsequent_indent=indent, **whole)
    yield f"wrote {workdir / RECIPE}; to change anything, stop, edit it, and run the same command"


def _head(data) -> str:
    return f"head for {', '.join(data.labels[:SHOWN])}" if data.targets.kind == "numbers" else "classifier"


def _smoothing(data) -> str:
    return "label smoothing, " if data.targets.kind == "classes" and not data.targets.order else ""


def _further(options, workdir: Path) -> None:
    """Export the model and draw the report, unless they are there."""
    from keras_vit.cli import command_parser

    words = [
        (workdir / EXPORT, ["export", str(workdir), "--output", str(workdir / EXPORT)]),
        (workdir / REPORT / "index.html", ["analyze", str(workdir), "--output", str(workdir / REPORT)]),
    ]
    if options.formats:
        words[0][1].extend(["--formats", options.formats])
    for place, arguments in words:
        if not place.exists():
            step = command_parser().parse_args(arguments)
            step.printer = options.printer
            result = step.run(step)
            options.printer.line(result.data, result.text)
