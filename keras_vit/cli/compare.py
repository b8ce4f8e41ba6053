"""The command `keras-vit compare FIRST SECOND --data FOLDER`."""

from pathlib import Path

from keras_vit.cli.labelled import score_image_files
from keras_vit.cli.options import MODEL_HELP
from keras_vit.cli.output import Result

SHOWN = 60  # pictures on the page
SOME_FAILED = 1  # exit status
REGRESSION, SEVERAL = "a regression", "a model of several labels per image"


def add(verb) -> None:
    """Add the verb and its options to the command line."""
    sub = verb(
        "compare",
        run,
        "Compare the answers of two models on the same images: agreement, a paired test, and the changed answers.",
        "compare runs/photos saved_models/photos --data photos/test --output changes",
    )
    sub.add_argument("first", metavar="FIRST", help=f"{MODEL_HELP}, or an export")
    sub.description += (
        " Both have the same classes, the same labels of several per image, or the same targets of a regression."
    )
    sub.add_argument("second", metavar="SECOND", help="the other model, of the same classes, labels or targets")
    sub.add_argument("--data", required=True, help="a folder of images, CLASS/IMAGE or without classes, or a .csv file "
                     "as for training: path and label, labels or values")  # fmt: skip
    sub.add_argument("--output", metavar="DIR", help="folder for comparison.json and comparison.html")


def run(options) -> Result:
    """Compare two models and return the result."""
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
        if not interface_of(models[-1]).targets:
            require_classifier(models[-1])
    first, second = (_kind(interface_of(model)) for model in models)
    if first != second:
        raise ValueError(f"second expected {first} as first, received {second}.")
    if first == REGRESSION:
        from keras_vit.cli.compare_values import compare_values as compare
    elif first == SEVERAL:
        from keras_vit.cli.compare_labels import compare_labels as compare
    else:
        compare = _compare_classes
    return compare(models, options)


def _kind(interface) -> str:
    return REGRESSION if interface.targets else SEVERAL if interface.thresholds else "a model of one class per image"


def _compare_classes(models, options) -> Result:
    """Compare two models of one class per image."""
    import numpy as np

    from keras_vit.evaluate.agreement import agreement
    from keras_vit.predict.predictor import interface_of

    classes = [interface_of(model).labels for model in models]
    order = same_names(*classes)
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
    facts = {"same answer": f"{result['agreement']:.2%} of {result['images']:,} images"}
    if "accuracy" in result:
        facts["accuracy"] = " and ".join(f"{value:.2%}" for value in result["accuracy"])
        facts["McNemar's test"] = f"p = {result['mcnemar']['p']:.3g} ({result['mcnemar']['method']})"
    if len(changed) > SHOWN:
        facts["pictures"] = f"the {SHOWN} most confident of {len(changed):,} changed answers"
    captions = [
        f"{Path(row['image']).name}: {row['first']} ({row['score_of_first']:.0%}) became {row['second']} "
        f"({row['score_of_second']:.0%})" + (f", labelled {row['label']}" if row["label"] is not None else "")
        for row in result["changes"][:SHOWN]
    ]
    return finished(options, result, _lines(result), facts, captions, lambda: scores[0].pictures(changed[:SHOWN]))


def finished(options, result: dict, lines: list[str], facts: dict, captions: list[str], pictures, tables=()) -> Result:
    """Write the files of `--output` and return the result.

    Args:
        options: the options of the verb.
        result: the content of `comparison.json`.
        lines: what is printed.
        facts: names and values at the top of the page.
        captions: one for each picture of the page.
        pictures: a function that returns the pixels (H, W, C) of these.
        tables: tables of the page, in HTML.
    """
    if result["unreadable"]:
        lines = [*lines, f"left out {len(result['unreadable']):,} images that cannot be read"]
    if options.output:
        import json

        from keras_vit.analysis.comparison_page import write_comparison
        from keras_vit.train.workdir import write_atomically

        output = Path(options.output)
        output.mkdir(parents=True, exist_ok=True)
        write_atomically(output / "comparison.json", json.dumps(result, indent=1, ensure_ascii=False) + "\n")
        facts = {"first": result["first"], "second": result["second"], "data": result["data"], **facts}
        write_comparison(output / "comparison.html", facts, captions, pictures(), tables)
        lines = [*lines, f"wrote comparison.json and comparison.html to {options.output}"]
    return Result(result, "\n".join(lines), status=SOME_FAILED if result["unreadable"] else 0)


def same_names(first, second, what: str = "classes") -> list[int]:
    """Return the second model's index of each class of the first, or raise a ValueError for other classes."""
    if set(first) != set(second):
        alone = [name for name in first if name not in set(second)] + [
            name for name in second if name not in set(first)
        ]
        raise ValueError(f"second expected a model of the same {len(first):,} {what} as first, received "
                         f"{len(second):,} {what}; only one of the two has {', '.join(alone[:5])}.")  # fmt: skip
    positions = {name: i for i, name in enumerate(second)}
    return [positions[name] for name in first]


def unlabelled_files(data: str) -> list[str] | None:
    """Return the image files of a folder, of which no values or labels are known; None for a CSV file."""
    from keras_vit.data.labelled import split_folder
    from keras_vit.preprocessing.folders import image_files_below

    if not Path(data).is_dir():
        return None
    files = list(image_files_below(str(split_folder(Path(data)))))
    if not files:
        raise ValueError(f"--data expected images, found none in {data!r}.")
    return files


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
    return lines
