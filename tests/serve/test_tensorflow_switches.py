"""oneDNN prepacks the weights of a server whose models are all in bfloat16, and of no other."""

import os
import shutil

import numpy as np
import pytest
import tensorflow as tf
from serving import started, tiny
from support import needs_tensorflow

from keras_vit import cli
from keras_vit.export.precision import in_dtype
from keras_vit.export.saved_model import load_signatures, write_saved_model
from keras_vit.serve import server
from keras_vit.serve.tensorflow_switches import SWITCH, prepack_weights

pytestmark = needs_tensorflow


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """Export `half` with a float32 and a newer bfloat16 version, and `full` in float32."""
    folder = tmp_path_factory.mktemp("stored")
    write_saved_model(tiny(), folder / "full" / "1")
    shutil.copytree(folder / "full" / "1", folder / "half" / "1")
    write_saved_model(in_dtype(tiny(1), "bfloat16"), folder / "half" / "2")
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def environment(monkeypatch):
    """Remove the switch from the environment, and restore it after the test."""
    monkeypatch.setenv(SWITCH, "")
    del os.environ[SWITCH]
    return monkeypatch


@pytest.mark.broad
@pytest.mark.parametrize(("models", "held"), [(["half"], "1"), (["full"], None), (["half", "full"], None)])
def test_weights_are_prepacked_if_all_models_gain_by_it(models, held, stored, environment):
    prepack_weights([stored / model for model in models])
    assert os.environ.get(SWITCH) == held


def test_a_base_with_adapters_is_not_prepacked_once_for_each(stored, tmp_path, environment):
    shutil.copytree(stored / "half" / "2", tmp_path / "1")
    (tmp_path / "1" / "manifest.json").write_text('{"adapters": {"pets": ["cat", "dog"]}}')
    prepack_weights([tmp_path])
    assert SWITCH not in os.environ


def test_what_the_environment_says_stays(stored, environment):
    environment.setenv(SWITCH, "0")
    prepack_weights([stored / "half"])
    assert os.environ[SWITCH] == "0"


def test_a_newest_version_without_a_saved_model_is_passed_over(stored, tmp_path, environment):
    shutil.copytree(stored / "half" / "2", tmp_path / "1")
    (tmp_path / "2").mkdir()
    prepack_weights([tmp_path])
    assert os.environ[SWITCH] == "1"


@pytest.mark.parametrize("fault", ["no folder", "no version", "no weights", "damaged weights"])
def test_a_folder_that_cannot_be_served_is_left_to_the_server(fault, stored, tmp_path, environment):
    if fault == "no version":
        tmp_path.joinpath("model").mkdir()
    if "weights" in fault:
        shutil.copytree(stored / "half", tmp_path / "model")
        index = tmp_path / "model" / "2" / "variables" / "variables.index"
        index.write_bytes(b"damaged") if fault == "damaged weights" else index.unlink()
    prepack_weights([tmp_path / "model"])
    assert SWITCH not in os.environ
    assert cli.main(["serve", str(tmp_path / "model"), "--port", "0"]) == 2


@pytest.mark.broad
def test_the_command_asks_for_it_before_anything_is_loaded(stored, environment):
    asked = []
    environment.setattr("keras_vit.serve.serve", lambda *_, **__: asked.append(os.environ.get(SWITCH)))
    assert cli.main(["serve", str(stored / "half")]) == 0
    assert asked == ["1"]


@pytest.mark.broad
def test_in_python_a_server_leaves_it_alone(stored, environment):
    """The process of `serve()` may also train."""
    environment.setattr(server.uvicorn.Server, "run", lambda *_, **__: None)
    server.serve([stored / "half"], port=0)
    assert SWITCH not in os.environ


@pytest.mark.broad
def test_batches_of_any_size_and_a_new_version_get_their_own_numbers(stored, tmp_path):
    """oneDNN does not use the prepacked weights of an old version for a new one."""
    folder, images = tmp_path / "half", np.random.default_rng(0).uniform(-1, 1, (9, 16, 16, 3)).astype("float32")
    shutil.copytree(stored / "half" / "2", folder / "2")
    write_saved_model(in_dtype(tiny(5), "bfloat16"), tmp_path / "next")
    expected = [
        load_signatures(saved)["serving_default"](images=tf.constant(images))["logits"].numpy()
        for saved in (folder / "2", tmp_path / "next")
    ]
    spread = expected[0].std()
    assert np.abs(expected[0] - expected[1]).max() > spread
    with started([folder], "--poll", 0.1) as running:
        for logits in expected:
            for count in (1, 9, 3, 1):
                status, answer = running.predict("half", {"inputs": images[:count].tolist()})
                assert status == 200
                assert np.abs(np.asarray(answer["outputs"]["logits"]) - logits[:count]).max() < 0.02 * spread
            if not (folder / "3").exists():
                (tmp_path / "next").rename(folder / "3")
                running.wait_for("version 2 is unloaded")
