"""README.md and docs/: tables are fresh, links work, and every name, option and example exists."""

import ast
import importlib
import inspect
import json
import re
import shlex

import pytest
from support import ROOT, needs_tensorflow

import keras_vit
from benchmarks import goals
from benchmarks.harness import verb as benchmark
from benchmarks.performance_page import TABLES, block, marked
from keras_vit import cli
from keras_vit.models.variants.describe import variants_table

README = (ROOT / "README.md").read_text()
DOCS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
TEXTS = {page.name if page.parent == ROOT else f"docs/{page.name}": page.read_text() for page in DOCS}
BLOCKS = [
    pytest.param(code, id=f"{name}-{number}")
    for name, text in {**TEXTS, "saved_models": (ROOT / "saved_models/README.md").read_text()}.items()
    for number, code in enumerate(re.findall(r"```python\n(.*?)```", text, re.DOTALL))
]
COMMANDS = sorted(
    {
        command.strip()
        for text in TEXTS.values()
        for lines in re.findall(r"```bash\n(.*?)```", text, re.DOTALL)
        for command in re.findall(r"(?:^|\| )(keras-vit .*)$", lines, re.MULTILINE)
    }
)
# Pages whose examples run without a file, a download or a large model.
COMPLETE = ("docs/recipes.md", "docs/evaluation.md", "docs/cost.md", "docs/analysis.md")


def test_the_table_of_variants_is_fresh():
    found = re.search(r"<!-- variants -->\n(.*?)\n<!-- /variants -->", TEXTS["docs/zoo.md"], re.DOTALL)
    assert found and found[1] == variants_table(), "run `keras-vit list --markdown` and paste it between the markers"


def shown_run():
    """The name of the run that docs/performance.md shows, and its JSON."""
    found = marked("benchmark").search(TEXTS["docs/performance.md"])
    assert found, "docs/performance.md has lost its two benchmark markers"
    name = re.search(r"benchmarks/results/(bench-[\d-]+)\.md", found[0])[1]
    return name, json.loads((ROOT / "benchmarks/results" / f"{name}.json").read_text(encoding="utf-8"))


def test_the_table_of_the_benchmark_is_that_of_its_file():
    name, result = shown_run()
    shown = marked("benchmark").search(TEXTS["docs/performance.md"])[0]
    assert shown == f"{block(result, name)}\n", "run `python -m benchmarks.performance_page`"


@pytest.mark.parametrize("name", TABLES)
def test_the_tables_of_calls_are_what_the_runs_give(name):
    found = marked(name).findall(TEXTS["docs/performance.md"])
    assert found == [f"{TABLES[name](goals.read(ROOT / 'benchmarks/results'))}\n"], (
        "run `python -m benchmarks.performance_page`"
    )


def test_every_public_name_is_documented_and_the_readme_opens_with_the_two_commands():
    public = [name for name in vars(keras_vit) if not name.startswith("_")]
    listed = re.findall(r"^from .* as (\w+)$", (ROOT / "keras_vit/public.py").read_text(), re.MULTILINE)
    for name in listed:
        assert name in public and any(re.search(rf"\b{name}\b", text) for text in TEXTS.values()), name
    commands = re.findall(r"```bash\n(.*?)```", README, re.DOTALL)[0].split("\n")
    assert [line.split("#")[0].strip() for line in commands[:2]] == ["make demo", "make test"]


def test_the_folder_of_the_clone_does_not_hide_the_package():
    for page in ("README.md", "docs/install.md"):
        (folder,) = re.findall(r"git clone URL (\S+)", TEXTS[page])
        assert folder != "keras_vit"  # Python beside the folder would import it as a package without files


def test_pages_are_short_and_the_index_lists_them_all():
    written = [re.sub(r"<!-- variants -->.*<!-- /variants -->", "", text, flags=re.DOTALL) for text in TEXTS.values()]
    assert all(len(text.splitlines()) <= 200 for text in written)
    index = set(re.findall(r"^\| \[.*?\]\((.*?)\)", TEXTS["docs/README.md"], re.MULTILINE))
    assert index == {name.removeprefix("docs/") for name in TEXTS} - {"README.md"}


