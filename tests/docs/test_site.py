"""The documentation site's sources, without building it: links, the reference, the zoo's table, and the guides."""

import argparse
import ast
import csv
import importlib
import inspect
import json
import re
from pathlib import PurePosixPath

import pytest
from contract.cases import MODELS
from export.test_gate import KINDS
from support import ROOT

from codegen.site import checkpoints, commands, links, notebooks, pages, zoo
from keras_vit.export.formats import FORMATS
from keras_vit.models.variants.lookup import FAMILIES, ROWS
from keras_vit.weights.released import RELEASED

DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
GUIDES = [page for page in sorted((DOCS / "guides").glob("*.md")) if page.name != "README.md"]
REFERENCE = sorted((DOCS / "reference").glob("*.md"))
MODULES = ("layers", "train.recipe", "analysis", "evaluate", "export", "cost")
GENERATED = {"zoo/all", "zoo/timm", "reference/builders", "reference/recipes"}
GENERATED |= {f"zoo/{family.__name__.rpartition('.')[2]}" for family in FAMILIES}
GENERATED |= {"project/index"}


def public_names(module: str) -> set[str]:
    """Names that a package's `__init__` lists: its `__all__`, else its `import ... as` lines."""
    loaded = importlib.import_module(module)
    if hasattr(loaded, "__all__"):
        return set(loaded.__all__)
    file = "keras_vit/public.py" if module == "keras_vit" else f"{module.replace('.', '/')}/__init__.py"
    tree = ast.parse((ROOT / file).read_text())
    aliases = [name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for name in node.names]
    return {name.asname for name in aliases if name.asname} - {"layers"}


def documented() -> list[str]:
    """Full names that the reference's directives document, the generated page of the builders included."""
    texts = [page.read_text(encoding="utf-8") for page in REFERENCE] + [pages.builders_page()]
    return [name for text in texts for name in re.findall(r"^\.\. (?:auto|py:)\w+:: (keras_vit[\w.]+)", text, re.M)]


@pytest.mark.parametrize("module", ["keras_vit", *(f"keras_vit.{name}" for name in MODULES)])
def test_the_reference_has_every_public_name_with_a_docstring(module):
    found = set(documented())
    if module == "keras_vit.train.recipe":
        rows = ("Variant", "BiTVariant", "EfficientNetVariant", "ResNetStem", "ConvStem", "Rope")
        found |= {f"{module}.{name}" for name in rows}  # documented in keras_vit
    names = public_names(module)
    assert len(names) >= 4
    assert {f"{module}.{name}" for name in names} <= found
    assert all(inspect.getdoc(getattr(importlib.import_module(module), name)) for name in names)


def test_the_reference_names_only_what_exists_and_each_name_once():
    found = documented()
    assert len(found) == len(set(found))
    for name in found:
        module, _, attribute = name.rpartition(".")
        assert hasattr(importlib.import_module(module), attribute), name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_point_at_files_and_headings_that_exist(page):
    for target, heading in links.link_targets(page):
        assert target.exists(), target
        if heading:
            assert heading in links.anchors(target), f"{target}#{heading}"


def test_a_broken_link_and_a_broken_heading_are_found(tmp_path):
    (tmp_path / "a.md").write_text(
        "# One title\n[x](absent.md) `[y](code.md)` [z](a.md#one-title)\n```\n[w](fence.md)\n```\n"
    )
    found = links.link_targets(tmp_path / "a.md")
    assert found == [(tmp_path / "absent.md", ""), (tmp_path / "a.md", "one-title")]
    assert links.anchors(tmp_path / "a.md") == {"one-title"}


