"""`keras-vit VERB ...`: parse, call, print. A verb imports Keras once its options are known to be right."""

import argparse
import sys
from pathlib import Path

from keras_vit.disk import failure_of_disk
from keras_vit.terminal import held_back, own_lines

MISTAKES = (
    *(ValueError, ImportError),
    OSError,  # a disk that is full
    FloatingPointError,  # a loss that is no number: the learning rate, most often
)
INTERRUPTED = 130  # as shells count: 128 and the number of SIGINT


def main(arguments: list[str] | None = None) -> int:
    """Run one command; a user's mistake is printed as one sentence.

    Returns:
        The exit code: 0, 2 for a mistake in what was asked, 130 after Ctrl-C, or what the verb says of its own.
    """
    options = _parser().parse_args(arguments)
    with own_lines():
        try:
            return options.run(options) or 0
        except KeyboardInterrupt:
            print(f"keras-vit {options.verb}: interrupted", file=sys.stderr)
            return INTERRUPTED
        except Exception as error:
            sentence = _sentence(error)
            if sentence is None:
                raise
            print(f"keras-vit {options.verb}: {sentence}", file=sys.stderr)
            return 2


def _sentence(error: Exception) -> str | None:
    """What a user reads of an error; None of one that is no mistake of the user's, nor of the disk."""
    if isinstance(error, MISTAKES) and getattr(error, "errno", None) is None:
        return str(error)
    reason = failure_of_disk(error)
    if reason is None:
        return None
    place = f" {error.filename!r}" if getattr(error, "filename", None) else ""
    return f"the system refused to read or write{place}: {reason}."


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
    figure = f"test accuracy {summary['accuracy']:.2%}" if "accuracy" in summary else f"loss {summary['loss']:.4f}"
    figure += " of hidden patches" if recipe.masked else ""
    print(
        f"{summary['recipe']}: {figure} on {summary['test_examples']:,} images "
        f"after {summary['seconds']:.1f} s of training ({summary['images_per_second']:,.0f} images/s); "
        f"the model is {Path(options.workdir) / 'model.keras'}"
    )


def _evaluate(options):
    from keras_vit.train.suite_verb import require_used, run_suite_verb

    require_used(options)
    if options.suite:
        run_suite_verb(options)
        return
    from keras_vit.models.source import require_trained

    require_trained(options.model)
    recipe = _recipe_of(options)
    if recipe is None:
        raise ValueError(f"--recipe expected the recipe whose test data to use, for {options.model!r} is no workdir.")
    from keras_vit.models.load import load_model
    from keras_vit.train.evaluate import evaluate_model
    from keras_vit.train.left_out import absent_files

    chosen = {"flip": options.flip, "left_out": absent_files(options.model, options.recipe)}
    result = evaluate_model(load_model(options.model), recipe.data, options.data_dir, recipe.loss, **chosen)
    print(f"accuracy {result['accuracy']:.2%}, loss {result['loss']:.4f} on {result['examples']:,} test images")


def _export(options):
    from keras_vit.exported.folders import require_formats
    from keras_vit.models.source import require_trained

    require_trained(options.model)
    formats = options.formats and options.formats.split(",")
    if formats:
        require_formats(formats)
    recipe = _recipe_of(options)
    from keras_vit.export import export, origin_of
    from keras_vit.export_images import images_to_calibrate, images_to_compare
    from keras_vit.models.load import load_model
    from keras_vit.train.left_out import absent_files

    model = load_model(options.model)
    data = recipe and recipe.data
    left_out = absent_files(options.model, options.recipe)
    images, labels = images_to_compare(model, options.images, data, options.data_dir, options.limit, left_out)
    if images is None:
        print(
            "keras-vit export: --images names no folder, and no others are at hand: compared on random pixels.",
            file=sys.stderr,
        )
    batch = None if options.dynamic_batch else 1
    calibration = options.calibration and images_to_calibrate(
        model, options.calibration, data, options.data_dir, left_out=left_out
    )
    chosen = {"formats": formats, "dtype": options.dtype, "batch": batch, "calibration": calibration}
    with held_back(MISTAKES):  # converters say what they do
        report = export(model, options.output, images, labels, origin=origin_of(options.model), **chosen)
    print(report)


def _serve(options):
    from keras_vit.serve import serve
    from keras_vit.serve.held import hold_weights, release_memory
    from keras_vit.serve.limits import Limits
    from keras_vit.serve.signature import Batching

    batching = Batching(options.max_batch_size, options.batch_timeout)
    limits = Limits(
        max_request_bytes=options.max_request_bytes,
        max_pixels=options.max_pixels,
        max_request_pixels=options.max_request_pixels,
        max_images=options.max_images,
        header_seconds=options.header_timeout,
        body_seconds=options.body_timeout,
        answer_seconds=options.answer_timeout,
        max_waiting=options.max_waiting,
    )
    release_memory()
    hold_weights(options.models)
    hosts = options.allowed_host
    serve(options.models, options.host, options.port, batching, limits, options.versions, options.poll, hosts)


