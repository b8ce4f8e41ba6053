"""The command `keras-vit compare FIRST SECOND --data FOLDER`."""

from pathlib import Path

from keras_vit.cli.labelled import score_image_files
from keras_vit.cli.options import MODEL_HELP
from keras_vit.cli.output import Result

SHOWN = 60  # pictures on the page
SOME_FAILED = 1  # exit status


def add(verb) -> None:
    """Add the verb and its options to the command line."""
    sub = verb(
        "compare",
        run,
        "Compare the answers of two models on the same images: agreement, McNemar's test, and the changed answers.",
        "compare runs/photos saved_models/photos --data photos/test --output changes",
    )
    sub.add_argument("first", metavar="FIRST", help=f"{MODEL_HELP}, or an export")
    sub.add_argument("second", metavar="SECOND", help="the other model, of the same classes")
    sub.add_argument("--data", required=True, help="a folder of images, CLASS/IMAGE or without classes, or a .csv file "
                     "with the columns image and label")  # fmt: skip
    sub.add_argument("--output", metavar="DIR", help="folder for comparison.json and comparison.html")


def run(options) -> Result:
    """Compare two models and return the result."""
    import numpy as np

    from keras_vit.evaluate.agreement import agreement
    from keras_vit.models.model_names import require_trained
    from keras_vit.predict import load_predictor
    from keras_vit.predict.predictor import interface_of
    from keras_vit.predict.scores import require_classifier
    from keras_vit.terminal import hide_stderr

    models = []
    for source in (options.first, options.second):
        require_trained(source)
        with hide_stderr():  # TFLite prints information
            models.append(load_predictor(source))
        require_classifier(models[-1])
    classes = [interface_of(model).labels for model in models]
    order = _same_classes(*classes)
    files, labels = _files(options.data, classes[0])
    scores = [score_image_files(model, files, labels, "--data", quiet=options.quiet) for model in models]
    first, second = scores[0].probabilities, scores[1].probabilities[:, order]
    answers = first.argmax(axis=1), second.argmax(axis=1)
    result = {"first": options.first, "second": options.second, "data": options.data}
    result |= agreement(*answers, scores[0].labels)
    changed = np.flatnonzero(answers[0] != answers[1])
    confidence = np.maximum(first.max(axis=1), second.max(axis=1))
    changed = changed[np.argsort(-confidence[changed], kind="stable")]
    names, known = classes[0], scores[0].labels
    result["changes"] = [
        {"image": scores[0].images[i], "first": names[answers[0][i]], "second": names[answers[1][i]],
         "score_of_first": float(first[i].max()), "score_of_second": float(second[i].max()),
         "label": None if known is None else names[known[i]]}
        for i in changed
    ]  # fmt: skip
    result["unreadable"] = scores[0].unreadable
    lines = _lines(result)
    if options.output:
        pictures = scores[0].pictures(changed[:SHOWN])
        _write(Path(options.output), result, pictures)
        lines.append(f"wrote comparison.json and comparison.html to {options.output}")
    return Result(result, "\n".join(lines), status=SOME_FAILED if result["unreadable"] else 0)


def _same_classes(first, second) -> list[int]:
    """Return the second model's index of each class of the first, or raise a ValueError for other classes."""
    if set(first) != set(second):
        alone = [name for name in first if name not in set(second)] + [
            name for name in second if name not in set(first)
        ]
        raise ValueError(f"second expected a model of the same {len(first):,} classes as first, received "
                         f"{len(second):,} classes; only one of the two has {', '.join(alone[:5])}.")  # fmt: skip
    positions = {name: i for i, name in enumerate(second)}
    return [positions[name] for name in first]


def _files(data: str, classes):
    """Return the image files, and their class indices or None if no folder is named like a class."""
    from keras_vit.data.labelled import class_indices, labelled_files, split_folder
    from keras_vit.preprocessing.folders import image_files_below

    if Path(data).is_dir():
        root = split_folder(Path(data))
        files = list(image_files_below(str(root)))
        if files and not any(Path(file).relative_to(root).parts[0] in classes for file in files):
            return files, None
    files, names = labelled_files(data)
    return files, class_indices(names, classes)


def _lines(result) -> list[str]:
    lines = [
        f"the same answer for {result['agreement']:.2%} of {result['images']:,} images, {result['changed']:,} changed"
    ]
    if "accuracy" in result:
        test, (before, after) = result["mcnemar"], result["accuracy"]
        lines.append(f"accuracy {before:.2%} and {after:.2%}; right only by the first {test['first_only']:,} images, "
                     f"only by the second {test['second_only']:,}")  # fmt: skip
        lines.append(f"McNemar's test ({test['method']}): p = {test['p']:.3g}")
    else:
        lines.append("no folder is named like a class of the models, so the images have no labels")
    if result["unreadable"]:
        lines.append(f"left out {len(result['unreadable']):,} images that cannot be read")
    return lines


def _write(output: Path, result: dict, pictures) -> None:
    """Write `comparison.json` and `comparison.html`."""
    import json

    from keras_vit.analysis.comparison_page import write_comparison
    from keras_vit.train.workdir import write_atomically

    output.mkdir(parents=True, exist_ok=True)
    write_atomically(output / "comparison.json", json.dumps(result, indent=1, ensure_ascii=False) + "\n")
    facts = {"first": result["first"], "second": result["second"], "data": result["data"]}
    facts |= {"same answer": f"{result['agreement']:.2%} of {result['images']:,} images"}
    if "accuracy" in result:
        facts["accuracy"] = " and ".join(f"{value:.2%}" for value in result["accuracy"])
        facts["McNemar's test"] = f"p = {result['mcnemar']['p']:.3g} ({result['mcnemar']['method']})"
    if len(result["changes"]) > len(pictures):
        facts["pictures"] = f"the {len(pictures)} most confident of {len(result['changes']):,} changed answers"
    write_comparison(output / "comparison.html", facts, result["changes"][: len(pictures)], pictures)
