"""The README says what is true."""

import json
import re

import pytest
from support import ROOT

import keras_vit
from benchmarks.readme import MARKED, block
from keras_vit.models.table import variants_table

README = (ROOT / "README.md").read_text()


def test_the_table_of_variants_is_fresh():
    found = re.search(r"<!-- variants -->\n(.*?)\n<!-- /variants -->", README, re.DOTALL)
    assert found and found[1] == variants_table(), "run `keras-vit list --markdown` and paste it between the markers"


def test_the_table_of_the_benchmark_is_that_of_its_file():
    found = MARKED.search(README)
    assert found, "the README has lost its two benchmark markers"
    named = re.search(r"benchmarks/results/(bench-[\d-]+)\.md", found[0])
    if named is None:
        pytest.skip("the README shows no run of `keras-vit bench` yet")
    result = json.loads((ROOT / "benchmarks/results" / f"{named[1]}.json").read_text(encoding="utf-8"))
    assert found[0] == block(result, named[1]), "run `python benchmarks/readme.py`"


def test_it_names_every_public_name_and_opens_with_the_two_commands():
    public = [name for name in vars(keras_vit) if not name.startswith("_")]
    listed = re.findall(r"^from .* as (\w+)$", (ROOT / "keras_vit/public.py").read_text(), re.MULTILINE)
    for name in listed:
        assert name in public and f"{name}" in README, name
    commands = re.findall(r"```bash\n(.*?)```", README, re.DOTALL)[0].split("\n")
    assert [line.split("#")[0].strip() for line in commands[:2]] == ["make demo", "make test"]


def linked(page):
    text = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(), flags=re.DOTALL)
    return re.findall(r"\]\((?!https?://)([^)]+)\)", text)


PAGES = [*ROOT.glob("*.md"), *(ROOT / "benchmarks").rglob("*.md"), *(ROOT / "saved_models").glob("*.md")]


@pytest.mark.parametrize("page", [*filter(linked, PAGES)], ids=lambda page: str(page.relative_to(ROOT)))
def test_links_point_at_files_and_headings_that_exist(page):
    for target in linked(page):
        file, _, heading = target.partition("#")
        place = page.parent / file if file else page
        assert place.exists(), target
        if heading:
            headings = re.findall(r"^#+ (.+)$", place.read_text(), re.MULTILINE)
            assert heading in [re.sub(r"[^\w -]", "", line.lower()).replace(" ", "-") for line in headings], target
