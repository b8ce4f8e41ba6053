"""The report as one HTML page that needs nothing beside it."""

import base64
import html
from pathlib import Path

TITLES = {
    "also": "The run",
    "attention": "What the model attends to",
    "class": "What speaks for the class",
    "figure7": "Filters, positions, attention distance",
    "journey": "How images travel",
    "layers": "How alike the layers are",
    "neighbours": "Which images are alike",
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
    """Write the page: facts, predictions, and every picture with its caption, embedded as data.

    Args:
        path: of the page; the pictures lie beside it.
        analysis: what `analyze` returns.
        captions: part -> file -> caption.
    """
    body = [f"<h1>{_text(analysis['model'])}: looking inside</h1>", _facts(analysis["facts"])]
    if any(image["predictions"] for image in analysis["images"]):
        body += ["<h2>Answers</h2>", _answers(analysis["images"])]
    for part, pictures in captions.items():
        if pictures:
            body.append(f"<h2>{_text(TITLES[part])}</h2>")
        for file, caption in pictures.items():
            data = base64.b64encode((path.parent / file).read_bytes()).decode()
            image = f'<img src="data:image/png;base64,{data}" alt="{_text(caption)}">'
            body.append(f"<figure>{image}<figcaption>{_text(caption)}</figcaption></figure>")
    title = _text(f"{analysis['model']}: looking inside")
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{title}</title>'
    page = f'<!DOCTYPE html>\n<html lang="en"><head>{head}<style>{STYLE}</style></head><body>\n'
    path.write_text(page + "\n".join(body) + "\n</body></html>\n", encoding="utf-8")


def _facts(facts):
    rows = "".join(f"<tr><th>{_text(name)}</th><td>{_text(value)}</td></tr>" for name, value in facts.items())
    return f"<table>{rows}</table>"


def _answers(images):
    rows = []
    for image in images:
        found = image["predictions"]
        best = "".join(f'<td>{_text(p["label"])}</td><td class="number">{p["score"]:.1%}</td>' for p in found[:3])
        rows.append(f"<tr><th>{_text(image['name'])}</th>{best}</tr>")
    return f"<table>{''.join(rows)}</table>"


def _text(value):
    return html.escape(str(value))
