import matplotlib
import numpy as np
import pytest
from matplotlib.image import imread

from keras_vit import analysis
from keras_vit.analysis.plots.confusion import confusion_matrix, plot_confusion
from keras_vit.analysis.plots.style import to_rgb

RNG = np.random.default_rng(0)


def digits(count=40, channels=1):
    return RNG.uniform(-1, 1, (count, 8, 8, channels)).astype("float32")


def a_split(wrong=3, count=40):
    true = np.arange(count) % 10
    predicted = np.where(np.arange(count) < wrong, (true + 1) % 10, true)
    return digits(count), true, predicted, np.linspace(0.31, 0.99, count)


def texts(figure):
    return [text.get_text() for text in figure.texts]


def captions(axes):
    return [text.get_text() for text in axes.texts]


def test_the_sheet_shows_mistakes_first_then_the_least_confident(tmp_path):
    figure = analysis.plot_predictions(*a_split(), tmp_path / "sheet.png")
    assert texts(figure)[0] == "92.5 % of 40 images correct"
    assert texts(figure)[2:] == [
        "3 mistakes, most confident first",
        "Correct, least confident first",
        "Correct, a sample of the rest",
    ]
    assert len(figure.axes) == 3 + 12 + 12
    assert [captions(axes) for axes in figure.axes[:3]] == [
        ["✗ 3, 34%", "is 2"],
        ["✗ 2, 33%", "is 1"],
        ["✗ 1, 31%", "is 0"],
    ]
    assert captions(figure.axes[3]) == ["✓ 3, 36%"]
    pixels = imread(tmp_path / "sheet.png")
    assert pixels.shape[:2] == tuple((figure.get_size_inches()[::-1] * figure.dpi + 1e-3).astype(int))
    assert pixels[..., :3].std() > 0.1


def test_mistakes_are_marked_by_frame_and_words_not_by_colour_alone(tmp_path):
    figure = analysis.plot_predictions(*a_split(), tmp_path / "sheet.png")
    wrong, right = figure.axes[0].spines["left"], figure.axes[3].spines["left"]
    assert wrong.get_linewidth() > right.get_linewidth()
    assert wrong.get_linestyle() != right.get_linestyle()


def test_each_image_has_its_caption(tmp_path):
    images, true, predicted, scores = a_split()
    figure = analysis.plot_predictions(images, true, predicted, scores, tmp_path / "sheet.png")
    for axes in figure.axes:
        drawn = axes.images[0].get_array()[..., 0]
        (i,) = [i for i, image in enumerate(images) if np.allclose((image[..., 0] + 1) / 2, drawn, atol=1e-6)]
        assert captions(axes)[0].split()[1] == f"{predicted[i]},"
        assert captions(axes)[0].endswith(f"{scores[i]:.0%}")


def test_a_sheet_of_large_images_with_names(tmp_path):
    images = RNG.integers(0, 256, (8, 80, 100, 3), dtype="uint8")
    names = ["black-footed ferret, polecat, Mustela nigripes", "ox"]
    labels = np.array([0, 1] * 4)
    figure = analysis.plot_predictions(images, labels, labels[::-1], np.ones(8), tmp_path / "a.png", names=names)
    assert texts(figure)[0] == "0.0 % of 8 images correct"
    assert "8 mistakes, most confident first" in texts(figure)
    assert len(figure.axes) == 8
    assert {caption for axes in figure.axes for caption in captions(axes)} == {
        "✗ black-foot…a nigripes, 100%", "✗ ox, 100%", "is black-footed…ela nigripes", "is ox",
    }  # fmt: skip


def test_a_split_with_many_mistakes_shows_the_most_confident_and_one_without_none(tmp_path):
    figure = analysis.plot_predictions(*a_split(wrong=40), tmp_path / "a.png", columns=4)
    assert "40 mistakes, the 12 most confident" in texts(figure)
    assert len(figure.axes) == 12
    figure = analysis.plot_predictions(*a_split(wrong=0), tmp_path / "a.png", columns=4)
    assert not any("mistake" in text for text in texts(figure)[2:])
    assert len(figure.axes) == 8


def test_labels_of_another_length_are_refused(tmp_path):
    images, true, predicted, scores = a_split()
    with pytest.raises(ValueError, match=r"scores expected shape \(40,\), one per image, received \(39,\)"):
        analysis.plot_predictions(images, true, predicted, scores[1:], tmp_path / "a.png")


