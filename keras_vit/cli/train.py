"""The command `keras-vit train RECIPE`."""

import json
from pathlib import Path

from keras_vit.cli.output import Result


def add(verb) -> None:
    """Add the verb and its options to the command line."""
    sub = verb("train", run, "Train a recipe, or resume its run.", "train recipes/digits.py --workdir runs/digits")
    sub.add_argument(
        "recipe", metavar="RECIPE.py", help="a Python file that defines `recipe`, or FILE.py:NAME if it defines several"
    )
    sub.add_argument("--workdir", help="folder of the run; the same command again resumes the run")
    sub.add_argument("--data-dir", help="folder of the data; replaces the recipe's directory")
    sub.add_argument(
        "--from",
        dest="model",
        metavar="MODEL",
        help="begin with the weights and the head of a model of the same classes: a workdir, a .keras file, or a file "
        "of weights; the same as --set model.weights=MODEL model.keep_head=true",
    )
    sub.add_argument(
        "--strategy",
        default="auto",
        help="one device, cores (each core of a CPU computes a part of every batch), mirrored (all GPUs), multiworker "
        "(TF_CONFIG), tpu (untested on TPU hardware), or auto (TPU, GPUs or one CPU)",
    )
    sub.add_argument("--tpu", help="name or address of a TPU")
    sub.add_argument("--profile", action="store_true", help="profile a few steps for TensorBoard")
    sub.add_argument(
        "--live-plot",
        action="store_true",
        help="draw loss and accuracy during training; needs a notebook: %%run -m keras_vit.cli train ...",
    )
    sub.add_argument("--log", help="mlflow or wandb, which then follows the run (extra of the same name)")
    sub.add_argument("--dry-run", action="store_true", help="take two steps with a small model on generated data")
    sub.add_argument(
        "--set", action="extend", nargs="+", default=[], metavar="PATH=VALUE", help="replace fields of the recipe"
    )


def run(options) -> Result:
    """Train, or take two steps with `--dry-run`, and return the summary."""
    from keras_vit.train.recipe.file import load_recipe, override

    settings = [f"model.weights={json.dumps(options.model)}", "model.keep_head=true"] if options.model else []
    recipe = override(load_recipe(options.recipe), settings + options.set)
    if options.dry_run:
        from keras_vit.train.dry_run import dry_run

        result = dry_run(recipe)
        losses = ", ".join(f"{loss:.3f}" for loss in result["losses"])
        text = f"{recipe.name}: two steps of every stage with {result['parameters']:,} parameters, losses {losses}"
        settings = ("--set", *options.set) if options.set else ()
        workdir = options.workdir or str(Path("runs") / recipe.name.replace(":", "_"))
        place = ("--data-dir", options.data_dir) if options.data_dir else ()
        place += ("--from", options.model) if options.model else ()
        return Result(result, text, ("train", options.recipe, "--workdir", workdir, *place, *settings))
    if options.workdir is None:
        raise ValueError("--workdir expected the folder of the run, received nothing.")
    from keras_vit.train.engine import train

    summary = train(
        recipe, options.workdir, options.data_dir, options.strategy, options.tpu, options.profile, options.live_plot,
        options.log,
    )  # fmt: skip
    from keras_vit.train.log.figures import headline

    metric = headline(summary) + " of masked patches" * (recipe.masked is not None)
    text = (
        f"{summary['recipe']}: {metric} on {summary['test_examples']:,} images "
        f"after {summary['seconds']:.1f} s of training ({summary['images_per_second']:,.0f} images/s); "
        f"the model is {Path(options.workdir) / 'model.keras'}"
    )
    place = ("--data-dir", options.data_dir) if options.data_dir else ()
    if recipe.masked:  # has no labels to evaluate with
        following = ("analyze", options.workdir, "--output", str(Path(options.workdir) / "pictures"), *place)
    else:
        following = ("evaluate", options.workdir, *place)
    return Result(summary, text, following)