def test_every_page_is_in_the_navigation_once():
    listed = []
    for page in PAGES:
        here = links.site_path(PurePosixPath(page.relative_to(ROOT).as_posix())).parent
        for block in re.findall(r"```\{toctree\}\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL):
            entries = [line for line in block.splitlines() if line and not line.startswith(":")]
            listed += [(here / entry).as_posix() for entry in entries]
    assert len(listed) == len(set(listed))
    sites = {links.site_path(PurePosixPath(page.relative_to(ROOT).as_posix())).with_suffix("") for page in PAGES}
    assert set(listed) == ({site.as_posix() for site in sites} | GENERATED) - {"index"}


def test_links_are_rewritten_to_the_sites_places():
    text = links.rewrite_links(DOCS / "README.md")
    assert "](project/ARCHITECTURE.md)" in text and "](decisions/index.md)" in text and "](install.md)" in text
    assert "](../" not in text
    assert "`variants/`" in links.rewrite_links(DOCS / "zoo.md")  # a folder has no page
    assert "variants/)" not in links.rewrite_links(DOCS / "zoo.md")


@pytest.mark.broad
def test_the_zoos_csv_is_what_the_rows_give():
    committed = (DOCS / "results/zoo.csv").read_text(encoding="utf-8")
    table = zoo.lines()
    assert committed == zoo.as_csv(table), "run `python -m codegen.site --csv`"
    read = list(csv.DictReader(committed.splitlines()))
    assert {line["model"] for line in read} == {row.name for row in ROWS}
    assert sorted(line["tag"] for line in read if line["tag"]) == sorted(released.tag for released in RELEASED)
    counts = {row.name: row.parameters.classes_1000 for row in ROWS}
    assert {line["model"]: int(line["parameters"]) for line in read if not line["tag"]} == counts
    html = zoo.as_html(table)
    assert html.count("<tr>") == len(table) + 1 and all(row.tag in html for row in RELEASED)


def test_the_csv_of_timms_checkpoints_is_what_the_check_of_files_gives():
    committed = (DOCS / "results/checkpoints.csv").read_text(encoding="utf-8")
    table = checkpoints.lines()
    assert committed == checkpoints.as_csv(table), "run `python -m codegen.site --csv`"
    assert sum(line.tags for line in table) == 490
    page = checkpoints.pages()["zoo/timm.md"]
    assert page.count("<tr>") == len(table) + 1 and all(f"<code>{line.example}</code>" in page for line in table)


@pytest.mark.broad
def test_the_zoo_has_a_page_per_family_that_links_each_builder():
    found = zoo.pages()
    assert set(found) == {f"{name}.md" for name in GENERATED if name.startswith("zoo/")} - {"zoo/timm.md"}
    whole = "".join(text for name, text in found.items() if name != "zoo/all.md")
    assert all(f"keras_vit.{row.name}`" in whole for row in ROWS)


def test_each_family_names_exports_that_the_tests_make():
    cases = {case.name: case for case in MODELS}
    exported = {kind.values[0].name for kind in KINDS}  # what test_every_format_of_every_kind_passes runs
    assert set(zoo.EXPORTED) == set(zoo.TITLES)
    assert all(set(names) <= exported for names in zoo.EXPORTED.values())
    assert cases["registers"].arguments["variant"].layer_scale and cases["clip"].arguments["variant"].pre_norm


@pytest.mark.broad
def test_the_page_of_a_family_has_its_exports_and_sources():
    found = zoo.pages()
    for family, names in zoo.EXPORTED.items():
        assert all(f"`{name}`" in found[f"zoo/{family}.md"] for name in (*names, *FORMATS))
    sources = {released.source for released in RELEASED if released.source and released.model == "ViT_B16"}
    assert sources and all(source in found["zoo/vit.md"] for source in sources)


def test_recipe_files_are_on_their_page_with_their_fields():
    page = pages.recipes_page()
    for path in (ROOT / "recipes").glob("*.py"):
        section = page.split(f"## {path.name}\n")[1].split("\n## ")[0]
        assert all(f"**{name}.**" in section for name in ("Command", "Hardware", "Time", "Figure", "Source")), path
        assert f"keras-vit train recipes/{path.name}" in section


def test_the_page_of_commands_shows_every_verb_with_plain_help_texts():
    page = (DOCS / "reference/commands.md").read_text()
    assert ":module: codegen.site.commands" in page and ":func: parser" in page
    (verbs,) = [a for a in commands.parser()._actions if isinstance(a, argparse._SubParsersAction)]
    assert {"train", "predict", "serve", "list"} <= set(verbs.choices)
    assert all(re.search(r"``keras-vit .*``$", sub.epilog) for sub in verbs.choices.values())


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.stem)
def test_guides_are_notebooks_of_code_that_parses(page):
    text = page.read_text(encoding="utf-8")
    cells = notebooks.code_cells(text)
    assert notebooks.is_notebook(text) and len(cells) >= 4
    assert len(cells) == text.count("```{code-cell}")
    draws = "analysis.plot_" in text
    assert not draws or "%matplotlib inline" in cells[0], "without it the site shows a figure's name instead"
    for code in cells:
        ast.parse(re.sub(r"\A%%.*\n|^(?:\w+ = )?[!%].*$", "", code, flags=re.MULTILINE))  # without IPython's own


def test_a_guide_becomes_a_notebook_with_all_its_text():
    pytest.importorskip("nbformat", reason="the extra `docs` is not installed")
    page = GUIDES[0].read_text(encoding="utf-8")
    cells = json.loads(notebooks.as_notebook(page))["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    assert code == [cell.strip() for cell in notebooks.code_cells(page)]
    prose = "".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    assert prose.startswith("# ") and "code-cell" not in prose
    assert "{download}" in notebooks.with_download(page, "x") and "<x.ipynb>" in notebooks.with_download(page, "x")


def test_a_cell_of_the_build_alone_is_in_no_notebook():
    pytest.importorskip("nbformat", reason="the extra `docs` is not installed")
    cell = "```{code-cell} ipython3\n"
    page = f"# T\n\n{cell}:tags: [remove-cell]\nhidden()\n```\n\n{cell}shown()\n```\n"
    cells = json.loads(notebooks.as_notebook(page))["cells"]
    assert ["".join(cell["source"]) for cell in cells] == ["# T", "shown()"]


def test_a_guide_whose_packages_are_absent_says_so_instead_of_running():
    page = "---\nfile_format: mystnb\nneeds: json, no_such_package\n---\n\n# T\n\n```{code-cell} ipython3\nf()\n```\n"
    assert notebooks.missing_packages(page) == ["no_such_package"]
    assert notebooks.missing_packages(page.replace(", no_such_package", "")) == []
    assert notebooks.missing_packages("# needs: no_such_package\n") == []
    text = notebooks.not_executed(page, ["no_such_package"])
    assert not notebooks.is_notebook(text) and not notebooks.code_cells(text)
    assert text.strip().startswith("# T\n\n```{warning}\nThis page was built without no_such_package")
    assert text.endswith("\n```ipython3\nf()\n```\n")


def test_every_guide_is_in_the_table_of_guides():
    table = re.findall(r"^\| \[.*?\]\((.*?)\)", (DOCS / "guides/README.md").read_text(), re.MULTILINE)
    assert sorted(table) == [page.name for page in GUIDES]


def test_no_file_of_the_site_loads_anything_from_outside():
    for path in [*(DOCS / "_static").iterdir(), DOCS / "conf.py"]:
        assert not re.search(r"https?://|@import", path.read_text(encoding="utf-8")), path
