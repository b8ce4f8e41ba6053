import base64
import json
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
from matplotlib.image import imread
from PIL import Image
from support import quick_first, randomise

import keras_vit
from keras_vit import analysis
from keras_vit.analysis import report_inputs

TINY = keras_vit.Variant("Tiny", width=8, depth=3, mlp_dim=12, num_heads=2, patch_size=4)


def tiny(pooling="token", shape=(8, 12, 3), **options):
    options = {"classes": 3, "labels": ["ant", "bee", "cat"], **options}
    return randomise(keras_vit.build(TINY, input_shape=shape, pooling=pooling, **options))


def pictures(count=4, shape=(8, 12, 3)):
    return np.random.default_rng(0).uniform(-1, 1, (count, *shape)).astype("float32")


@pytest.mark.parametrize("pooling", quick_first(["token", "gap", "map"], ["token"]))
def test_analyze_writes_pictures_and_the_values_of_the_functions(tmp_path, pooling, monkeypatch):
    model, images = tiny(pooling), pictures()
    patch_sizes = []
    draw = report_inputs.plot_attention
    monkeypatch.setattr(
        report_inputs, "plot_attention", lambda *a, **k: patch_sizes.append(k["patch_size"]) or draw(*a, **k)
    )
    result = analysis.analyze(model, images, tmp_path / "new")
    assert set(patch_sizes) == {(4, 4)}
    assert json.loads((tmp_path / "new" / "analysis.json").read_text()) == result
    expected = ["attention.png", "attention_heads.png"] + ["attention_blocks.png"] * (pooling != "map")
    expected += ["grad_cam.png", "gradient_attention.png", "figure7.png", *(f"layer_outputs_{i}.png" for i in range(3))]
    assert result["pictures"] == expected
    written = sorted(path.name for path in (tmp_path / "new").iterdir())
    assert written == sorted([*expected, "analysis.json", "index.html"])
    for name in expected:
        assert imread(tmp_path / "new" / name)[..., :3].std() > 0.05
    assert (result["pooling"], result["grid"], result["patch_size"]) == (pooling, [2, 3], [4, 4])
    assert (result["blocks"], result["heads"]) == (3, 2)

    maps = analysis.class_attention(model, images)
    shares = maps / maps.sum(axis=(-2, -1), keepdims=True)
    rolled = analysis.rollout_maps(model, images)
    for i, row in enumerate(result["images"]):
        np.testing.assert_allclose(row["attention"], shares[-1, i].mean(0), atol=1e-6)
        np.testing.assert_allclose(row["rollout"], rolled[i] / rolled[i].sum(), atol=1e-6)
    entropy = -(shares * np.log(shares)).sum(axis=(-2, -1)).astype("float64")
    np.testing.assert_allclose(result["effective_patches"], np.exp(entropy).mean(axis=1), atol=1e-5)
    distance = analysis.attention_distance(model, images)
    np.testing.assert_allclose(result["attention_distance"], distance, atol=1e-5)
    np.testing.assert_allclose(result["figure7"]["attention_distance"], distance, atol=1e-5)
    cams, relevance = analysis.grad_cam(model, images), analysis.gradient_attention(model, images)
    for i, row in enumerate(result["images"]):
        np.testing.assert_allclose(row["grad_cam"], cams[i], atol=1e-5)
        np.testing.assert_allclose(row["gradient_attention"], relevance[i], atol=1e-5)
    norms = [norm.mean() for norm in analysis.layer_outputs(model, images).norms()]
    np.testing.assert_allclose(result["layer_outputs"]["mean_length"], norms, rtol=1e-4)


def test_predictions_are_the_models_best_first(tmp_path):
    model, images = tiny(), pictures()
    result = analysis.analyze(model, images, tmp_path, top=2, max_drawn=1, parts=["layer_outputs"])
    scores = model.predict(images, verbose=0)
    for row, expected in zip(result["images"], scores, strict=True):
        best = np.argsort(-expected)[:2]
        assert [prediction["label"] for prediction in row["predictions"]] == [["ant", "bee", "cat"][i] for i in best]
        np.testing.assert_allclose([p["score"] for p in row["predictions"]], expected[best], atol=1e-6)
    result = analysis.analyze(model, images, tmp_path, labels=["a", "b", "c"], max_drawn=1, parts=["layer_outputs"])
    assert {p["label"] for row in result["images"] for p in row["predictions"]} == {"a", "b", "c"}


@pytest.mark.broad
@pytest.mark.parametrize("include_preprocessing", [False, True])
def test_image_files_are_read_and_preprocessed(tmp_path, include_preprocessing):
    pixels = np.random.default_rng(0).integers(0, 256, (2, 8, 12, 3), dtype="uint8")
    files = [tmp_path / f"{i}.png" for i in range(2)]
    for file, image in zip(files, pixels, strict=True):
        Image.fromarray(image).save(file)
    model = tiny(include_preprocessing=include_preprocessing)
    result = analysis.analyze(model, files, tmp_path / "out", max_drawn=1, parts=["attention"])
    images = pixels.astype("float32") if include_preprocessing else keras_vit.preprocess_input(pixels)
    direct = analysis.analyze(
        model, images, tmp_path / "direct", names=["0.png", "1.png"], max_drawn=1, parts=["attention"]
    )
    assert [row["name"] for row in result["images"]] == ["0.png", "1.png"]
    assert result == direct


