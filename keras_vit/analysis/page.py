"""Shared by the HTML reports: style, tables, pictures and the page around them."""

import base64
import html
import io
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #222; background: #fff; max-width: 1100px; margin: 2em auto;
  padding: 0 1em; }
h1 { font-size: 1.5em; } h2 { font-size: 1.2em; margin-top: 2em; border-bottom: 1px solid #e4e4e4; }
figure { margin: 1em 0 2em; } figcaption { color: #555; max-width: 48em; }
img { max-width: 100%; height: auto; }
table { border-collapse: collapse; } td, th { padding: .2em .8em; text-align: left; border-bottom: 1px solid #e4e4e4; }
th { font-weight: 600; } td.number { text-align: right; font-variant-numeric: tabular-nums; }
td { overflow-wrap: anywhere; min-width: 4.5em; } td.number { white-space: nowrap; }
small { color: #555; } .wide { overflow-x: auto; } .wide img { max-width: none; width: max(34em, min(100%, 44em)); }
@media (max-width: 500px) { td, th { padding: .2em .4em; } }
details { margin: 1em 0; border: 1px solid #e4e4e4; border-radius: .3em; padding: .4em .8em; }
summary { cursor: pointer; font-weight: 600; }
.sheet { display: grid; grid-template-columns: repeat(auto-fill, minmax(9em, 1fr)); gap: 1em; }
.sheet figure { margin: 0; } .sheet img { width: 100%; }
.sheet figcaption { font-size: .85em; overflow-wrap: anywhere; }
"""


def write_html(path: Path, title: str, body: Iterable[str]) -> None:
    """Write a self-contained page. `title` is plain text, `body` is HTML."""
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{escaped(title)}</title>'
    page = f'<!DOCTYPE html>\n<html lang="en"><head>{head}<style>{STYLE}</style></head><body>\n'
    path.write_text(page + "\n".join([f"<h1>{escaped(title)}</h1>", *body]) + "\n</body></html>\n", encoding="utf-8")


def escaped(value) -> str:
    """Return a value as HTML text."""
    return html.escape(str(value))


def heading(text: str) -> str:
    """Return a section heading."""
    return f"<h2>{escaped(text)}</h2>"


def paragraph(text: str) -> str:
    """Return a paragraph of plain text."""
    return f"<p>{escaped(text)}</p>"


def folded(summary: str, content: str) -> str:
    """Return HTML content that the reader unfolds."""
    return f"<details><summary>{escaped(summary)}</summary>{content}</details>"


def number(value) -> str:
    """Return a cell that is aligned to the right."""
    return f'<td class="number">{escaped(value)}</td>'


def cell(value) -> str:
    """Return a cell of text."""
    return f"<td>{escaped(value)}</td>"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table of HTML cells below a header of plain texts."""
    head = "".join(f"<th>{escaped(text)}</th>" for text in header)
    body = "".join(f"<tr>{''.join(row)}</tr>" for row in rows)
    return f'<div class="wide"><table><tr>{head}</tr>{body}</table></div>'


def facts_table(facts: dict) -> str:
    """Return a table of names and values."""
    rows = "".join(f"<tr><th>{escaped(name)}</th><td>{escaped(value)}</td></tr>" for name, value in facts.items())
    return f"<table>{rows}</table>"


def figure(png: bytes, caption: str, wide: bool = False) -> str:
    """Return a picture with its caption, embedded as data. A `wide` picture is scrolled on a narrow screen."""
    data = base64.b64encode(png).decode()
    image = f'<img src="data:image/png;base64,{data}" alt="{escaped(caption)}">'
    image = f'<div class="wide">{image}</div>' if wide else image
    return f"<figure>{image}<figcaption>{escaped(caption)}</figcaption></figure>"


def sheet(pictures: Iterable[np.ndarray], captions: Iterable[str]) -> str:
    """Return pictures (H, W, C) in 0..255 side by side, as many in a row as fit, each with its caption."""
    pairs = zip(pictures, captions, strict=True)
    return f'<div class="sheet">{"".join(figure(png_of(pixels), caption) for pixels, caption in pairs)}</div>'


def png_of(pixels: np.ndarray, side: int = 224) -> bytes:
    """Return pixels (H, W, 1 or 3) in 0..255 as a PNG file of at most `side` pixels."""
    from PIL import Image

    pixels = np.clip(np.round(pixels), 0, 255).astype("uint8")
    image = Image.fromarray(pixels[..., 0] if pixels.shape[-1] == 1 else pixels)
    image.thumbnail((side, side))
    if (times := 64 // max(image.size)) > 1:  # the pixels of small images are shown as squares
        image = image.resize((times * image.width, times * image.height), Image.Resampling.NEAREST)
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return buffer.getvalue()


def spread_of(figure: dict) -> str:
    """Return a figure with its interval."""
    if figure["value"] is None:
        return "unknown"
    return f"{figure['value']:.4g} ({figure['low']:.4g} to {figure['high']:.4g})"
