"""Find the figures of a page, and the claims that account for them."""

import re
from collections.abc import Callable
from dataclasses import dataclass

# Code is run or parsed by other tests. Text between markers is generated, and compared with its generator.
_HIDDEN = re.compile(
    r"\A---\n.*?\n---\n|```.*?```|`[^`\n]*`|<!-- (\w+) -->.*?<!-- /\1 -->|\]\([^)\s]*\)|https?://\S+", re.DOTALL
)
# A number that is a word of its own: not a part of a name, such as ViT-B/16, float32 or top-1.
_FIGURE = re.compile(r"(?<![\w.,/+-])[-+]?\d[\d,]*(?:\.\d+)*(?:e-?\d+)?(?![\w/]|[.,-]\d|-[A-Za-z])")
# The name of a part of a paper, which is no figure.
_PART = re.compile(r"\b(?:[Tt]ables?|[Ff]igure|section|arXiv) \d[\d.]*(?:(?:, | and | or )\d[\d.]*)*(?<!\.)")


@dataclass(frozen=True)
class Claim:
    """Words of a page whose figures are accounted for.

    Args:
        page: the page, from the root of the repository.
        words: the words, with `{}` for each value of `source`.
        source: a function that returns the values, or the reason why the figures are constants.
    """

    page: str
    words: str
    source: Callable[[], tuple] | str

    def text(self) -> str:
        """Return the words with the values of their source."""
        return self.words if isinstance(self.source, str) else self.words.format(*self.source())


def one_line(text: str) -> str:
    """Return a text with single spaces, so that words are found across the ends of lines."""
    return " ".join(text.split())


def figures(text: str) -> list[tuple[int, str]]:
    """Return the figures of `one_line(text)` outside code, links and generated text, each with its place."""

    def dots(match):
        return re.sub(r"\S", "·", match[0])

    line = one_line(_PART.sub(dots, _HIDDEN.sub(dots, text).replace("\n", " ")))
    return [(match.start(), match[0].rstrip(",")) for match in _FIGURE.finditer(line)]


def unaccounted(text: str, claims: list[Claim]) -> list[str]:
    """Return what is wrong with a page: claims that it does not make, and figures that no claim covers."""
    line, covered, found = one_line(text), set(), []
    for claim in claims:
        words = claim.text()
        places = [match.start() for match in re.finditer(re.escape(words), line)]
        if not places:
            found.append(f"expected {words!r}")
        covered |= {place + offset for place in places for offset in range(len(words))}
    for place, figure in figures(text):
        if place not in covered:
            found.append(f"no source for {figure} in {line[max(place - 40, 0) : place + 40]!r}")
    return found
