"""The command `keras-vit find-rate RECIPE`."""

import time
from pathlib import Path

from keras_vit.cli.output import Result

LOWEST, HIGHEST, STEPS = 1e-6, 1.0, 100  # copied from train/, so that --help imports no TensorFlow


def add(verb) -> None:
    """Add the verb and its options to the command line."""
    sub = verb(
        "find-rate",
        run,
        "Find a learning rate: train for a few updates with a rising rate, and draw the loss.",
        "find-rate recipes/digits.py --plot rates.png",
    )
    sub.description += " This is the range test of Smith (arXiv 1506.01186). No weights are kept."
    sub.add_argument("recipe", metavar="RECIPE.py", help="a recipe, as for `keras-vit train`")
    sub.add_argument("--data-dir", help="folder of the data; replaces the recipe's directory")
    sub.add_argument("--steps", type=int, default=STEPS, help=f"number of updates (default {STEPS})")
    sub.add_argument("--lowest", type=float, default=LOWEST, help=f"first learning rate (default {LOWEST:g})")
    sub.add_argument("--highest", type=float, default=HIGHEST, help=f"last learning rate (default {HIGHEST:g})")
    sub.add_argument("--head", action="store_true", help="train the head alone, for the rate of `head_first`")
    sub.add_argument("--plot", metavar="FILE.png", help="draw loss and rate; needs the extra analysis")
    sub.add_argument("--strategy", default="auto", help="as for `keras-vit train`")
    sub.add_argument(
        "--set", action="extend", nargs="+", default=[], metavar="PATH=VALUE", help="replace fields of the recipe"
    )


def run(options) -> Result:
    """Make the test, draw the plot and return the suggested rate."""
    from keras_vit.train.log.progress import Progress
    from keras_vit.train.range_test import RULE, find_rate
    from keras_vit.train.recipe.file import load_recipe, override

    recipe = override(load_recipe(options.recipe), options.set)
    begun = time.perf_counter()
    speed = lambda step: step * recipe.data.batch_size / (time.perf_counter() - begun)  # noqa: E731
    with Progress(options.steps, 1, quiet=options.quiet) as progress:
        test = find_rate(
            recipe, options.data_dir, lowest=options.lowest, highest=options.highest, steps=options.steps,
            head=options.head, strategy=options.strategy,
            show=lambda step, loss, rate: progress.show(step, 1, loss, speed(step), rate),
        )  # fmt: skip
    best, suggestion = test.best, test.suggestion
    if options.plot:
        from keras_vit.analysis.plots.rates import plot_rates

        plot_rates(test.rates, test.losses, test.smoothed, suggestion, options.plot, recipe.name)
    data = {"recipe": recipe.name, "suggestion": suggestion, "rule": RULE, "rate_of_lowest_loss": best,
            "diverged": test.diverged, "updates": len(test.rates), "rates": test.rates, "losses": test.losses,
            "smoothed": test.smoothed}  # fmt: skip
    lines = [_sentence(test, RULE)]
    if not test.diverged and best == test.rates[-1]:
        lines.append(f"the loss still fell at {best:.2g}: --highest {options.highest * 10:g} looks further")
    lines += [f"wrote {options.plot}"] if options.plot else []
    return Result(data, "\n".join(lines), () if suggestion is None else _following(options, recipe, suggestion))


def _sentence(test, rule) -> str:
    until = f"the loss was lowest at {test.best:.2g}" + (f", and grew up to {test.rates[-1]:.2g}" * test.diverged)
    if test.suggestion is None:
        return f"the loss did not fall from {test.rates[0]:.2g} on: no rate is suggested; a lower --lowest may help"
    return f"suggested learning rate {test.suggestion:.2g}, {rule}; {until}"


def _following(options, recipe, suggestion) -> tuple[str, ...]:
    field = "head_first.learning_rate" if options.head else "optimizer.learning_rate"
    place = ("--data-dir", options.data_dir) if options.data_dir else ()
    workdir = Path("runs") / recipe.name.replace(":", "_")
    workdir = workdir.with_name(f"{workdir.name}_rate") if workdir.exists() else workdir  # of a run at another rate
    settings = (*options.set, f"{field}={suggestion:.2g}")
    return ("train", options.recipe, "--workdir", str(workdir), *place, "--set", *settings)
