"""What a finished run says of its arithmetic."""

from types import SimpleNamespace

import pytest
from support import needs_tensorflow

from keras_vit.train import state as state_module
from keras_vit.train.log.summary import summarise
from keras_vit.train.recipe import Curriculum, Data, Model, Optimizer, Recipe, Stage, Variant

pytestmark = needs_tensorflow
ROW = Variant("tiny", width=8, depth=1, mlp_dim=16, num_heads=2, patch_size=4, image_size=8)


def forward(tokens):
    """Multiply-adds of an image: patches, then query, key, value, output and MLP of each token, then attention."""
    return tokens * 16 * 8 + (tokens + 1) * (4 * 8**2 + 2 * 8 * 16) + 2 * (tokens + 1) ** 2 * 8


def test_memory_is_in_bytes_on_every_system(monkeypatch):
    """Linux counts in kibibytes, macOS in bytes, Windows not at all."""
    used = SimpleNamespace(RUSAGE_SELF=0, getrusage=lambda _: SimpleNamespace(ru_maxrss=2**20))
    for system, module, expected in (("linux", used, 2**30), ("darwin", used, 2**20), ("win32", None, 0)):
        monkeypatch.setattr(state_module, "resource", module)
        monkeypatch.setattr(state_module.sys, "platform", system)
        assert state_module.peak_memory() == expected


@pytest.mark.parametrize(("sam", "gradients"), [(0.0, 1), (0.05, 2)])
def test_exaflops_are_those_of_every_gradient(sam, gradients):
    """Ten updates of five images, three of them with smaller images; SAM takes two gradients an update."""
    curriculum = Curriculum((Stage(0.3, image_size=4),))
    data = Data("digits", batch_size=5)
    recipe = Recipe("tiny", Model(ROW, channels=1), data, optimizer=Optimizer(sam=sam), curriculum=curriculum)
    train = SimpleNamespace(count=50, labels=("a", "b"))
    counters = SimpleNamespace(seconds=1.0, skipped_before=0.0, peak_memory=0.0, peak_device_memory=0.0)
    state = SimpleNamespace(counters=counters, model=SimpleNamespace(count_params=lambda: 1))
    said = summarise(recipe, SimpleNamespace(epoch_steps=10, steps=10, train=train), state, {"examples": 1}, 10, 1.0, 1)
    assert "peak_device_memory" not in said  # no GPU
    work = 5 * (3 * forward(1) + 7 * forward(4))
    assert said["exaflops"] * 1e18 == pytest.approx(6 * gradients * work, rel=1e-9)
