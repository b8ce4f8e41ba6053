"""The site in a browser, from its files and without a server: sorting, filtering, search and dark mode.

The site has one page of the zoo, built with the project's settings. `KERAS_VIT_SITE` names the folder of a whole site
(`make docs` writes build/docs/html), which is then tested instead.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from chromium import browser
from support import ROOT

from codegen.site.zoo import ZooLine, as_html

SIZES = [pytest.param(1280, 900, id="desktop"), pytest.param(390, 844, id="phone")]
LINES = [
    ZooLine("ViT_S16", "vit", "", 1000, 224, 22_050_664, 4_600_000_000, 88.2),
    ZooLine(
        "ViT_Ti16", "vit", "vit_tiny_patch16_224.augreg", 1000, 224, 5_717_416, 1_250_000_000, 22.9, accuracy="75.5"
    ),
    ZooLine("ViT_B16", "vit", "", 1000, 224, 86_567_656, 17_500_000_000, 346.3),
]
INDEX = "# Site\n\nThe word zebrafinch is here.\n\n```{toctree}\n\nzoo/all\n```\n"
NUMBERS = "[...document.querySelectorAll('table.sortable tbody tr')].map(row => Number(row.cells[4].dataset.value))"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    if whole := os.environ.get("KERAS_VIT_SITE"):
        return Path(whole)
    pytest.importorskip("myst_nb", reason="the extra `docs` is not installed")
    folder = tmp_path_factory.mktemp("site")
    source = folder / "build/docs/source"
    (source / "zoo").mkdir(parents=True)
    shutil.copytree(ROOT / "docs/_static", source / "_static")
    shutil.copy(ROOT / "docs/conf.py", source)
    (source / "index.md").write_text(INDEX)
    (source / "zoo/all.md").write_text(f"# All models\n\n```{{raw}} html\n{as_html(LINES)}\n```\n")
    command = [sys.executable, "-m", "sphinx", "--quiet", str(source), str(folder / "html")]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "3"}
    subprocess.run(command, check=True, env=environment)
    return folder / "html"


@pytest.fixture(scope="module")
def page(site, tmp_path_factory):
    """The page of a browser. In the end, nothing was requested that does not lie in the site's folder."""
    with browser(tmp_path_factory.mktemp("profile")) as found:
        yield found
        urls = [event["request"]["url"] for event in found.of("Network.requestWillBeSent")]
        assert urls and all(url.startswith((site.resolve().as_uri(), "data:", "about:")) for url in urls), urls
        # Sphinx's search fetches a summary of each result, which a browser refuses for files; the results are shown.
        errors = [event["exceptionDetails"] for event in found.of("Runtime.exceptionThrown")]
        assert all("Failed to fetch" in str(error) for error in errors), errors


def fits(page) -> bool:
    return page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


@pytest.mark.parametrize(("width", "height"), SIZES)
def test_a_column_sorts_and_the_filter_hides_lines(site, page, width, height):
    page.open((site / "zoo/all.html").resolve().as_uri(), width, height)
    assert fits(page)
    before = page.evaluate(NUMBERS)
    button = "document.querySelectorAll('table.sortable th button')[4]"
    page.evaluate(f"{button}.click()")
    assert page.evaluate(NUMBERS) == sorted(before, reverse=True) != before
    page.evaluate(f"{button}.click()")
    assert page.evaluate(NUMBERS) == sorted(before)
    page.evaluate(
        "const f = document.querySelector('input.filter'); f.value = 'ti16 augreg'; f.dispatchEvent(new Event('input'))"
    )
    shown = page.evaluate(
        "[...document.querySelectorAll('table.sortable tbody tr')].filter(row => !row.hidden).map(row => row.innerText)"
    )
    assert 0 < len(shown) < len(before) and all("Ti16" in text for text in shown)


@pytest.mark.parametrize(("width", "height"), SIZES)
def test_search_finds_a_word_without_a_server(site, page, width, height):
    word = "rematerialised" if os.environ.get("KERAS_VIT_SITE") else "zebrafinch"
    page.open(f"{(site / 'search.html').resolve().as_uri()}?q={word}", width, height)
    page.until("document.querySelector('#search-results ul.search li')")
    assert fits(page)
    assert page.evaluate("document.querySelector('#search-results ul.search li a').href").endswith(".html")


@pytest.mark.parametrize(("width", "height"), SIZES)
def test_dark_mode_follows_the_system_and_the_button(site, page, width, height):
    shade = "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).slice(0, 3).reduce((a, b) => a + +b, 0)"
    address = (site / "index.html").resolve().as_uri()
    page.open(address, width, height, dark=False)
    page.evaluate("localStorage.clear()")
    page.open(address, width, height, dark=False)
    assert fits(page) and page.evaluate(shade) > 600
    page.open(address, width, height, dark=True)
    assert page.evaluate(shade) < 150
    for _ in range(3):  # automatic, and both modes
        page.evaluate("document.querySelector('.theme-toggle').click()")
        chosen = page.evaluate("document.body.dataset.theme")
        assert (page.evaluate(shade) > 600) == (chosen == "light"), chosen
    page.evaluate("localStorage.clear()")
