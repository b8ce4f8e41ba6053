"""`keras-vit VERB ...`: parse, call, print. TensorFlow is imported inside the verb that needs it."""

import argparse
import json
import sys
from pathlib import Path

MISTAKES = (
    *(ValueError, ImportError),
    OSError,  # a disk that is full
    FloatingPointError,  # a loss that is no number: the learning rate, most often
)


def main(arguments: list[str] | None = None) -> int:
    """Run one command; a user's mistake is printed as one sentence.

    Returns:
        The exit code: 0, or 2 for a mistake in what was asked.
    """
    options = _parser().parse_args(arguments)
    try:
        options.run(options)
    except MISTAKES as error:
        print(f"keras-vit {options.verb}: {error}", file=sys.stderr)
        return 2
    return 0


def _train(options):
    from keras_vit.train.recipe_file import load_recipe, override

    recipe = override(load_recipe(options.recipe), options.set)
    if options.dry_run:
        from keras_vit.train.dry_run import dry_run

        found = dry_run(recipe)
        losses = ", ".join(f"{loss:.3f}" for loss in found["losses"])
        print(f"{recipe.name}: two steps of every stage with {found['parameters']:,} parameters, losses {losses}")
        return
    if options.workdir is None:
        raise ValueError("--workdir expected the folder of the run, received nothing.")
    from keras_vit.train.engine import train

    summary = train(recipe, options.workdir, options.data_dir, options.strategy, options.tpu, options.profile)
    print(
        f"{summary['recipe']}: test accuracy {summary['accuracy']:.2%} on {summary['test_examples']:,} images "
        f"after {summary['seconds']:.1f} s of training ({summary['images_per_second']:,.0f} images/s); "
        f"the model is {Path(options.workdir) / 'model.keras'}"
    )


def _evaluate(options):
    from keras_vit.models.load import load_model
    from keras_vit.train.evaluate import evaluate_model

    recipe = _recipe_of(options)
    if recipe is None:
        raise ValueError(f"--recipe expected the recipe whose test data to use, for {options.model!r} is no workdir.")
    result = evaluate_model(load_model(options.model), recipe.data, options.data_dir, recipe.loss)
    print(f"accuracy {result['accuracy']:.2%}, loss {result['loss']:.4f} on {result['examples']:,} test images")


def _predict(options):
    from keras_vit.predict import load_predictor, predict

    _require_trained(options.model)
    for row in predict(load_predictor(options.model), options.images, options.top):
        if options.json:
            print(json.dumps(row, ensure_ascii=False))
        else:
            best = ", ".join(f"{found['label']} {found['score']:.1%}" for found in row["predictions"])
            print(f"{row['image']}: {best}")


def _export(options):
    from keras_vit.export import export, origin_of
    from keras_vit.export_images import images_to_compare
    from keras_vit.models.load import load_model

    _require_trained(options.model)
    model = load_model(options.model)
    recipe = _recipe_of(options)
    data = recipe and recipe.data
    images, labels = images_to_compare(model, options.images, data, options.data_dir, options.limit)
    formats = options.formats and options.formats.split(",")
    batch = None if options.dynamic_batch else 1
    print(export(model, options.output, images, labels, formats, options.dtype, batch, origin_of(options.model)))


def _serve(options):
    from keras_vit.serve import serve
    from keras_vit.serve.app import Limits
    from keras_vit.serve.signature import Batching

    batching = Batching(options.max_batch_size, options.batch_timeout)
    limits = Limits(options.max_request_bytes, options.max_pixels, options.body_timeout)
    serve(options.models, options.host, options.port, batching, limits, options.versions, options.poll)


def _list(options):
    from keras_vit.models.builders import describe_variant
    from keras_vit.models.table import variants_table
    from keras_vit.models.variants import find_variant, list_models

    if options.markdown:
        print(variants_table())
        return
    for name in list_models(options.glob):
        row, _ = find_variant(name)
        counts = f"{row.parameters.classes_1000:>13,} parameters"
        print(f"{name:<12} {row.paper_name:<13} {counts}  {describe_variant(row)}")


def _require_trained(model: str):
    """Raise where a name alone would give fresh weights, whose answers mean nothing."""
    from keras_vit.models.variants import find_variant
    from keras_vit.weights import is_weights

    path = Path(model)
    if path.exists() or path.suffix == ".keras" or is_weights(path):
        return
    if find_variant(model)[1] is None:
        raise ValueError(f"model expected trained weights, received the name {model!r}, which has fresh ones.")


def _recipe_of(options):
    """The recipe whose data a command uses: the one named, else the workdir's own, else None."""
    from keras_vit.train.recipe_file import load_recipe

    own = Path(options.model) / "recipe.json"
    path = options.recipe or (own if own.is_file() else None)
    return None if path is None else load_recipe(path)


