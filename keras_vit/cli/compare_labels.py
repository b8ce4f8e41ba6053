"""The command `keras-vit compare FIRST SECOND --data FILE.csv` for two models of several labels per image."""

from pathlib import Path

import numpy as np

from keras_vit.cli.compare import SHOWN, finished, same_names, unlabelled_files
from keras_vit.cli.labelled import score_image_files
from keras_vit.cli.output import Result
from keras_vit.cli.table import table_lines, terminal_width

LISTED = 25  # labels that are printed
HEADER = ("label", "images", "changed", "first AP", "second AP", "change", "p")


def compare_labels(models, options) -> Result:
    """Compare two models of the same labels, several per image, each with its own thresholds."""
    from keras_vit.analysis.page import cell, heading, number, table
    from keras_vit.data.labelled import files_with_labels
    from keras_vit.evaluate.paired import label_agreement
    from keras_vit.predict.predictor import interface_of

    interfaces = [interface_of(model) for model in models]
    labels = interfaces[0].labels
    order = same_names(labels, interfaces[1].labels, "labels")
    files, hot = unlabelled_files(options.data), None
    if files is None:
        files, hot = files_with_labels(options.data, labels)
    scored = [score_image_files(model, files, hot, "--data", quiet=options.quiet) for model in models]
    scores = [scored[0].probabilities, scored[1].probabilities[:, order]]
    limits = [np.asarray(interfaces[0].thresholds), np.asarray(interfaces[1].thresholds)[order]]
    called = [own >= limit.astype(own.dtype) for own, limit in zip(scores, limits, strict=True)]
    result = {"first": options.first, "second": options.second, "data": options.data}
    result |= label_agreement(scores, called, labels, scored[0].labels)
    changed = np.flatnonzero((called[0] != called[1]).any(axis=1))
    gaps = np.where(called[0] != called[1], np.abs(scores[1] - scores[0]), 0).max(axis=1)
    changed = changed[np.argsort(-gaps[changed], kind="stable")]
    of = lambda row: [labels[k] for k in np.flatnonzero(row)]  # noqa: E731
    result["changes"] = [
        {"image": scored[0].images[i], "first": of(called[0][i]), "second": of(called[1][i]),
         "labels": None if scored[0].labels is None else of(scored[0].labels[i])}
        for i in changed
    ]  # fmt: skip
    result["unreadable"] = scored[0].unreadable
    ranked = sorted(result["labels"], key=lambda row: (-row["changed"], row["label"]))
    cells = [_cells(row) for row in ranked]
    facts = {"same labels": f"{result['agreement']:.2%} of {result['images']:,} images", **_facts(result)}
    if len(changed) > SHOWN:
        facts["pictures"] = f"the {SHOWN} of {len(changed):,} changed answers whose probabilities differ most"
    rows = table(HEADER, [[cell(name), *map(number, rest)] for name, *rest in cells])
    captions = [_caption(row) for row in result["changes"][:SHOWN]]
    pictures = lambda: scored[0].pictures(changed[:SHOWN])  # noqa: E731
    return finished(options, result, _lines(result, cells), facts, captions, pictures, [heading("Labels"), rows])


def _lines(result, cells) -> list[str]:
    lines = [
        f"the same labels for {result['agreement']:.2%} of {result['images']:,} images, {result['changed']:,} changed"
    ]
    lines += [f"{name}: {text}" for name, text in _facts(result).items()]
    lines += ["", *table_lines([HEADER, *cells[:LISTED]], range(1, 7), terminal_width(), wrapped=0, names=HEADER), ""]
    if len(cells) > LISTED:
        lines.append(f"the {LISTED} labels with most changed answers of {len(cells):,}")
    if "interval" not in result:
        return [*lines, "the images have no known labels; a CSV file with the column labels has"]
    return [*lines, "AP: average precision; change: with its 95% interval; p: McNemar's test of the label's answers"]


def _facts(result) -> dict[str, str]:
    if "change" not in result:
        return {}
    first, second = result["mean_average_precision"]
    return {"mean average precision": f"{first:.2%} and {second:.2%}, a change of {_change(result['change'])}"}


def _change(figure) -> str:
    value, low, high = (f"{100 * figure[name]:+.2f}" for name in ("value", "low", "high"))
    return f"{value} % ({low} to {high})"


def _cells(row) -> tuple[str, ...]:
    """Return the cells of a label in the table."""
    if "images" not in row:
        return row["label"], "", f"{row['changed']:,}", "", "", "", ""
    precisions = ("", "") if row["change"] is None else tuple(f"{value:.1%}" for value in row["average_precision"])
    change = "" if row["change"] is None else _change(row["change"])
    return (row["label"], f"{row['images']:,}", f"{row['changed']:,}", *precisions, change,
            f"{row['mcnemar']['p']:.3g}")  # fmt: skip


def _caption(row) -> str:
    first, second = (", ".join(row[name]) or "no label" for name in ("first", "second"))
    true = "" if row["labels"] is None else f", labelled {', '.join(row['labels']) or 'none'}"
    return f"{Path(row['image']).name}: {first} became {second}{true}"
