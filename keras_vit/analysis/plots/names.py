"""Show names in pictures: shorten long ones, and find fonts for all scripts."""

import functools
import unicodedata
from collections.abc import Sequence

BASE_FONT = "DejaVu Sans"  # Matplotlib's own
PLACEHOLDER = "□"  # drawn for a character that no font has
# Fonts with many scripts, tried before the others: other fonts can have odd shapes of common characters.
PREFERRED = ("Noto Sans", "Source Han Sans", "WenQuanYi", "Droid Sans", "PingFang", "Hiragino", "Microsoft YaHei",
             "Yu Gothic", "Malgun", "Arial Unicode")  # fmt: skip


def shortened(text, length: int) -> str:
    """Replace the middle of a text by "…" so that it is at most `length` letters wide.

    Wide characters, such as Chinese ones, count as two letters.
    """
    text = str(text)
    if width(text) <= length:
        return text
    start, end = _prefix(text, length // 2), _prefix(text[::-1], length - 1 - length // 2)[::-1]
    return f"{start.rstrip(' ,')}…{end.lstrip(' ,')}"


def width(text: str) -> int:
    """Return the width of a text in letters. Wide characters, such as Chinese ones, count as two."""
    return sum(_letters(character) for character in text)


def _letters(character):
    return 0 if unicodedata.combining(character) else 1 + (unicodedata.east_asian_width(character) in "WF")


def _prefix(text, length):
    """Return the longest beginning of a text that is at most `length` letters wide."""
    for end, character in enumerate(text):
        length -= _letters(character)
        if length < 0:
            return text[:end]
    return text


def drawable(names: Sequence[str], kind: str = "class") -> list[str]:
    """Return names for a picture: a name that no font can draw becomes `kind` and its number, such as "class 3"."""
    return [f"{kind} {i}" if fonts_for(str(name))[1] else str(name) for i, name in enumerate(names)]


def set_fonts(figure) -> None:
    """Give each text of a figure the fonts that have its characters, and replace characters that no font has."""
    from matplotlib.text import Text

    for text in figure.findobj(Text):
        families, missing = fonts_for(text.get_text())
        if missing:
            text.set_text("".join(PLACEHOLDER if c in missing else c for c in text.get_text()))
        if len(families) > 1:
            text.set_fontfamily(list(families))
            text.set_fontweight("normal")  # many of these fonts have no bold face, which Matplotlib warns about


def fonts_for(text: str) -> tuple[tuple[str, ...], frozenset[str]]:
    """Return the font families that draw a text together, and the characters that no font on this machine has."""
    return _fonts_for(frozenset(c for c in text if ord(c) > 127 and c.isprintable()), _installed())


@functools.cache
def _fonts_for(characters, installed):
    missing = characters - _glyphs(_path_of(BASE_FONT))
    families = [BASE_FONT]
    for family, path in installed if missing else ():
        found = missing & _glyphs(path)
        if found:
            families.append(family)
            missing -= found
    return tuple(families), missing


def _installed() -> tuple[tuple[str, str], ...]:
    """Return (family, file) of the fonts that Matplotlib knows, preferred ones first."""
    from matplotlib.font_manager import fontManager

    entries = {
        font.name: font.fname
        for font in reversed(fontManager.ttflist)
        if font.style == "normal" and not font.name.startswith(("Last Resort", "DejaVu", "STIX", "cm"))
    }
    return tuple(sorted(entries.items(), key=lambda entry: (not entry[0].startswith(PREFERRED), entry[0])))


def _path_of(family):
    from matplotlib.font_manager import findfont

    return findfont(family)


@functools.lru_cache(maxsize=64)
def _glyphs(path) -> frozenset[str]:
    """Return the characters of a font file; none of a file that cannot be read."""
    from matplotlib.font_manager import get_font

    try:
        return frozenset(map(chr, get_font(path).get_charmap()))
    except (OSError, RuntimeError):
        return frozenset()