def _parser() -> argparse.ArgumentParser:
    from keras_vit.analyze_verb import add_analyze
    from keras_vit.models.weights_verbs import add_weights

    parser = argparse.ArgumentParser(prog="keras-vit", description="Vision Transformers for Keras.")
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")

    def verb(name, run, summary, example):
        sub = verbs.add_parser(name, help=summary, description=summary, epilog=f"example: keras-vit {example}")
        sub.set_defaults(run=run)
        return sub

    def data_options(sub):
        sub.add_argument("--recipe", help="recipe whose test data to use; a workdir's own by default")
        sub.add_argument("--data-dir", help="where the data lies, in place of the recipe's directory")

    model_help = "a workdir, a .keras file, a file or folder of published weights, or a model's name"
    sub = verb("train", _train, "Train a recipe, or go on with it.", "train recipes/digits.py --workdir runs/digits")
    sub.add_argument(
        "recipe", metavar="RECIPE.py", help="a Python file that defines `recipe`, or FILE.py:ROW of several"
    )
    sub.add_argument("--workdir", help="folder of the run; the same command again goes on with it")
    sub.add_argument("--data-dir", help="where the data lies, in place of the recipe's directory")
    sub.add_argument(
        "--strategy",
        default="auto",
        help="one, mirrored (all GPUs), multiworker (TF_CONFIG), tpu (untested on TPU hardware), auto (what there is)",
    )
    sub.add_argument("--tpu", help="name or address of a TPU")
    sub.add_argument("--profile", action="store_true", help="record a few updates for TensorBoard's profiler")
    sub.add_argument("--dry-run", action="store_true", help="two steps with a shrunk model on generated data, and stop")
    sub.add_argument(
        "--set", action="extend", nargs="+", default=[], metavar="PATH=VALUE", help="replace fields of the recipe"
    )

    sub = verb("evaluate", _evaluate, "Measure a model on its recipe's test split.", "evaluate runs/digits")
    sub.add_argument("model", metavar="MODEL", help=model_help)
    data_options(sub)

    sub = verb("predict", _predict, "Name the classes of image files.", "predict runs/digits photo.png --top 3")
    sub.add_argument("model", metavar="MODEL", help=f"{model_help}, or an export")
    sub.add_argument("images", metavar="IMAGE", nargs="+", help="image files")
    sub.add_argument("--top", type=int, default=5, help="how many classes to name (default 5)")
    sub.add_argument("--json", action="store_true", help="one JSON object a line")

    sub = verb(
        "export",
        _export,
        "Write a SavedModel and TFLite files that were compared with the model.",
        "export runs/digits --output saved_models/digits",
    )
    sub.add_argument("model", metavar="MODEL", help=model_help)
    sub.add_argument("--output", required=True, help="folder of the versions, saved_models/NAME")
    sub.add_argument("--formats", help="some of saved_model,tflite,tflite-fp16,tflite-int8-dynamic (default all)")
    sub.add_argument(
        "--dtype", help="float32 or bfloat16, which the SavedModel computes in; the model's own by default"
    )
    sub.add_argument("--dynamic-batch", action="store_true", help="TFLite files for any number of images a call")
    sub.add_argument("--images", help="folder of images to compare on; in folders named as the classes, with accuracy")
    sub.add_argument("--limit", type=int, default=256, help="how many test images to compare on (default 256)")
    data_options(sub)

    sub = verb("serve", _serve, "Answer requests over HTTP from exports.", "serve saved_models/digits --port 8501")
    sub.add_argument("models", metavar="EXPORT", nargs="+", help="folders of exported versions, saved_models/NAME")
    sub.add_argument("--host", default="127.0.0.1", help="address to listen at (default 127.0.0.1; 0.0.0.0 for all)")
    sub.add_argument("--port", type=int, default=8501, help="port to listen at (default 8501; 0 for a free one)")
    sub.add_argument(
        "--max-batch-size", type=int, default=32, help="most images computed at once (default 32; 1: alone)"
    )
    sub.add_argument(
        "--batch-timeout", type=float, default=2.0, metavar="MS", help="wait for a fuller batch, in ms (default 2)"
    )
    sub.add_argument("--max-request-bytes", type=int, default=32_000_000, help="largest body (default 32,000,000)")
    sub.add_argument("--max-pixels", type=int, default=50_000_000, help="most pixels of an image (default 50,000,000)")
    sub.add_argument("--body-timeout", type=float, default=30.0, metavar="S", help="time to send a body (default 30 s)")
    sub.add_argument("--versions", type=int, default=1, help="how many newest versions of each to serve (default 1)")
    sub.add_argument(
        "--poll", type=float, default=2.0, metavar="S", help="look for new versions this often (default 2 s)"
    )

    add_analyze(verb, data_options, model_help)
    sub = verb("list", _list, "List the models.", "list 'ViT_B*'")
    sub.add_argument("glob", nargs="?", default="*", help="shell pattern of names")
    sub.add_argument("--markdown", action="store_true", help="all of them, as the README's table")
    add_weights(verbs)
    return parser


if __name__ == "__main__":
    sys.exit(main())
