"""Write the sources that Sphinx builds: `python -m codegen.site build/docs/source`.

`python -m codegen.site --csv` writes `docs/results/zoo.csv` and `docs/results/checkpoints.csv` instead.
"""

import argparse
import shutil
from pathlib import Path, PurePosixPath

from codegen.site import checkpoints
from codegen.site.links import ROOT, link_targets, rewrite_links, site_path
from codegen.site.notebooks import as_notebook, is_notebook, missing_packages, not_executed, with_download
from codegen.site.pages import generated_pages
from codegen.site.zoo import as_csv, lines, pages

ALWAYS = ("ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "README.md")
RESULTS = ROOT / "docs/results"


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("output", nargs="?", type=Path, help="folder of the sources, replaced")
    parser.add_argument("--csv", action="store_true", help="write the tables in docs/results")
    options = parser.parse_args()
    if options.csv:
        (RESULTS / "zoo.csv").write_text(as_csv(lines()), encoding="utf-8")
        (RESULTS / "checkpoints.csv").write_text(checkpoints.as_csv(checkpoints.lines()), encoding="utf-8")
    if options.output:
        write_sources(options.output)


def write_sources(output: Path) -> None:
    """Write the pages of the repository and the generated pages into an empty folder."""
    shutil.rmtree(output, ignore_errors=True)
    written = set()
    for file in site_files():
        path = site_path(PurePosixPath(file.relative_to(ROOT).as_posix()))
        target = output / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if file.suffix != ".md":
            shutil.copyfile(file, target)
            continue
        text = rewrite_links(file)
        if is_notebook(text) and path.parts[0] == "guides":  # other notebooks read the clone's files
            target.with_suffix(".ipynb").write_text(as_notebook(text), encoding="utf-8")
            if missing := missing_packages(text):
                print(f"{path} is built without outputs: it needs {', '.join(missing)}.")
                text = not_executed(text, missing)
            text = with_download(text, path.stem)
        target.write_text(text, encoding="utf-8")
        written.add(path.as_posix())
    for name, text in {**generated_pages(), **pages(), **checkpoints.pages()}.items():
        (output / name).parent.mkdir(parents=True, exist_ok=True)
        (output / name).write_text(text, encoding="utf-8")
    others = sorted(name for name in written if name.startswith("project/"))
    (output / "project/index.md").write_text(_project_page(others), encoding="utf-8")


def site_files() -> list[Path]:
    """Return the files of `docs/`, and the files outside that its pages link to, directly or through other pages."""
    found = [path for path in (ROOT / "docs").rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    found += [ROOT / name for name in ALWAYS] + sorted((ROOT / "recipes").glob("*.py"))
    for file in found:  # the list grows
        for target, _ in link_targets(file) if file.suffix == ".md" else ():
            target = target / "README.md" if (target / "README.md").is_file() else target
            if target.is_file() and target not in found:
                found.append(target)
    return found


def _project_page(names: list[str]) -> str:
    entries = "\n".join(name.removeprefix("project/").removesuffix(".md") for name in names)
    return f"# Project\n\nPages for developers, and the benchmarks.\n\n```{{toctree}}\n:maxdepth: 1\n\n{entries}\n```\n"


if __name__ == "__main__":
    main()
