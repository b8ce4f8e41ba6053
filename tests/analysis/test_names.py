"""Long names and names in other scripts in pictures. pytest turns Matplotlib's warnings about glyphs into errors."""

import numpy as np
import pytest
from fontTools.fontBuilder import FontBuilder
from fontTools.pens.ttGlyphPen import TTGlyphPen
from matplotlib import font_manager

from keras_vit import analysis
from keras_vit.analysis.plots import names

CAT, DOG = "\u732b", "\u72ac"  # Chinese for cat and dog


@pytest.fixture
def no_other_fonts(monkeypatch):
    """Hide the fonts of this machine that do not come with Matplotlib."""
    own = [font for font in font_manager.fontManager.ttflist if "mpl-data" in font.fname]
    monkeypatch.setattr(font_manager.fontManager, "ttflist", own)


@pytest.fixture
def cat_font(no_other_fonts, tmp_path):
    """A font with one character, the cat, which is a square."""
    pen = TTGlyphPen(None)
    pen.moveTo((100, 0))
    for point in ((100, 800), (900, 800), (900, 0)):
        pen.lineTo(point)
    pen.closePath()
    font = FontBuilder(1000, isTTF=True)
    font.setupGlyphOrder([".notdef", "cat"])
    font.setupCharacterMap({ord(CAT): "cat"})
    font.setupGlyf({".notdef": TTGlyphPen(None).glyph(), "cat": pen.glyph()})
    font.setupHorizontalMetrics({".notdef": (1000, 0), "cat": (1000, 100)})
    font.setupHorizontalHeader(ascent=800, descent=-200)
    font.setupNameTable({"familyName": "One Cat", "styleName": "Regular"})
    font.setupOS2()
    font.setupPost()
    font.save(tmp_path / "cat.ttf")
    font_manager.fontManager.addfont(tmp_path / "cat.ttf")


@pytest.mark.parametrize(
    "text, expected",
    [
        ("short", "short"),
        ("Mustela nigripes", "Must…ipes"),
        (CAT * 4, CAT * 4),
        (CAT * 5, f"{CAT * 2}…{CAT * 2}"),
        ("cafe\u0301 noir!", "cafe\u0301 noir!"[:5] + "…oir!"),
    ],
)
def test_a_long_name_loses_its_middle(text, expected):
    assert names.shortened(text, 9) == expected


def test_a_name_is_drawn_in_a_font_that_has_its_characters(cat_font, tmp_path):
    assert names.fonts_for(f"a {CAT}") == (("DejaVu Sans", "One Cat"), frozenset())
    assert names.drawable([CAT, DOG, "ox"]) == [CAT, "class 1", "ox"]
    images = np.zeros((1, 8, 8, 1))
    figure = analysis.plot_predictions(images, [0], [0], [0.5], tmp_path / "a.png", names=[CAT])
    (text,) = figure.axes[0].texts
    assert text.get_text() == f"✓ {CAT}, 50%" and text.get_fontfamily() == ["DejaVu Sans", "One Cat"]


def test_a_character_without_a_font_has_a_placeholder(no_other_fonts, tmp_path):
    images = np.zeros((1, 8, 8, 1))
    figure = analysis.plot_predictions(images, [0], [0], [0.5], tmp_path / "a.png", names=[f"{DOG} dog"])
    assert figure.axes[0].texts[0].get_text() == "✓ □ dog, 50%"
    names_of_classes = [CAT, "ox"]
    figure = analysis.plots.confusion.plot_confusion(np.eye(2, dtype=int), names_of_classes, tmp_path / "a.png")
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == ["class 0", "ox"]
