"""Every figure of README.md and docs/ has a source. Guides, decisions and generated pages have their own tests."""

import dataclasses
import re

import pytest
from docs.claims import CLAIMS
from docs.figures import figures, one_line, unaccounted
from support import ROOT

PAGES = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "docs/reference").glob("*.md")]
PAGES += [ROOT / "saved_models/README.md"]
NAMES = sorted(page.relative_to(ROOT).as_posix() for page in PAGES)


@pytest.mark.parametrize("name", NAMES)
def test_every_figure_of_a_page_has_its_source(name):
    claims = [claim for claim in CLAIMS if claim.page == name]
    assert unaccounted((ROOT / name).read_text(encoding="utf-8"), claims) == []


def test_every_claim_is_of_a_page_and_gives_a_reason():
    assert {claim.page for claim in CLAIMS} <= set(NAMES)
    assert all(claim.source for claim in CLAIMS)


def test_a_changed_figure_is_found_and_so_is_a_changed_source():
    claims = [claim for claim in CLAIMS if claim.page == "README.md"]
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "88.6 %" in text
    wrong = unaccounted(text.replace("88.6 %", "88.7 %"), claims)
    assert len(wrong) == 4 and wrong[0].startswith("expected 'hybrid, 12 epochs") and "88.7" in "".join(wrong[1:])
    (place,) = [number for number, claim in enumerate(claims) if claim.words.startswith("Python")]
    claims[place] = dataclasses.replace(claims[place], source=lambda: ("3.10",))
    assert unaccounted(text, claims)[0] == "expected 'Python 3.10 or newer'"


def test_names_code_links_and_generated_text_are_no_figures():
    text = """# ViT-B/16 in float32
It is 1.5 times as fast (batch
8), to 2e-5, `3`, [four](page-4.md), Table 5, 12-bit, arXiv 2010.11929.
```
x = 6
```
<!-- block -->
| 7 |
<!-- /block -->
"""
    assert [figure for _, figure in figures(text)] == ["1.5", "8", "2e-5"]
    line = one_line(text)
    assert all(line[place:].startswith(figure) for place, figure in figures(text))


@pytest.mark.parametrize("name", NAMES)
def test_files_and_tests_that_a_page_names_exist(name):
    text = re.sub(r"```.*?```", "", (ROOT / name).read_text(encoding="utf-8"), flags=re.DOTALL)
    for path in re.findall(r"`((?:tests|benchmarks|codegen|docker|docs|keras_vit)/[\w./]*)`", text):
        assert (ROOT / path).exists(), path
    for test, file in re.findall(r"\[`(test_\w+)`\]\(\.\./(\S+?\.py)\)", text):
        assert f"def {test}(" in (ROOT / file).read_text(encoding="utf-8"), test


def test_every_comparison_of_the_quality_page_names_its_test():
    text = (ROOT / "docs/quality.md").read_text(encoding="utf-8")
    rows = re.search(r"\| compared \|.*?\n\|[-|]+\n(.*?)\n\n", text, re.DOTALL)[1].splitlines()
    assert len(rows) >= 10 and all(re.search(r"\[`test_\w+`\]\(\.\./tests/\S+\) \|$", row) for row in rows)
