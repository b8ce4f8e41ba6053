"""The command `keras-vit analyze MODEL [IMAGE...]`."""

import re
from pathlib import Path

from keras_vit.cli.options import MODEL_HELP, add_data_options, data_arguments, recipe_of, short_name
from keras_vit.cli.output import Result

MAX_DRAWN = 8  # images of a folder without labels
SAMPLE = 128  # test images for statistics, as for the paper's attention distance


def add(verb) -> None:
    """Add the verb and its options to the command line."""
    sub = verb(
        "analyze",
        run,
        "Draw a model's attention, class activation maps, filters, position embeddings, and the similarity of its "
        "layers and images. Images with labels begin with a confusion matrix and mistakes. A workdir without IMAGE "
        "also gets its training curve.",
        "analyze runs/digits --output runs/digits/pictures",
    )
    sub.add_argument("model", metavar="MODEL", help=MODEL_HELP)
    sub.add_argument(
        "images",
        metavar="IMAGE",
        nargs="*",
        help="image files, or one folder, whose subfolders are labels if they are named like the model's classes; a "
        "workdir's test images by default",
    )
    sub.add_argument("--output", required=True, help="folder of the pictures, analysis.json and index.html")
    sub.add_argument(
        "--parts",
        help="some of attention,class,figure7,layer_outputs,layers,neighbours (default all that the model has)",
    )
    sub.add_argument("--limit", type=int, default=1000, help="number of test images to classify (default 1,000)")
    add_data_options(sub)


def run(options) -> Result:
    """Analyze a model and return the location of the pictures."""
    from keras_vit.models.model_names import require_trained

    require_trained(options.model)
    recipe = recipe_of(options)
    if not options.images and recipe is None:
        raise ValueError(
            f"images expected image files, received none: {options.model!r} is no workdir with a recipe's data."
        )
    from keras_vit import analysis
    from keras_vit.analysis.report import require_parts
    from keras_vit.models.load import load_model

    model = load_model(options.model)
    parts = options.parts and [part.strip() for part in options.parts.split(",")]
    if parts:
        require_parts(model, parts)
    if len(options.images) == 1 and Path(options.images[0]).is_dir():
        report = _analyze_folder(model, options, parts)
    elif options.images:
        report = analysis.analyze(model, options.images, options.output, parts=parts)
    else:
        report = _analyze_run(model, recipe, options, parts)
    lines = []
    if parts is None and "pooling" not in report:
        lines.append(f"{model.name} has no attention between patches, so the pictures of attention are left out")
    page = Path(options.output) / "index.html"
    files = sorted(path.name for path in Path(options.output).iterdir())
    lines.append(f"wrote {', '.join(files)} to {options.output}")
    lines.append(f"open {page} in a browser to see all of them with captions")
    data = {"model": model.name, "output": options.output, "page": str(page), "files": files}
    following = ("export", options.model, "--output", f"saved_models/{short_name(options.model)}")
    return Result(data, "\n".join(lines), (*following, *data_arguments(options)))


def _analyze_run(model, recipe, options, parts):
    """Draw the training curves of a run, its predictions on the test split, and the analysis of its model."""
    from keras_vit import analysis
    from keras_vit.cli.images import load_split
    from keras_vit.evaluate.accuracy import require_same_classes
    from keras_vit.models.model_interface import model_interface
    from keras_vit.train.left_out import absent_files

    left_out = absent_files(options.model, options.recipe)
    several = bool(model_interface(model).thresholds)
    images, labels, names = load_split(model, recipe.data, options.data_dir, options.limit, left_out, several)
    if recipe.masked is None:
        require_same_classes(model, names)
    output = Path(options.output)
    output.mkdir(parents=True, exist_ok=True)
    extra_pictures = {}
    if (Path(options.model) / "metrics.jsonl").is_file():
        analysis.plot_training(Path(options.model) / "metrics.jsonl", output / "training.png")
        extra_pictures["training.png"] = "Loss, accuracy and learning rate of the training run."
    if recipe.masked is not None:
        inputs = model_interface(model).inputs_of(images)
        _draw_masked(options, recipe.masked, inputs, output)
        extra_pictures["masked.png"] = "Predictions of masked patches."
    return _analyze_labelled(model, images, labels, names, options, parts, extra_pictures, recipe.masked is None)


