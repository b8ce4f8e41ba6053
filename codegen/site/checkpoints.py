"""Write the page of timm's checkpoints by kind, and its CSV: which kinds load, and their preprocessing."""

import csv
import html
import io
from dataclasses import asdict, dataclass, fields

from keras_vit.weights.timm_checkpoints import TimmCheckpoint, timm_checkpoints


@dataclass(frozen=True)
class KindLine:
    """A line of the table: checkpoints whose models have the same parts, and get the same answer.

    Args:
        family: the family.
        example: the first tag.
        tags: number of checkpoints.
        loads: `yes`, or why `from_pretrained` refuses them.
        preprocessing: the checkpoints' preprocessing without the image size; several are separated by `;`.
        licences: licences, as timm states them.
    """

    family: str
    example: str
    tags: int
    loads: str
    preprocessing: str
    licences: str


def lines() -> list[KindLine]:
    """Return the lines by family; those that load come first."""
    groups: dict[tuple, list[TimmCheckpoint]] = {}
    for row in timm_checkpoints():
        groups.setdefault((row.family, row.refusal or "yes"), []).append(row)
    found = [_line(family, loads, rows) for (family, loads), rows in groups.items()]
    return sorted(found, key=lambda line: (line.family, line.loads != "yes", line.loads))


def _line(family: str, loads: str, rows: list[TimmCheckpoint]) -> KindLine:
    specs = dict.fromkeys(str(row.spec).partition(" pixels, ")[2].removesuffix(", RGB") for row in rows)
    licences = sorted({row.licence or "unknown" for row in rows})
    return KindLine(family, rows[0].tag, len(rows), loads, "; ".join(sorted(specs)), ", ".join(licences))


def as_csv(table: list[KindLine]) -> str:
    """Return the table as CSV."""
    file = io.StringIO()
    writer = csv.DictWriter(file, [field.name for field in fields(KindLine)], lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(line) for line in table)
    return file.getvalue()


def pages() -> dict[str, str]:
    """Return the page: name on the site -> Markdown."""
    table = lines()
    total, loaded = (sum(line.tags for line in part) for part in (table, [x for x in table if x.loads == "yes"]))
    text = [
        "# timm's checkpoints",
        f"timm publishes {total} checkpoints of Vision Transformers and of BiT's ResNets on the Hugging Face hub. "
        f"`keras_vit.from_pretrained` loads {loaded} of them by their tag, and refuses the others by name. The answers "
        "are derived from the names and shapes of the arrays by the check of real files.",
        "`keras-vit weights find --family NAME` lists the tags of a family, and `--loads` those that load.",
        "Select a column's title to sort. {download}`The same as CSV <../results/checkpoints.csv>`.",
        f"```{{raw}} html\n{_as_html(table)}\n```\n",
    ]
    return {"zoo/timm.md": "\n\n".join(text)}


def _as_html(table: list[KindLine]) -> str:
    titles = ("family", "example", "tags", "loads", "preprocessing", "licences")
    head = "".join(f'<th scope="col"><button type="button">{title}</button></th>' for title in titles)
    body = "\n".join(f"<tr>{''.join(_cells(line))}</tr>" for line in table)
    return f'<table class="sortable">\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>'


def _cells(line: KindLine):
    for name, value in asdict(line).items():
        shown = html.escape(str(value))
        if name == "tags":
            yield f'<td class="number" data-value="{value}">{shown}</td>'
        else:
            yield f"<td><code>{shown}</code></td>" if name == "example" else f"<td>{shown}</td>"
