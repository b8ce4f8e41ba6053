"""Write a report as one self-contained HTML page."""

from pathlib import Path

from keras_vit.analysis.page import cell, escaped, facts_table, figure, folded, heading, number, table, write_html

TITLES = {
    "labelled": "Confusion matrix and mistakes",
    "several": "Labels and mistakes",
    "values": "Predicted and true values",
    "attention": "Attention",
    "class": "Evidence for the class",
    "figure7": "Filters, position embeddings, attention distance",
    "layer_outputs": "Layer outputs",
    "layers": "Similarity of layers",
    "neighbours": "Similarity of images",
    "extra_pictures": "Training run",
}
FOLDED = {  # PNG file -> what the reader unfolds
    "attention_heads.png": "Attention per head",
    "attention_blocks.png": "Attention per block",
    "layer_outputs_1.png": "Layer outputs of the second image",
    "layer_outputs_2.png": "Layer outputs of the third image",
}


def write_page(
    path: Path, analysis: dict, captions: dict[str, dict[str, str]], aliases: dict[str, str] | None = None
) -> None:
    """Write the page: facts, mistakes, predictions, and every picture with its caption. Pictures are embedded as data.

    Args:
        path: the file to write, in the folder of the pictures.
        analysis: the dict that `analyze` returns.
        captions: part -> PNG file -> caption.
        aliases: name -> its stand-in in the pictures, for names that no font could draw.
    """
    name = _Names(aliases or {})
    body = [facts_table(analysis["facts"])]
    predictions = any(image["predictions"] for image in analysis["images"])
    for part, pictures in captions.items():
        if predictions and part not in ("labelled", "several"):
            body += [heading("Predictions"), _predictions_table(analysis["images"], name)]
            predictions = False
        if pictures:
            body.append(heading(TITLES[part]))
        body += [_picture(path.parent / file, caption) for file, caption in pictures.items()]
        if part == "labelled":
            body += _labelled_tables(analysis["labelled"], name)
        if part == "several":
            body += _several_tables(analysis["several"], name)
        if part == "values":
            rows = [[cell(row["target"]), number(f"{row['mae']:.4g}"), number(f"{row['rmse']:.4g}"),
                     number("unknown" if row["r2"] is None else f"{row['r2']:.4g}")]
                    for row in analysis["values"]["targets"]]  # fmt: skip
            body.append(table(("target", "mean absolute error", "root mean squared error", "R2"), rows))
    write_html(path, f"Analysis of {analysis['model']}", body)


class _Names:
    """Writes a name as HTML, with its stand-in where the pictures have one."""

    def __init__(self, aliases: dict[str, str]):
        self._aliases = aliases

    def __call__(self, name) -> str:
        alias = self._aliases.get(name)
        return escaped(name) + (f" <small>({escaped(alias)})</small>" if alias else "")


def _picture(file, caption):
    """Return a picture with its caption, folded if the picture is a detail."""
    content = figure(file.read_bytes(), caption)
    return folded(FOLDED[file.name], content) if file.name in FOLDED else content


def _labelled_tables(labelled, name):
    """Return tables of the mistakes and the classes, with whole names."""
    mistakes = [
        [number(row["image"]), f"<td>{name(row['true'])}</td>", f"<td>{name(row['predicted'])}</td>",
         number(f"{row['score']:.1%}")]
        for row in labelled["mistakes"]
    ]  # fmt: skip
    classes = [
        [number(row["class"]), f"<td>{name(row['label'])}</td>", number(row["images"]), number(row["correct"]),
         f"<td>{name(row['most_confused_with'] or '')}</td>"]
        for row in labelled["classes"]
    ]  # fmt: skip
    tables = []
    if mistakes:
        title = f"The {len(mistakes)} most confident mistakes" if len(mistakes) > 1 else "The only mistake"
        tables.append(folded(title, table(("image", "true class", "predicted class", "score"), mistakes)))
    header = ("number", "class", "images", "correct", "most often taken for")
    return [*tables, folded("Images and mistakes per class", table(header, classes))]


def _several_tables(several, name):
    """Return tables of the labels and of the images with wrong labels."""
    share = lambda value: number("" if value is None else f"{value:.1%}")  # noqa: E731
    rates = ("average_precision", "precision", "recall", "f1")
    rows = [[f"<td>{name(row['label'])}</td>", number(row["images"]), number(row["predicted"]),
             *(share(row[rate]) for rate in rates)] for row in several["labels"]]  # fmt: skip
    header = ("label", "images", "predicted", "average precision", "precision", "recall", "F1")
    tables = [folded("Figures of each label", table(header, rows))]
    if mistakes := [[number(row["image"]), cell(row["true"]), cell(row["predicted"]), number(f"{row['score']:.1%}")]
                    for row in several["mistakes"]]:  # fmt: skip
        header = ("image", "true labels", "predicted labels", "score")
        tables.append(folded("Images with wrong labels, most certain first", table(header, mistakes)))
    return tables


def _predictions_table(images, name):
    rows = []
    for image in images:
        cells = [
            f"<td>{name(best['label'])}</td>" + number(f"{best['score']:.1%}") for best in image["predictions"][:3]
        ]
        rows.append(f"<tr><th>{name(image['name'])}</th>{''.join(cells)}</tr>")
    return f'<div class="wide"><table>{"".join(rows)}</table></div>'
