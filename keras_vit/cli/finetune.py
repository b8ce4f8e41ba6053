"""The command `keras-vit finetune FOLDER`: from a folder of images to a tested model and its export."""

import datetime
import shlex
from dataclasses import replace
from pathlib import Path

from keras_vit.cli.output import Result
from keras_vit.cli.table_options import OPTIONS, add_table_options, table_targets
from keras_vit.models.adapt_settings import RANKS, Adapt

RECIPE, TABLE, EXPORT, REPORT = "recipe.py", "splits.csv", "export", "report"
PLANNING = ("model", "image_size", "splits", "adapt", "rank", *OPTIONS)  # options that an existing recipe replaces


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
        help="CLASS/*.jpg, or train/CLASS/*.jpg and test/CLASS/*.jpg; a CSV file with the columns path, label (or "
        "labels, or one column for each label or value) and, if given, split; or tfds:NAME",
    )
    sub.add_argument("--workdir", required=True, help="folder of the recipe, the run, the export and the report")
    sub.add_argument(
        "--model", help="a tag or a file of published weights (default vit_small_patch16_224.augreg_in21k)"
    )
    sub.add_argument("--image-size", type=int, help="side of the images in pixels; by default the model's")
    sub.add_argument("--splits", metavar="FILE.csv", help="splits.csv of an earlier run, whose files keep their splits")
    sub.add_argument("--plan", action="store_true", help="write the recipe and stop before the training")
    sub.add_argument(
        "--adapt",
        choices=tuple(RANKS),
        help="train few variables and the head, and leave the pre-trained weights as they are; by default all weights "
        "are trained",
    )
    sub.add_argument(
        "--rank", type=int, metavar="N", help="rank of lora (default 8), width of adapter (64), tokens of vpt (10)"
    )
    add_table_options(sub)
    sub.add_argument("--log", help="mlflow or wandb, which then follows the run and keeps the report")
    sub.add_argument("--formats", help="formats of the export; see `keras-vit export --help`")


def run(options) -> Result:
    """Plan, train, export and report; what an earlier call has finished is kept."""
    workdir = Path(options.workdir)
    recipe_file = workdir / RECIPE
    if not recipe_file.exists():
        _plan(options, workdir)
    elif given := [f"--{name.replace('_', '-')}" for name in PLANNING if getattr(options, name) is not None]:
        raise ValueError(
            f"--workdir expected a new folder with {', '.join(given)}, received {str(workdir)!r}, which has a recipe; "
            f"edit {recipe_file}, or remove it to plan again."
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
    from keras_vit.train.log.figures import LABEL_METRICS, NUMBERS, headline

    wanted = ("accuracy", *LABEL_METRICS, *NUMBERS[1:])
    measured = {name: value for name, value in summary.items() if name.startswith(wanted)}
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
    adapt = _adapt(options)
    from keras_vit.cli.finetune_data import facts_of
    from keras_vit.cli.finetune_plan import plan_lines, plan_values
    from keras_vit.cli.new_model import model_facts
    from keras_vit.cli.new_recipe import recipe_text
    from keras_vit.cli.plan import finetuning_plan
    from keras_vit.train.workdir import write_atomically

    workdir.mkdir(parents=True, exist_ok=True)
    try:
        targets = table_targets(options, options.folder)
        data, findings = facts_of(options.folder, workdir / TABLE, options.splits, targets)
        model = model_facts(options.model, data)
        model = replace(model, image_size=options.image_size or model.image_size)
        plan = finetuning_plan(data, adapt)
        command = shlex.join(("finetune", options.folder, "--workdir", options.workdir))
        text = recipe_text(workdir.name, data, model, plan, f"keras-vit {command}", f"{datetime.date.today()}")
        write_atomically(workdir / RECIPE, text)
        if adapt:
            _require_place(workdir / RECIPE)
    except BaseException:
        for name in (RECIPE, TABLE):
            (workdir / name).unlink(missing_ok=True)
        if not any(workdir.iterdir()):
            workdir.rmdir()
        raise
    lines = plan_lines(data, findings, model, plan, workdir / RECIPE)
    options.printer.line(plan_values(data, model, plan, workdir / RECIPE), "\n".join(lines))


def _adapt(options) -> Adapt | None:
    """Return the settings of `--adapt` and `--rank`; None to train all weights."""
    if options.adapt is None:
        if options.rank is not None:
            raise ValueError(f"--adapt expected lora, adapter or vpt with --rank {options.rank}, received nothing.")
        return None
    try:
        return Adapt(options.adapt, options.rank)
    except ValueError as error:
        raise ValueError(f"--{error}") from None


def _require_place(file: Path) -> None:
    """Raise a ValueError if the model of a recipe has no place for `adapt`, before a long training would say so."""
    from keras_vit.models.adapt import adapt_model
    from keras_vit.train.dry_run import shrunk
    from keras_vit.train.model import build_model
    from keras_vit.train.recipe import Loss
    from keras_vit.train.recipe.file import load_recipe

    recipe = load_recipe(file)
    name = recipe.model.row.name
    small = build_model(replace(shrunk(recipe), loss=Loss()), ("a", "b"))
    try:
        adapt_model(small, recipe.adapt)
    except ValueError as error:
        raise ValueError(str(error).replace("kind expected", "--adapt expected").replace(small.name, name)) from None


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