def _analyze_folder(model, options, parts):
    """Draw the analysis of a model on a folder of images, and its mistakes if the subfolders are its classes."""
    from keras_vit import analysis
    from keras_vit.cli.images import load_folder
    from keras_vit.models.model_interface import model_interface

    interface = model_interface(model)
    images, labels = load_folder(options.images[0], interface, options.limit, "images")
    if labels is not None and not interface.thresholds:  # a folder has one label per image
        return _analyze_labelled(model, images, labels, interface.labels, options, parts, {})
    inputs = interface.inputs_of(images)
    return analysis.analyze(model, inputs[:MAX_DRAWN], options.output, parts=parts, sample_images=inputs[:SAMPLE])


def _analyze_labelled(model, images, labels, names, options, parts, extra_pictures, classified=True):
    """Draw the analysis of a model on labelled images, and write one example per class.

    Args:
        images: (N, H, W, C) pixels 0..255.
        labels: N class indices; 0 or 1 for each of several labels (N, K); the values (N, T) of a regression.
        names: names of the classes.
        classified: whether the classes are the model's.
    """
    import numpy as np
    from PIL import Image

    from keras_vit import analysis
    from keras_vit.models.model_interface import model_interface

    output = Path(options.output)
    inputs = model_interface(model).inputs_of(images)
    if labels.ndim == 2:
        texts = _texts(labels, names, bool(model_interface(model).targets))
        return _analyze_rows(model, inputs, labels, texts, options, parts, extra_pictures)
    first = [int(np.flatnonzero(labels == label)[0]) for label in np.unique(labels)[:10]]  # one image per class
    test = {"test_images": inputs, "test_labels": labels} if classified else {}
    report = analysis.analyze(
        model, inputs[first], output, names=[f"true: {names[labels[i]]}" for i in first], parts=parts,
        sample_images=inputs[:SAMPLE], sample_names=[names[label] for label in labels[:SAMPLE]],
        extra_pictures=extra_pictures, max_drawn=len(first), **test,
    )  # fmt: skip
    (output / "examples").mkdir(exist_ok=True)
    for i in first:
        name = re.sub(r"\W+", "_", names[labels[i]])
        Image.fromarray(np.squeeze(images[i].round().astype("uint8"))).save(output / "examples" / f"{i}_{name}.png")
    return report


def _texts(rows, names, are_values: bool) -> list[str]:
    """Return values (N, T) or 0 or 1 for each label (N, K) as a text per image."""
    if are_values:
        return [", ".join(f"{name} {value:.4g}" for name, value in zip(names, row, strict=True)) for row in rows]
    return [", ".join(name for name, value in zip(names, row, strict=True) if value) or "no label" for row in rows]


def _analyze_rows(model, inputs, rows, texts, options, parts, extra_pictures):
    """Draw the analysis of a model of values or of several labels on images (N, H, W, C) with known ones (N, T)."""
    from keras_vit import analysis

    return analysis.analyze(
        model, inputs[:MAX_DRAWN], options.output, names=[f"true: {text}" for text in texts[:MAX_DRAWN]], parts=parts,
        sample_images=inputs[:SAMPLE], sample_names=texts[:SAMPLE], extra_pictures=extra_pictures, test_images=inputs,
        test_labels=rows,
    )  # fmt: skip


def _draw_masked(options, masked, inputs, output):
    """Draw the predictions of a run with masked patch prediction."""
    from keras_vit import analysis
    from keras_vit.models.load import load_model

    model = load_model(Path(options.model) / "masked.keras")
    analysis.plot_masked(
        model, inputs[:8], output / "masked.png", share=masked.share, mask=masked.mask, swap=masked.swap
    )
