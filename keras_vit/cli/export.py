"""The command `keras-vit export MODEL`. images.py loads the images for comparison and calibration."""

import sys

from keras_vit.cli.errors import USER_ERRORS
from keras_vit.cli.options import MODEL_HELP, add_data_options, recipe_of
from keras_vit.cli.output import Result
from keras_vit.cli.table import table_lines, terminal_width
from keras_vit.export.formats import FORMATS, require_formats, require_installed
from keras_vit.terminal import hide_stderr


def add(verb) -> None:
    """Add the verb and its options to the command line."""
    sub = verb(
        "export",
        run,
        "Write a SavedModel and TFLite files, and compare them with the model.",
        "export runs/digits --output saved_models/digits",
    )
    sub.add_argument("model", metavar="MODEL", help=MODEL_HELP)
    sub.add_argument("--output", required=True, help="folder of the version folders, saved_models/NAME")
    names = f"some of {','.join(FORMATS)}"
    defaults, calibrated = (
        ",".join(name for name, row in FORMATS.items() if getattr(row, field)) for field in ("by_default", "calibrated")
    )
    sub.add_argument(
        "--formats",
        help=f"{names}; by default {defaults}, as far as their packages are installed; {calibrated} need --calibration",
    )
    sub.add_argument("--dtype", help="compute dtype of the SavedModel, float32 or bfloat16; by default the model's")
    sub.add_argument("--dynamic-batch", action="store_true", help="write TFLite files for any batch size")
    sub.add_argument(
        "--fold-normalization",
        action="store_true",
        help="write files that take pixels in 0..255, because the first layer absorbs the mean and the std",
    )
    sub.add_argument("--images", help="folder of images to compare on; subfolders named like classes add accuracy")
    sub.add_argument(
        "--calibration",
        metavar="FOLDER",
        help="training images for the int8 formats: a folder, a data source such as tfds:cifar10, or `dataset`",
    )
    sub.add_argument("--limit", type=int, default=256, help="number of test images for the comparison (default 256)")
    sub.add_argument("--results", metavar="FILE", help="results.json of an evaluation, for the model card")
    sub.add_argument(
        "--adapters",
        nargs="+",
        metavar="NAME=FILE",
        help="adapters on MODEL to serve next to it, each with a signature NAME; writes the SavedModel only",
    )
    add_data_options(sub)


def run(options) -> Result:
    """Export a model and return the report."""
    from keras_vit.models.model_names import require_trained

    require_trained(options.model)
    formats = options.formats and options.formats.split(",")
    if formats:
        require_formats(formats)
        require_installed(formats)
    recipe = recipe_of(options)
    from keras_vit.cli.images import images_to_calibrate, images_to_compare
    from keras_vit.export import export, origin_of
    from keras_vit.export.card_evaluation import read_evaluation
    from keras_vit.models.load import load_model
    from keras_vit.train.left_out import absent_files

    origin = origin_of(options.model)
    evaluation = options.results and read_evaluation(options.results, origin)
    model = _loaded(options, load_model)
    data = recipe and recipe.data
    left_out = absent_files(options.model, options.recipe)
    images, labels = images_to_compare(model, options.images, data, options.data_dir, options.limit, left_out)
    if images is None:
        print(
            "keras-vit export: no --images and no test data; compared on random pixels.",
            file=sys.stderr,
        )
    batch = None if options.dynamic_batch else 1
    calibration = options.calibration and images_to_calibrate(
        model, options.calibration, data, options.data_dir, left_out=left_out
    )
    settings = {"formats": formats, "dtype": options.dtype, "batch": batch, "calibration": calibration}
    settings |= {"origin": origin, "evaluation": evaluation, "adapters": _adapters(model, options.adapters or ())}
    with hide_stderr(USER_ERRORS):  # converters print their progress
        report = export(model, options.output, images, labels, **settings)
    table = report.table()
    right = {i for i, name in enumerate(table[0]) if name not in ("format", "signature", "output")}
    text = "\n".join([str(report).splitlines()[0], *table_lines(table, right, terminal_width(), names=table[0])])
    data = {"path": str(report.path), "model": report.model, **report.as_dict()}
    if any(row.format == "saved_model" for row in report.rows):
        return Result(data, text, ("serve", options.output))
    return Result(data, text, ("predict", options.output, "IMAGE"))


def _loaded(options, load_model):
    """Return the model, with the normalisation in its first layer if that is requested."""
    if not options.fold_normalization:
        return load_model(options.model)
    if options.adapters:
        raise ValueError(f"adapters expected none with --fold-normalization, whose first layer differs from the one "
                         f"that they were trained on, received {', '.join(options.adapters)}.")  # fmt: skip
    from keras_vit.models.fold import fold_normalization

    return fold_normalization(load_model(options.model))


def _adapters(model, assignments) -> dict:
    """Return the adapted models of `NAME=FILE` by name."""
    from keras_vit.models.adapter_files import load_adapter

    files = {}
    for assignment in assignments:
        name, equals, file = assignment.partition("=")
        if not (name and equals and file) or name in files:
            raise ValueError(f"adapters expected NAME=FILE with a name of its own, received {assignment!r}.")
        files[name] = file
    return {name: load_adapter(model, file) for name, file in files.items()}
