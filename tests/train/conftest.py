"""The pictures and the undisturbed run of `photo_runs`, made once."""

import numpy as np
import pytest
from PIL import Image
from train.photo_runs import RECIPE

from keras_vit.train import engine
from keras_vit.train.engine import train


@pytest.fixture(scope="session")
def photos(tmp_path_factory):
    folder = tmp_path_factory.mktemp("photos")
    rng = np.random.default_rng(0)
    for label, colour in (("day", 180), ("night", 60)):
        (folder / label).mkdir()
        for i in range(20):
            pixels = np.clip(rng.normal(colour, 40, (10, 12, 3)), 0, 255).astype("uint8")
            Image.fromarray(pixels).save(folder / label / f"{i:02d}.png")
    return folder


@pytest.fixture
def one_step_a_call(monkeypatch):
    monkeypatch.setattr(engine, "CALL_SECONDS", 0.0)


@pytest.fixture(scope="session")
def whole(photos, tmp_path_factory):
    """The undisturbed run, with a profile."""
    workdir = tmp_path_factory.mktemp("whole") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "CALL_SECONDS", 0.0)
        return workdir, train(RECIPE, workdir, str(photos), profile=True)
