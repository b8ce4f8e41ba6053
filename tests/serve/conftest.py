"""The exported models, and the server that most of these tests share."""

import shutil

import numpy as np
import pytest
import tensorflow as tf
from serving import MAX_BYTES, MAX_PIXELS, started, tiny


@pytest.fixture(scope="session")
def exports(tmp_path_factory):
    """Export `photos` (RGB, 16 x 16, two versions with different weights) and `grey` (8 x 16, without a manifest)."""
    from keras_vit.export import export
    from keras_vit.export.saved_model import write_saved_model

    folder = tmp_path_factory.mktemp("saved_models")
    export(tiny(), folder / "photos", formats=("saved_model",))
    export(tiny(1), folder / "photos", formats=("saved_model",))
    write_saved_model(tiny(2, input_shape=(8, 16, 1), classes=3, labels=("x", "y", "z")), folder / "grey" / "1")
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def running(exports):
    """Start a server of both models and both versions."""
    options = ("--max-request-bytes", MAX_BYTES, "--max-pixels", MAX_PIXELS, "--versions", 2)
    with started([exports / "photos", exports / "grey"], *options) as server:
        yield server


@pytest.fixture
def server(running):
    """Return the shared server, and check after the test that it still answers."""
    yield running
    assert running.process.poll() is None
    assert running.ask("GET", "/v2/health/live") == (200, {"live": True})


@pytest.fixture(scope="session")
def own(exports):
    """Return a function: (model, version) -> the signatures of the SavedModel, called without a server."""
    loaded = {}

    def signatures(model="photos", version=2):
        if (model, version) not in loaded:
            loaded[model, version] = tf.saved_model.load(str(exports / model / str(version)))
        return loaded[model, version].signatures

    return signatures


@pytest.fixture(scope="session")
def images():
    return np.random.default_rng(0).uniform(-1, 1, (3, 16, 16, 3)).astype("float32")
