"""A model from a workdir, a file or a name."""

import zipfile

import numpy as np
import pytest
from support import max_difference, randomise

import keras_vit
from keras_vit.models.load import load_model

TINY = keras_vit.Variant("tiny", width=16, depth=1, mlp_dim=24, num_heads=2, patch_size=4, image_size=8)


def test_a_workdir_and_a_file_give_the_saved_model(tmp_path):
    model = randomise(keras_vit.build(TINY, classes=3, labels=("a", "b", "c")))
    model.save(tmp_path / "model.keras")
    images = np.random.default_rng(0).uniform(-1, 1, (2, 8, 8, 3)).astype("float32")
    for source in (tmp_path, str(tmp_path), tmp_path / "model.keras"):
        loaded = load_model(source)
        assert max_difference(loaded(images), model(images)) == 0
        assert loaded.get_layer("head").labels == ("a", "b", "c") and not loaded.compiled


def test_a_name_builds_its_model():
    assert load_model("ViT-Ti/16").count_params() == 5_717_416


def test_what_is_no_model_gets_a_sentence(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="model expected a folder that holds model.keras, received .*empty'"):
        load_model(tmp_path / "empty")
    with pytest.raises(FileNotFoundError, match="model expected a .keras file, found nothing at 'no/such.keras'"):
        load_model("no/such.keras")
    with pytest.raises(ValueError, match="nothing lies at 'ViT_B61', and as a name .*nearest are ViT_B16"):
        load_model("ViT_B61")
    with zipfile.ZipFile(tmp_path / "other.keras", "w") as archive:
        archive.writestr("config.json", "{}")
    (tmp_path / "broken.keras").write_bytes(b"PK\x03\x04 no zip after all")
    (tmp_path / "picture.png").write_bytes(b"\x89PNG")
    for name in ("broken.keras", "picture.png"):
        with pytest.raises(ValueError, match=f"model expected a .keras file, received .*{name}', which is none"):
            load_model(tmp_path / name)
    with pytest.raises(ValueError, match="model expected a .keras file of this package, received .*other.keras': "):
        load_model(tmp_path / "other.keras")
