"""Damaged checkpoints of every format: the weights as they were written, or one sentence and a model left as it was."""

import resource

import numpy as np
import pytest
import torch_files
from mutations import mutated
from support import needs_tensorflow, randomise

import keras_vit
from keras_vit.weights.files import open_weights

pytestmark = needs_tensorflow
TINY = keras_vit.Variant("tiny", width=8, depth=1, mlp_dim=12, num_heads=2, patch_size=4, image_size=8)
LAYOUTS = {".npz": None, ".safetensors": "timm", ".keras": None, ".weights.h5": None}
# How often in a hundred: files of HDF5 are written to be read again, which takes longer.
SHARES = {".npz": 30, ".safetensors": 30, ".pth": 30, ".keras": 5, ".weights.h5": 5}


def values(model):
    return [np.array(variable) for variable in model.variables]


def same(some, others):
    return all(a.shape == b.shape and a.tobytes() == b.tobytes() for a, b in zip(some, others, strict=True))


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """The model, and the bytes of its file, for each ending."""
    model, folder = randomise(keras_vit.build(TINY, classes=3)), tmp_path_factory.mktemp("whole")
    for ending, layout in LAYOUTS.items():
        keras_vit.save_weights(model, folder / f"weights{ending}", layout)
    with open_weights(folder / "weights.safetensors") as file:
        torch_files.save(folder / "weights.pth", {name: np.array(file[name]) for name in file.shapes})
    return model, {ending: (folder / f"weights{ending}").read_bytes() for ending in SHARES}


@pytest.mark.filterwarnings("ignore")  # of numbers that are not finite
@pytest.mark.parametrize("count", [40, pytest.param(1000, marks=pytest.mark.large)])
def test_checkpoints_are_read_as_written_or_refused_in_one_sentence(count, written, tmp_path, capsys):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    model, whole = written
    expected, other = values(model), randomise(keras_vit.build(TINY, classes=3), seed=1)
    untouched = values(other)
    endings = [ending for ending, share in SHARES.items() for _ in range(share)]
    loaded = refused = 0
    for seed in range(count):
        rng = np.random.default_rng(seed)
        ending = endings[int(rng.integers(len(endings)))]
        path = tmp_path / f"weights{ending}"
        path.write_bytes(mutated(whole[ending], rng))
        builds = seed % 10 == 0 and ending != ".weights.h5"
        try:
            if builds:
                options = {} if ending in (".npz", ".keras") else {"num_heads": 2}
                found = values(keras_vit.from_pretrained(path, **options))
                assert len(found) == len(expected), f"seed {seed}: another model"
            else:
                keras_vit.load_weights(other, path)
                found = values(other)
        except ValueError as error:
            refused += 1
            assert "\n" not in str(error) and len(str(error)) < 700, f"seed {seed}: {error}"
            assert same(values(other), untouched), f"seed {seed}, {ending}: a refused file changed the model: {error}"
            continue
        loaded += 1
        assert same(found, expected), f"seed {seed}, {ending}: wrong weights without a word"
        for variable, value in zip(other.variables, untouched, strict=True):
            variable.assign(value)
    capsys.readouterr()
    assert refused > count / 4 and loaded + refused == count
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 < 2e9
