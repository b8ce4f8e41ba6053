"""Write a report as one self-contained HTML page."""

import base64
import html
from pathlib import Path

TITLES = {
    "labelled": "Confusion matrix and mistakes",
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
STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #222; background: #fff; max-width: 1100px; margin: 2em auto;
  padding: 0 1em; }
h1 { font-size: 1.5em; } h2 { font-size: 1.2em; margin-top: 2em; border-bottom: 1px solid #e4e4e4; }
figure { margin: 1em 0 2em; } figcaption { color: #555; max-width: 48em; }
img { max-width: 100%; height: auto; }
table { border-collapse: collapse; } td, th { padding: .2em .8em; text-align: left; border-bottom: 1px solid #e4e4e4; }
th { font-weight: 600; } td.number { text-align: right; font-variant-numeric: tabular-nums; }
th, td { overflow-wrap: anywhere; } small { color: #555; } .wide { overflow-x: auto; }
details { margin: 1em 0; border: 1px solid #e4e4e4; border-radius: .3em; padding: .4em .8em; }
summary { cursor: pointer; font-weight: 600; }
"""


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
    title = _escaped(f"Analysis of {analysis['model']}")
    name = _Names(aliases or {})
    body = [f"<h1>{title}</h1>", _facts_table(analysis["facts"])]
    predictions = any(image["predictions"] for image in analysis["images"])
    for part, pictures in captions.items():
        if predictions and part != "labelled":
            body += ["<h2>Predictions</h2>", _predictions_table(analysis["images"], name)]
            predictions = False
        if pictures:
            body.append(f"<h2>{_escaped(TITLES[part])}</h2>")
        body += [_figure(path.parent / file, caption) for file, caption in pictures.items()]
        if part == "labelled":
            body += _labelled_tables(analysis["labelled"], name)
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{title}</title>'
    page = f'<!DOCTYPE html>\n<html lang="en"><head>{head}<style>{STYLE}</style></head><body>\n'
    path.write_text(page + "\n".join(body) + "\n</body></html>\n", encoding="utf-8")


class _Names:
    """Writes a name as HTML, with its stand-in where the pictures have one."""

    def __init__(self, aliases: dict[str, str]):
        self._aliases = aliases

    def __call__(self, name) -> str:
        alias = self._aliases.get(name)
        return _escaped(name) + (f" <small>({_escaped(alias)})</small>" if alias else "")


def _figure(file, caption):
    """Return a picture with its caption, folded if the picture is a detail."""
    data = base64.b64encode(file.read_bytes()).decode()
    image = f'<img src="data:image/png;base64,{data}" alt="{_escaped(caption)}">'
    figure = f"<figure>{image}<figcaption>{_escaped(caption)}</figcaption></figure>"
    return _folded(FOLDED[file.name], figure) if file.name in FOLDED else figure


def _folded(summary, content):
    return f"<details><summary>{_escaped(summary)}</summary>{content}</details>"


def _table(header, rows):
    """Return a table of HTML cells; cells of a number are aligned to the right."""
    head = "".join(f"<th>{_escaped(cell)}</th>" for cell in header)
    body = "".join(f"<tr>{''.join(row)}</tr>" for row in rows)
    return f'<div class="wide"><table><tr>{head}</tr>{body}</table></div>'


def _number(value):
    return f'<td class="number">{_escaped(value)}</td>'


def _facts_table(facts):
    rows = "".join(f"<tr><th>{_escaped(name)}</th><td>{_escaped(value)}</td></tr>" for name, value in facts.items())
    return f"<table>{rows}</table>"


def _labelled_tables(labelled, name):
    """Return tables of the mistakes and the classes, with whole names."""
    mistakes = [
        [_number(row["image"]), f"<td>{name(row['true'])}</td>", f"<td>{name(row['predicted'])}</td>",
         _number(f"{row['score']:.1%}")]
        for row in labelled["mistakes"]
    ]  # fmt: skip
    classes = [
        [_number(row["class"]), f"<td>{name(row['label'])}</td>", _number(row["images"]), _number(row["correct"]),
         f"<td>{name(row['most_confused_with'] or '')}</td>"]
        for row in labelled["classes"]
    ]  # fmt: skip
    tables = []
    if mistakes:
        title = f"The {len(mistakes)} most confident mistakes" if len(mistakes) > 1 else "The only mistake"
        tables.append(_folded(title, _table(("image", "true class", "predicted class", "score"), mistakes)))
    header = ("number", "class", "images", "correct", "most often taken for")
    return [*tables, _folded("Images and mistakes per class", _table(header, classes))]


def _predictions_table(images, name):
    rows = []
    for image in images:
        cells = [
            f"<td>{name(best['label'])}</td>" + _number(f"{best['score']:.1%}") for best in image["predictions"][:3]
        ]
        rows.append(f"<tr><th>{name(image['name'])}</th>{''.join(cells)}</tr>")
    return f'<div class="wide"><table>{"".join(rows)}</table></div>'


def _escaped(value):
    return html.escape(str(value))