def linked(page):
    text = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(), flags=re.DOTALL)
    return re.findall(r"\]\((?!https?://)([^)]+)\)", text)


FOLDERS = ("benchmarks", "docs")
PAGES = [*ROOT.glob("*.md"), *(page for name in FOLDERS for page in (ROOT / name).rglob("*.md"))]
PAGES += (ROOT / "saved_models").glob("*.md")


@pytest.mark.parametrize("page", [*filter(linked, PAGES)], ids=lambda page: str(page.relative_to(ROOT)))
def test_links_point_at_files_and_headings_that_exist(page):
    for target in linked(page):
        file, _, heading = target.partition("#")
        place = page.parent / file if file else page
        assert place.exists(), target
        if heading:
            headings = re.findall(r"^#+ (.+)$", place.read_text(), re.MULTILINE)
            assert heading in [re.sub(r"[^\w -]", "", line.lower()).replace(" ", "-") for line in headings], target


def imported(tree):
    """Local name -> object of the imports from keras_vit; raises for what cannot be imported."""
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {name.name: importlib.import_module(name.name) for name in node.names if "keras_vit" in name.name}
        elif isinstance(node, ast.ImportFrom) and node.module.startswith("keras_vit"):
            for name in node.names:
                try:
                    found[name.asname or name.name] = getattr(importlib.import_module(node.module), name.name)
                except AttributeError:
                    found[name.asname or name.name] = importlib.import_module(f"{node.module}.{name.name}")
    return found


def resolved(node, names):
    """The object that an expression of names and attributes means, or None for a variable of the example."""
    if isinstance(node, ast.Name):
        return names.get(node.id)
    if isinstance(node, ast.Attribute) and (owner := resolved(node.value, names)) is not None:
        return getattr(owner, node.attr)
    return None


@needs_tensorflow
@pytest.mark.parametrize("code", BLOCKS)
def test_examples_use_names_and_arguments_that_exist(code):
    tree = ast.parse(code)
    names = imported(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            resolved(node, names)
        if isinstance(node, ast.Call) and (function := resolved(node.func, names)) is not None:
            keywords = {keyword.arg: None for keyword in node.keywords}
            if None not in keywords:  # which stands for **options
                inspect.signature(function).bind(*node.args, **keywords)


@needs_tensorflow
@pytest.mark.parametrize("page", COMPLETE)
def test_examples_that_need_no_file_run(page, tmp_path, monkeypatch):
    pytest.importorskip("sklearn", reason="extra `analysis` is not installed")
    monkeypatch.chdir(tmp_path)
    codes = re.findall(r"```python\n(.*?)```", TEXTS[page], re.DOTALL)
    assert codes
    for code in codes:
        exec(code, {})


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_parse(command):
    verb, *words = shlex.split(command, comments=True)[1:]
    if verb == "bench":  # a program of its own
        benchmark.parser().parse_args(words)
    else:
        words = words[: words.index(">")] if ">" in words else words[: words.index("|")] if "|" in words else words
        assert cli.command_parser().parse_args([verb, *words]).verb == verb


@pytest.mark.parametrize("package", ["analysis", "cost", "evaluate"])
def test_tables_of_functions_name_functions_that_exist(package):
    module = importlib.import_module(f"keras_vit.{package}")
    page = TEXTS[{"evaluate": "docs/evaluation.md"}.get(package, f"docs/{package}.md")]
    rows = re.search(
        rf"^\| function of `keras_vit\.{package}` .*?\n\|[-|]+\n(.*?)(?:\n\n|\Z)", page, re.DOTALL | re.MULTILINE
    )
    cells = [line.split(" | ")[0] for line in rows[1].splitlines()]
    names = [name for cell in cells for name in re.findall(r"`(\w+)[`(]", cell)]
    assert len(names) >= 4 and all(callable(getattr(module, name)) for name in names)
