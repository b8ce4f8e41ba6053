"""Turn the guides, which are text notebooks, into files for Jupyter."""

import re
from importlib.util import find_spec

_CELL = re.compile(
    r"^```\{code-cell\}[^\n]*\n(?P<options>(?::[^\n]*\n)*)\n*(?P<code>.*?)^```$", re.DOTALL | re.MULTILINE
)
_FRONT = re.compile(r"\A---\n.*?\n---\n", re.DOTALL)
_NEEDS = re.compile(r"^needs: (.+)$", re.MULTILINE)  # in the front matter: packages that the extra `docs` does not have
_ONLY_IN_BUILDS = "remove-cell"  # tag of a cell that neither the page nor the notebook shows
_KERNEL = {"kernelspec": {"name": "python3", "display_name": "Python 3"}, "language_info": {"name": "python"}}


def is_notebook(text: str) -> bool:
    """Return whether a page is a text notebook of MyST-NB."""
    return "file_format: mystnb" in text.partition("\n# ")[0]


def code_cells(text: str) -> list[str]:
    """Return the code of a text notebook's cells."""
    return [match["code"] for match in _CELL.finditer(text)]


def as_notebook(text: str) -> str:
    """Return a text notebook as the JSON of an `.ipynb` file, without outputs."""
    import nbformat  # of the extra `docs`

    text, cells, end = _FRONT.sub("", text), [], 0
    for match in _CELL.finditer(text):
        if prose := text[end : match.start()].strip():
            cells.append(nbformat.v4.new_markdown_cell(prose))
        if _ONLY_IN_BUILDS not in match["options"]:
            cells.append(nbformat.v4.new_code_cell(match["code"].strip()))
        end = match.end()
    if prose := text[end:].strip():
        cells.append(nbformat.v4.new_markdown_cell(prose))
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"  # the same file for the same text
    return nbformat.writes(nbformat.v4.new_notebook(cells=cells, metadata=_KERNEL))


def with_download(text: str, name: str) -> str:
    """Return a page with a link to its notebook below the title."""
    return re.sub(r"^(# .+)$", rf"\1\n\n{{download}}`Download as a notebook <{name}.ipynb>`", text, count=1, flags=re.M)


def missing_packages(text: str) -> list[str]:
    """Return the packages that a guide needs and this Python does not have."""
    front = _FRONT.match(text)
    needs = front and _NEEDS.search(front[0])
    return [name for name in needs[1].split(", ") if find_spec(name) is None] if needs else []


def not_executed(text: str, missing: list[str]) -> str:
    """Return a guide as a plain page with its code, and with a warning that says why there are no outputs."""
    shown = lambda cell: "" if _ONLY_IN_BUILDS in cell["options"] else f"```ipython3\n{cell['code']}```"  # noqa: E731
    text = _CELL.sub(shown, _FRONT.sub("", text))
    warning = f"This page was built without {', '.join(missing)}, so its cells have no outputs."
    return re.sub(r"^(# .+)$", rf"\1\n\n```{{warning}}\n{warning}\n```", text, count=1, flags=re.MULTILINE)
