"""The command `keras-vit evaluate MODEL`. The options of `--suite` are in suite.py, of `--data` in evaluate_data.py."""

from keras_vit.cli.evaluate_data import add_data, require_data_options, run_data_verb
from keras_vit.cli.options import MODEL_HELP, add_data_options, data_arguments, recipe_of, short_name
from keras_vit.cli.output import Result
from keras_vit.cli.suite import add_suite, require_applicable, run_suite_verb


def add(verb) -> None:
    """Add the verb and its options to the command line."""
    summary = "Measure a model on its recipe's test split, on labelled images, or on a suite of data sets."
    sub = verb("evaluate", run, summary, "evaluate runs/digits")
    sub.add_argument("model", metavar="MODEL", help=f"{MODEL_HELP}; with --data also an export")
    add_data_options(sub)
    sub.add_argument("--flip", action="store_true", help="average the predictions of each image and its mirror image")
    sub.add_argument("--output", metavar="DIR", help="folder of the results of --data or --suite")
    add_data(sub)
    add_suite(sub)


def run(options) -> Result:
    """Evaluate a model on its test split, on labelled images or on a suite, and return the result."""
    require_data_options(options)
    if options.data is not None:
        return run_data_verb(options)
    require_applicable(options)
    if options.suite:
        return run_suite_verb(options)
    from keras_vit.models.model_names import require_trained

    require_trained(options.model)
    recipe = recipe_of(options)
    if recipe is None:
        raise ValueError(f"--recipe expected a recipe with test data, received none: {options.model!r} is no workdir.")
    from keras_vit.evaluate.accuracy import evaluate_model
    from keras_vit.models.load import load_model
    from keras_vit.train.left_out import absent_files
    from keras_vit.train.log.figures import figures_of

    settings = {"flip": options.flip, "left_out": absent_files(options.model, options.recipe)}
    result = evaluate_model(load_model(options.model), recipe.data, options.data_dir, recipe.loss, **settings)
    first = [name for name in ("accuracy", "loss") if name in result]
    more = ", ".join(figures_of({name: result[name] for name in result if name not in (*first, "examples")}))
    text = f"{', '.join(figures_of({name: result[name] for name in first}))} on {result['examples']:,} test images"
    text += f", {more}" if more else ""
    output = f"saved_models/{short_name(options.model)}"
    return Result(result, text, ("export", options.model, "--output", output, *data_arguments(options)))