@pytest.mark.broad
def test_a_grey_model_without_a_head_has_captions_with_image_names(tmp_path):
    model = tiny("gap", shape=(8, 8, 1), include_top=False)
    result = analysis.analyze(model, pictures(1, (8, 8, 1)), tmp_path, names=["seven"], labels=None)
    assert result["images"][0]["name"] == "seven"
    assert result["images"][0]["predictions"] == []
    assert "grad_cam.png" not in result["pictures"] and "attention.png" in result["pictures"]


class _Page(HTMLParser):
    """The links, pictures and captions of a page."""

    def __init__(self, text):
        super().__init__()
        self.links, self.pictures, self.captions, self._tag = [], [], [], None
        self.headings, self.folded = [], {}  # folded: summary -> number of pictures
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self._tag = tag
        for name, value in attributes:
            if name == "src" and value.startswith("data:image/png;base64,"):
                self.pictures.append(base64.b64decode(value.partition(",")[2]))
            elif name in ("src", "href"):
                self.links.append(value)

    def handle_data(self, data):
        if self._tag == "figcaption":
            self.captions.append(data)
        elif self._tag == "h2" and data.strip():
            self.headings.append(data)
        elif self._tag == "summary":
            self.folded[data] = len(self.pictures)


def test_the_page_contains_every_picture_and_no_links(tmp_path):
    shape = (8, 8, 1)
    Image.new("L", (4, 4)).save(tmp_path / "more.png")
    model = tiny(shape=shape, labels=["<ant>", "bee", "cat"])
    result = analysis.analyze(
        model, pictures(6, shape), tmp_path, extra_pictures={"more.png": "one & more"}, max_drawn=2
    )
    assert {"layers.png", "neighbours.png", "plane.png"} <= set(result["pictures"])
    text = (tmp_path / "index.html").read_text()
    page = _Page(text)
    files = [*result["pictures"], "more.png"]
    assert page.pictures == [(tmp_path / file).read_bytes() for file in files]
    assert not page.links and "url(" not in text and "@import" not in text and "<script" not in text
    assert len([caption for caption in page.captions if caption.strip()]) >= len(files)
    assert "one & more" in page.captions and "<ant>" not in text
    found, _ = analysis.nearest(analysis.features_of(model, pictures(6, shape)), k=6)
    assert result["neighbours"]["nearest"] == found.tolist()
    np.testing.assert_allclose(
        result["layers"]["linear_cka"], analysis.layer_similarity(model, pictures(6, shape))[0], atol=1e-5
    )


LONG = "black-footed ferret, also called Mustela nigripes"


@pytest.mark.broad
def test_the_page_of_labelled_images_begins_with_the_confusion_matrix_and_the_mistakes(tmp_path):
    model, images = tiny(labels=["ant", "\u732b", LONG]), pictures(12)
    scores = model.predict(images, verbose=0)
    best = scores.argmax(1)
    true = np.where(np.arange(12) < 4, (best + 1) % 3, best)
    result = analysis.analyze(
        model, images[:2], tmp_path, parts=["attention", "layer_outputs"], test_images=images, test_labels=true
    )
    labelled = result["labelled"]
    assert (labelled["images"], labelled["accuracy"]) == (12, round(8 / 12, 6))
    order = sorted(range(4), key=lambda i: -scores[i].max())
    assert [row["image"] for row in labelled["mistakes"]] == order
    labels = ["ant", "\u732b", LONG]
    first = labelled["mistakes"][0]
    assert (first["true"], first["predicted"]) == (labels[true[order[0]]], labels[best[order[0]]])
    assert sum(row["images"] for row in labelled["classes"]) == 12
    assert sum(row["correct"] for row in labelled["classes"]) == 8
    assert result["pictures"][:3] == ["confusion.png", "predictions.png", "attention.png"]
    text = (tmp_path / "index.html").read_text(encoding="utf-8")
    page = _Page(text)
    assert page.headings[:3] == ["Confusion matrix and mistakes", "Predictions", "Attention"]
    assert LONG in text and "\u732b" in text  # whole names
    assert page.pictures[0] == (tmp_path / "confusion.png").read_bytes()


def test_panels_per_head_and_per_block_are_folded(tmp_path):
    result = analysis.analyze(tiny(), pictures(2), tmp_path, parts=["attention"])
    page = _Page((tmp_path / "index.html").read_text(encoding="utf-8"))
    assert result["pictures"] == ["attention.png", "attention_heads.png", "attention_blocks.png"]
    assert page.folded == {"Attention per head": 1, "Attention per block": 2}  # pictures before them


