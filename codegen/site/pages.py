"""Pages of the reference that are generated: recipes and builders."""

import ast
import inspect
import re
import textwrap

import keras_vit
from codegen.site.links import ROOT
from codegen.site.zoo import TITLES
from keras_vit.models.variants.lookup import FAMILIES

_FIELD = re.compile(r"^(Command|Hardware|Time|Figure|Source):\s+", re.MULTILINE)


def recipes_page() -> str:
    """Return the page of the recipes, from the docstrings of the files in `recipes/`."""
    files = sorted((ROOT / "recipes").glob("*.py"))
    return "\n\n".join(["# Recipe files", *(_recipe(path) for path in files)]) + "\n"


def _recipe(path) -> str:
    first, *fields = _FIELD.split(ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))))
    parts = [f"## {path.name}", first.strip()]
    for name, text in zip(fields[::2], fields[1::2], strict=True):
        plain = textwrap.dedent(" " * 10 + text).strip()
        shown = f"```text\n{plain}\n```" if name == "Command" else " ".join(plain.split())
        parts.append(f"**{name}.**\n\n{shown}" if name == "Command" else f"**{name}.** {_escape(shown)}")
    code = f"```{{literalinclude}} ../project/recipes/{path.name}\n:language: python\n:start-at: from keras_vit\n```"
    return "\n\n".join([*parts, code])


def _escape(text: str) -> str:
    return re.sub(r"([*_\[\]<])", r"\\\1", text)


def builders_page() -> str:
    """Return the page of the builders: the arguments once per kind of model, then one line per builder."""
    parts = ["# Builders", "All builders of a kind take the same arguments. The first of a kind shows them."]
    shown = set()
    for family in FAMILIES:
        parts.append(f"## {TITLES[family.__name__.rpartition('.')[2]]}")
        for row in family.ROWS:
            kind = str(inspect.signature(getattr(keras_vit, row.name)))
            parts.append(_builder(row.name, kind not in shown))
            shown.add(kind)
    return "\n\n".join(parts) + "\n"


def _builder(name: str, whole: bool) -> str:
    if whole:
        return f"```{{eval-rst}}\n.. autofunction:: keras_vit.{name}\n```"
    summary = " ".join(inspect.getdoc(getattr(keras_vit, name)).split("\n\nArgs:")[0].split())
    return f"```{{eval-rst}}\n.. py:function:: keras_vit.{name}(...)\n\n   {summary}\n```"


def generated_pages() -> dict[str, str]:
    """Return the generated pages of the reference: name on the site -> Markdown."""
    return {"reference/recipes.md": recipes_page(), "reference/builders.md": builders_page()}
