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
    listed = re.findall(r"^from .* as (\w+)$", (ROOT / "keras_vit/__init__.py").read_text(), re.MULTILINE)
    for name in listed:
        assert name in public and f"{name}" in README, name
    commands = re.findall(r"```bash\n(.*?)```", README, re.DOTALL)[0].split("\n")
    assert [line.split("#")[0].strip() for line in commands[:2]] == ["make demo", "make test"]


def test_links_point_at_files_that_exist():
    for target in re.findall(r"\]\((?!https?://|#)([^)]+)\)", README):
        assert (ROOT / target).exists(), target
