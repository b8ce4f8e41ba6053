"""Map the repository's pages to the site's, and rewrite the links between them."""

import os
import re
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).parents[2]
# Code is matched first, so that links inside code stay. A link's text may contain inline code.
_LINK = re.compile(
    r"```.*?```|(?P<text>!?\[(?:`[^`\n]*`|[^\[\]`])*\])\((?!\w+:|#)(?P<target>[^)#\s]+)(?P<heading>#[^)]*)?\)|`[^`\n]*`",
    re.DOTALL,
)


def site_path(path: PurePosixPath) -> PurePosixPath:
    """Return the path on the site of a repository file: `docs/` is the root, other folders lie in `project/`."""
    moved = path.relative_to("docs") if path.parts[0] == "docs" else PurePosixPath("project", path)
    return moved.with_name("index.md") if path.name == "README.md" and path.parts[0] == "docs" else moved


def link_targets(page: Path) -> list[tuple[Path, str]]:
    """Return the files that a page links to inside the repository, each with its heading or an empty text."""
    found = [match for match in _LINK.finditer(page.read_text(encoding="utf-8")) if match["target"]]
    return [((page.parent / match["target"]).resolve(), (match["heading"] or "")[1:]) for match in found]


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub and MyST name them."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def rewrite_links(page: Path) -> str:
    """Return a page's text with links between repository files changed to links between the site's files.

    A link to a folder becomes its text, because the site has no page for a folder.
    """
    here = site_path(PurePosixPath(page.relative_to(ROOT).as_posix())).parent

    def rewrite(match):
        if not match["target"]:
            return match[0]
        target = (page.parent / match["target"]).resolve()
        if target.is_dir() and not (target / "README.md").exists():
            return match["text"][1:-1]
        target = target / "README.md" if target.is_dir() else target
        moved = site_path(PurePosixPath(target.relative_to(ROOT).as_posix()))
        return f"{match['text']}({os.path.relpath(moved, here)}{match['heading'] or ''})"

    return _LINK.sub(rewrite, page.read_text(encoding="utf-8"))
