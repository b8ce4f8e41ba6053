"""Write a report as one self-contained HTML page."""

import base64
import html
from pathlib import Path

TITLES = {
    "extra_pictures": "Training run",
    "attention": "Attention",
    "class": "Evidence for the class",
    "figure7": "Filters, position embeddings, attention distance",
    "layer_outputs": "Layer outputs",
    "layers": "Similarity of layers",
    "neighbours": "Similarity of images",
}
STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #222; background: #fff; max-width: 1100px; margin: 2em auto;
  padding: 0 1em; }
h1 { font-size: 1.5em; } h2 { font-size: 1.2em; margin-top: 2em; border-bottom: 1px solid #e4e4e4; }
figure { margin: 1em 0 2em; } figcaption { color: #555; max-width: 48em; }
img { max-width: 100%; height: auto; }
table { border-collapse: collapse; } td, th { padding: .2em .8em; text-align: left; border-bottom: 1px solid #e4e4e4; }
th { font-weight: 600; } td.number { text-align: right; font-variant-numeric: tabular-nums; }
"""


def write_page(path: Path, analysis: dict, captions: dict[str, dict[str, str]]) -> None:
    """Write the page: facts, predictions, and every picture with its caption. Pictures are embedded as data.

    Args:
        path: the file to write, in the folder of the pictures.
        analysis: the dict that `analyze` returns.
        captions: part -> PNG file -> caption.
    """
    title = _escaped(f"Analysis of {analysis['model']}")
    body = [f"<h1>{title}</h1>", _facts_table(analysis["facts"])]
    if any(image["predictions"] for image in analysis["images"]):
        body += ["<h2>Predictions</h2>", _predictions_table(analysis["images"])]
    for part, pictures in captions.items():
        if pictures:
            body.append(f"<h2>{_escaped(TITLES[part])}</h2>")
        for file, caption in pictures.items():
            data = base64.b64encode((path.parent / file).read_bytes()).decode()
            image = f'<img src="data:image/png;base64,{data}" alt="{_escaped(caption)}">'
            body.append(f"<figure>{image}<figcaption>{_escaped(caption)}</figcaption></figure>")
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{title}</title>'
    page = f'<!DOCTYPE html>\n<html lang="en"><head>{head}<style>{STYLE}</style></head><body>\n'
    path.write_text(page + "\n".join(body) + "\n</body></html>\n", encoding="utf-8")


def _facts_table(facts):
    rows = "".join(f"<tr><th>{_escaped(name)}</th><td>{_escaped(value)}</td></tr>" for name, value in facts.items())
    return f"<table>{rows}</table>"


def _predictions_table(images):
    rows = []
    for image in images:
        cells = [
            f'<td>{_escaped(best["label"])}</td><td class="number">{best["score"]:.1%}</td>'
            for best in image["predictions"][:3]
        ]
        rows.append(f"<tr><th>{_escaped(image['name'])}</th>{''.join(cells)}</tr>")
    return f"<table>{''.join(rows)}</table>"


def _escaped(value):
    return html.escape(str(value))