def _list(options):
    from keras_vit.models.table import describe_variant, variants_table
    from keras_vit.models.variants import find_variant, list_models

    if options.markdown:
        print(variants_table())
        return
    for name in list_models(options.glob):
        row, _ = find_variant(name)
        counts = f"{row.parameters.classes_1000:>13,} parameters"
        print(f"{name:<12} {row.paper_name:<13} {counts}  {describe_variant(row)}")


def _recipe_of(options):
    """The recipe whose data a command uses: the one named, else the workdir's own, else None."""
    from keras_vit.train.recipe_file import load_recipe

    own = Path(options.model) / "recipe.json"
    path = options.recipe or (own if own.is_file() else None)
    return None if path is None else load_recipe(path)


def _parser() -> argparse.ArgumentParser:
    from keras_vit.analyze_verb import add_analyze
    from keras_vit.bench.verb import add_bench
    from keras_vit.check_verb import add_check
    from keras_vit.models.weights_verbs import add_weights
    from keras_vit.predict.verb import add_predict
    from keras_vit.summary_verb import add_summary
    from keras_vit.train.suite_verb import add_suite

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
        help="one, cores (of a CPU, each with its part of every batch), mirrored (all GPUs), multiworker (TF_CONFIG), "
        "tpu (untested on TPU hardware), auto (what there is; on a CPU one)",
    )
    sub.add_argument("--tpu", help="name or address of a TPU")
    sub.add_argument("--profile", action="store_true", help="record a few updates for TensorBoard's profiler")
    sub.add_argument("--dry-run", action="store_true", help="two steps with a shrunk model on generated data, and stop")
    sub.add_argument(
        "--set", action="extend", nargs="+", default=[], metavar="PATH=VALUE", help="replace fields of the recipe"
    )

    summary = "Measure a model on its recipe's test split, or on a suite of data sets."
    sub = verb("evaluate", _evaluate, summary, "evaluate runs/digits")
    sub.add_argument("model", metavar="MODEL", help=model_help)
    data_options(sub)
    sub.add_argument("--flip", action="store_true", help="answer from each image and its mirror image, averaged")
    add_suite(sub)

    add_check(verb)
    add_predict(verb, model_help)

    sub = verb(
        "export",
        _export,
        "Write a SavedModel and TFLite files that were compared with the model.",
        "export runs/digits --output saved_models/digits",
    )
    sub.add_argument("model", metavar="MODEL", help=model_help)
    sub.add_argument("--output", required=True, help="folder of the versions, saved_models/NAME")
    sub.add_argument(
        "--formats",
        help="some of saved_model,tflite,tflite-fp16,tflite-int8-dynamic (these by default),onnx,openvino,"
        "openvino-int8,tflite-int8,tflite-int16x8 (the last three need --calibration)",
    )
    sub.add_argument(
        "--dtype", help="float32 or bfloat16, which the SavedModel computes in; the model's own by default"
    )
    sub.add_argument("--dynamic-batch", action="store_true", help="TFLite files for any number of images a call")
    sub.add_argument("--images", help="folder of images to compare on; in folders named as the classes, with accuracy")
    sub.add_argument(
        "--calibration",
        metavar="FOLDER",
        help="training images for the int8 formats: a folder, a data source (tfds:cifar10), or `dataset`, the recipe's",
    )
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
    sub.add_argument(
        "--max-request-pixels", type=int, default=200_000_000, help="most pixels of a request (default 200,000,000)"
    )
    sub.add_argument("--max-images", type=int, default=1024, help="most images of a request (default 1,024)")
    sub.add_argument(
        "--header-timeout", type=float, default=10.0, metavar="S", help="time to send a head (default 10 s)"
    )
    sub.add_argument("--body-timeout", type=float, default=30.0, metavar="S", help="time to send a body (default 30 s)")
    sub.add_argument(
        "--answer-timeout", type=float, default=60.0, metavar="S", help="time to reach a request's last image (60 s)"
    )
    sub.add_argument("--max-waiting", type=int, default=256, help="most requests without an answer (default 256)")
    sub.add_argument(
        "--allowed-host",
        action="append",
        default=[],
        metavar="NAME",
        help="name that clients reach the server by, beside localhost and IP addresses; may be given several times",
    )
    sub.add_argument("--versions", type=int, default=1, help="how many newest versions of each to serve (default 1)")
    sub.add_argument(
        "--poll", type=float, default=2.0, metavar="S", help="look for new versions this often (default 2 s)"
    )

    add_analyze(verb, data_options, model_help)
    sub = verb("list", _list, "List the models.", "list 'ViT_B*'")
    sub.add_argument("glob", nargs="?", default="*", help="shell pattern of names")
    sub.add_argument("--markdown", action="store_true", help="all of them, as the README's table")

    add_summary(verb)
    add_weights(verbs)
    add_bench(verb)
    return parser


if __name__ == "__main__":
    sys.exit(main())