def drawn_map(axes):
    return np.asarray(axes.images[1].get_array())


@pytest.mark.parametrize("count", [1, 2, 5])
@pytest.mark.parametrize("shape", [(8, 8, 1), (96, 64, 3)])
def test_the_attention_picture_has_each_map_over_its_image(tmp_path, count, shape):
    images = RNG.uniform(-1, 1, (count, *shape)).astype("float32")
    maps = RNG.uniform(0.1, 1, (count, 2, 4, 3))
    names = [f"image {i}" for i in range(count)]
    figure = analysis.plot_attention(
        images, maps, tmp_path / "a.png", titles=["last block", "rollout"], names=names, title="Where it looks"
    )
    panels = [axes for axes in figure.axes if axes.images]
    bars = [axes for axes in figure.axes if not axes.images]
    assert len(panels) == 3 * count and len(bars) == 2
    said = [axes.get_ylabel() + axes.get_title(loc="left") + axes.get_xlabel() for axes in figure.axes]
    assert set(said) - {""} == {*names, "last block", "rollout", said[-1]}
    assert said[-1].replace("\n", " ") == "attention, × mean"
    assert figure.get_suptitle() == "Where it looks"
    overlaid = [drawn_map(axes) for axes in panels if len(axes.images) == 2]
    for i in range(count):
        for k in range(2):
            expected = maps[i, k] / maps[i, k].mean()
            assert sum(np.allclose(drawn, expected, atol=1e-5) for drawn in overlaid) == 1
    pixels = imread(tmp_path / "a.png")
    assert pixels.shape[:2] == tuple((figure.get_size_inches()[::-1] * figure.dpi + 1e-3).astype(int))
    assert pixels[..., :3].std() > 0.05


def test_uniform_attention_is_one_everywhere(tmp_path):
    figure = analysis.plot_attention(digits(3), np.full((3, 4, 4), 0.01), tmp_path / "a.png")
    np.testing.assert_allclose(drawn_map(figure.axes[3]), 1, rtol=1e-6)


def test_a_map_covers_only_the_pixels_in_patches(tmp_path):
    images = RNG.uniform(-1, 1, (1, 30, 30, 3))
    figure = analysis.plot_attention(images, np.ones((1, 3, 3)), tmp_path / "a.png", patch_size=(8, 8))
    picture, overlay = figure.axes[1].images
    assert picture.get_extent() == [0, 30, 30, 0]
    assert overlay.get_extent() == [0, 24, 24, 0]


@pytest.mark.parametrize(
    "change, message",
    [
        ({"maps": np.ones((2, 4, 4))}, r"maps expected shape \(3, maps, down, across\), received"),
        ({"maps": np.zeros((3, 4, 4))}, "maps expected values that are not negative and not all zero"),
        ({"maps": np.linspace(-1, 2, 48).reshape(3, 4, 4)}, "maps expected values that are not negative"),
        ({"titles": ["a", "b"]}, "titles expected 1 texts, received 2"),
        ({"names": ["a"]}, "names expected 3 texts, received 1"),
        ({"images": np.ones((3, 8, 8, 2))}, r"images expected shape \(batch, height, width, 1 or 3\), received"),
    ],
)
def test_wrong_arguments_raise_an_error_before_anything_is_written(tmp_path, change, message):
    arguments = {"images": digits(3), "maps": np.ones((3, 4, 4)), **change}
    with pytest.raises(ValueError, match=message):
        analysis.plot_attention(output=tmp_path / "a.png", **arguments)
    assert not (tmp_path / "a.png").exists()


def test_images_in_different_ranges_have_the_same_rgb_values():
    unit = RNG.uniform(0, 1, (2, 4, 4, 1)).astype("float32")
    unit[0, 0, 0], unit[0, 0, 1] = 0, 1
    grey = np.repeat(unit, 3, axis=-1)
    for images in (unit, unit * 2 - 1, unit * 255):
        np.testing.assert_allclose(to_rgb(images), grey, atol=1e-6)
    np.testing.assert_allclose(to_rgb((unit * 255).astype("uint8")), grey, atol=1 / 255)
    np.testing.assert_allclose(to_rgb(unit * 16, value_range=(0, 16)), grey, atol=1e-6)