def test_a_name_that_no_font_can_draw_is_a_number_in_pictures_and_whole_on_the_page(tmp_path, monkeypatch):
    monkeypatch.setattr("keras_vit.analysis.plots.names._installed", lambda: ())  # of this machine
    drawn = []
    draw = report_inputs.plot_attention
    monkeypatch.setattr(report_inputs, "plot_attention", lambda *a, **k: drawn.extend(k["names"]) or draw(*a, **k))
    model = tiny(labels=["\u732b", "\u72ac", "\u725b"])
    result = analysis.analyze(model, pictures(1), tmp_path, parts=["attention"])
    best = result["images"][0]["predictions"][0]
    assert drawn[0] == f"class {best['class']}, {best['score']:.0%}"
    assert f"{best['label']} <small>(class {best['class']})</small>" in (tmp_path / "index.html").read_text("utf-8")


@pytest.mark.parametrize(
    "change, message",
    [
        ({"test_labels": None}, "test_images expected test_labels with them"),
        ({"test_labels": [0, 1, 2]}, "test_labels expected 4 ints, one per image, received shape"),
        ({"test_labels": [0, 1, 2, 3]}, "test_labels expected class indices below 3, received 0 to 3"),
        ({"model": lambda: tiny(include_top=False, labels=None)}, "test_images expected a model with a classifier"),
    ],
)
def test_wrong_labels_raise_an_error_before_anything_is_written(tmp_path, change, message):
    arguments = {"model": tiny, "test_labels": [0, 1, 2, 0], **change}
    model = arguments.pop("model")()
    with pytest.raises(ValueError, match=message):
        analysis.analyze(model, pictures(), tmp_path / "out", test_images=pictures(), **arguments)
    assert not (tmp_path / "out").exists()


@pytest.mark.broad
def test_the_parts_of_a_bit_and_of_a_hybrid(tmp_path):
    row = keras_vit.BiTVariant("tiny_bit", units=(1, 1), width_factor=0.5)
    bit = randomise(keras_vit.build(row, input_shape=(32, 40, 1), classes=3))
    result = analysis.analyze(bit, pictures(2, (32, 40, 1)), tmp_path / "bit")
    assert result["pictures"] == ["grad_cam.png", "figure7.png", "layer_outputs_0.png", "layer_outputs_1.png"]
    assert "patch" not in (tmp_path / "bit" / "index.html").read_text(encoding="utf-8")
    with pytest.raises(ValueError, match="which has no attention but the feature maps stage1, stage2"):
        analysis.analyze(bit, pictures(2, (32, 40, 1)), tmp_path / "no", parts=["attention"])
    assert not (tmp_path / "no").exists()
    hybrid = replace(TINY, patch_size=2, stem=keras_vit.ResNetStem((1,), 0.5), width=16)
    hybrid = randomise(keras_vit.build(hybrid, input_shape=(16, 24, 3), classes=3))
    result = analysis.analyze(hybrid, pictures(2, (16, 24, 3)), tmp_path / "hybrid")
    assert {"attention.png", "grad_cam.png", "gradient_attention.png", "figure7.png"} <= set(result["pictures"])
    assert result["grid"] == [2, 3] and np.shape(result["images"][0]["grad_cam"]) == (4, 6)


def test_wrong_arguments_raise_an_error_before_anything_is_written(tmp_path):
    output = tmp_path / "out"
    with pytest.raises(ValueError, match="names expected 4 names, one per image, received 1"):
        analysis.analyze(tiny(), pictures(), output, names=["a"])
    with pytest.raises(ValueError, match="labels expected 3 names, one per class, received 2"):
        analysis.analyze(tiny(), pictures(), output, labels=["a", "b"])
    with pytest.raises(ValueError, match="images expected one file or more, received none"):
        analysis.analyze(tiny(), [], output)
    with pytest.raises(FileNotFoundError, match="found none at"):
        analysis.analyze(tiny(), [tmp_path / "none.png"], output)
    with pytest.raises(ValueError, match=r"parts expected some of \('attention', .*received \['all'\]"):
        analysis.analyze(tiny(), pictures(), output, parts=["all"])
    with pytest.raises(ValueError, match="sample_names expected 4 names, one per image, received 1"):
        analysis.analyze(tiny(), pictures(), output, sample_images=pictures(), sample_names=["a"])
    assert not output.exists()


def test_maps_that_are_all_zero_are_not_drawn(tmp_path, monkeypatch):
    of_images = np.arange(2)[:, None, None] * np.ones((1, 2, 3))  # the first map is zero
    monkeypatch.setattr("keras_vit.analysis.report_parts.grad_cam", lambda *_, **__: of_images)
    analysis.analyze(tiny(), pictures(2), tmp_path, max_drawn=1, parts=["class"])
    assert not (tmp_path / "grad_cam.png").exists() and (tmp_path / "gradient_attention.png").exists()
