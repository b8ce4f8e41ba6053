import json

import numpy as np
import pytest
from matplotlib.image import imread
from PIL import Image
from support import randomise

import keras_vit
from keras_vit import analysis

TINY = keras_vit.Variant("Tiny", width=8, depth=3, mlp_dim=12, num_heads=2, patch_size=4)


def tiny(pooling="token", shape=(8, 12, 3), **options):
    options = {"classes": 3, "labels": ["ant", "bee", "cat"], **options}
    return randomise(keras_vit.build(TINY, input_shape=shape, pooling=pooling, **options))


def pictures(count=4, shape=(8, 12, 3)):
    return np.random.default_rng(0).uniform(-1, 1, (count, *shape)).astype("float32")


@pytest.mark.parametrize("pooling", ["token", "gap", "map"])
def test_analyze_writes_pictures_and_the_numbers_of_the_functions(tmp_path, pooling):
    model, images = tiny(pooling), pictures()
    result = analysis.analyze(model, images, tmp_path / "new")
    assert json.loads((tmp_path / "new" / "analysis.json").read_text()) == result
    expected = ["attention.png", "attention_heads.png"] + ["attention_blocks.png"] * (pooling != "map")
    assert result["pictures"] == expected
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == sorted([*expected, "analysis.json"])
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


def test_predictions_are_the_models_best_first(tmp_path):
    model, images = tiny(), pictures()
    result = analysis.analyze(model, images, tmp_path, top=2, drawn=1)
    scores = model.predict(images, verbose=0)
    for row, expected in zip(result["images"], scores, strict=True):
        best = np.argsort(-expected)[:2]
        assert [prediction["label"] for prediction in row["predictions"]] == [["ant", "bee", "cat"][i] for i in best]
        np.testing.assert_allclose([p["score"] for p in row["predictions"]], expected[best], atol=1e-6)
    result = analysis.analyze(model, images, tmp_path, labels=["a", "b", "c"], drawn=1)
    assert {p["label"] for row in result["images"] for p in row["predictions"]} == {"a", "b", "c"}


@pytest.mark.parametrize("include_preprocessing", [False, True])
def test_image_files_are_read_and_preprocessed(tmp_path, include_preprocessing):
    pixels = np.random.default_rng(0).integers(0, 256, (2, 8, 12, 3), dtype="uint8")
    files = [tmp_path / f"{i}.png" for i in range(2)]
    for file, image in zip(files, pixels, strict=True):
        Image.fromarray(image).save(file)
    model = tiny(include_preprocessing=include_preprocessing)
    result = analysis.analyze(model, files, tmp_path / "out", drawn=1)
    images = pixels.astype("float32") if include_preprocessing else keras_vit.preprocess_input(pixels)
    direct = analysis.analyze(model, images, tmp_path / "direct", names=["0.png", "1.png"], drawn=1)
    assert [row["name"] for row in result["images"]] == ["0.png", "1.png"]
    assert result == direct


def test_a_grey_model_without_a_head_is_drawn_under_the_images_names(tmp_path):
    model = tiny("gap", shape=(8, 8, 1), include_top=False)
    result = analysis.analyze(model, pictures(1, (8, 8, 1)), tmp_path, names=["seven"], labels=None)
    assert result["images"][0]["name"] == "seven"
    assert result["images"][0]["predictions"] == []


def test_what_does_not_fit_is_refused_before_anything_is_written(tmp_path):
    output = tmp_path / "out"
    with pytest.raises(ValueError, match="names expected 4, one an image, received 1"):
        analysis.analyze(tiny(), pictures(), output, names=["a"])
    with pytest.raises(ValueError, match="labels expected 3 names, one for each class, received 2"):
        analysis.analyze(tiny(), pictures(), output, labels=["a", "b"])
    with pytest.raises(ValueError, match="images expected one file or more, received none"):
        analysis.analyze(tiny(), [], output)
    with pytest.raises(FileNotFoundError, match="found none at"):
        analysis.analyze(tiny(), [tmp_path / "none.png"], output)
    assert not output.exists()