def test_drawing_leaves_pyplot_and_the_users_style_alone(tmp_path):
    import matplotlib.pyplot as plt

    with matplotlib.rc_context({"axes.facecolor": "black", "font.size": 30.0}):
        before = dict(matplotlib.rcParams)
        figure = analysis.plot_attention(digits(3), np.ones((3, 4, 4)), tmp_path / "a.png")
        assert dict(matplotlib.rcParams) == before
    assert plt.get_fignums() == []
    assert figure.axes[0].get_facecolor() == (1, 1, 1, 1)


def test_dollar_signs_are_drawn_as_they_are(tmp_path):
    said = "costs $5_{ or $6"  # an invalid formula
    figure = analysis.plot_attention(digits(1), np.ones((1, 4, 4)), tmp_path / "a.png", names=[said], title=said)
    assert figure.get_suptitle() == figure.axes[0].get_ylabel() == said and (tmp_path / "a.png").stat().st_size > 1000


def luminance(rgb):
    """Relative luminance as in WCAG 2: https://www.w3.org/TR/WCAG22/#dfn-relative-luminance"""
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    return linear @ np.array([0.2126, 0.7152, 0.0722])


@pytest.mark.parametrize("shade", [0.0, 0.5, 1.0])
def test_high_attention_stands_out_on_dark_and_on_light_images(tmp_path, shade):
    maps = np.full((1, 4, 4), 0.01)
    maps[0, 0, 0] = 1.0
    figure = analysis.plot_attention(np.full((1, 64, 64, 3), shade), maps, tmp_path / "a.png", value_range=(0, 1))
    picture, overlay = figure.axes[1].images
    colours = overlay.cmap(overlay.norm(maps[0] / maps.mean()))
    below = picture.get_array()[0, 0]
    high, low = (c[3] * c[:3] + (1 - c[3]) * below for c in (colours[0, 0], colours[3, 3]))
    assert (luminance(high) + 0.05) / (luminance(low) + 0.05) >= 3  # WCAG's contrast of graphics


def test_an_outline_with_a_halo_encloses_high_attention(tmp_path):
    maps = np.full((1, 4, 4), 0.01)
    maps[0, 1, 2] = 1.0
    figure = analysis.plot_attention(np.zeros((1, 64, 64, 3)), maps, tmp_path / "a.png", value_range=(0, 1))
    (line,) = figure.axes[1].collections
    (effect,) = line.get_path_effects()
    assert effect._gc["foreground"] == "white" and luminance(line.get_edgecolor()[0, :3]) < 0.1
    (path,) = line.get_paths()
    assert path.contains_point((40, 24)) and not path.contains_point((8, 56))  # x, y in pixels
    plain = analysis.plot_attention(
        np.zeros((1, 64, 64, 3)), np.ones((1, 4, 4)), tmp_path / "a.png", value_range=(0, 1)
    )
    assert not plain.axes[1].collections  # uniform attention has no outline


def test_the_confusion_matrix_has_a_count_per_cell_and_the_classes_with_most_mistakes(tmp_path):
    true, predicted = [0, 0, 0, 1, 2], [0, 0, 1, 1, 0]
    matrix = confusion_matrix(true, predicted, 3)
    np.testing.assert_array_equal(matrix, [[2, 1, 0], [0, 1, 0], [1, 0, 0]])
    figure = plot_confusion(matrix, ["a", "b", "c"], tmp_path / "a.png")
    axes = figure.axes[0]
    cells = {tuple(map(int, text.get_position())): text.get_text() for text in axes.texts}
    assert cells == {(0, 0): "2", (1, 0): "1", (1, 1): "1", (0, 2): "1"}  # (predicted, true)
    assert axes.get_title(loc="left") == "60.0 % of 5 images correct"
    many = np.diag(np.full(40, 3))
    many[37, 39] = 2
    figure = plot_confusion(many, [f"class {i}" for i in range(40)], tmp_path / "a.png")
    drawn = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert len(drawn) == 25 and drawn[-2:] == ["class 37", "class 39"]
    assert "the 25 of 40 classes with most mistakes" in figure.axes[0].get_title(loc="left")
    with pytest.raises(ValueError, match=r"confusion expected shape \(2, 2\) with images, received \(3, 3\)"):
        plot_confusion(matrix, ["a", "b"], tmp_path / "a.png")
