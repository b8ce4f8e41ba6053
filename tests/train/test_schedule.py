"""The learning rate against its closed forms, and optax's where it is there."""

import math

import numpy as np
import pytest

from keras_vit.train.recipe import Schedule
from keras_vit.train.schedule import LearningRate, rate_at

BASE, TOTAL, WARM = 0.3, 100, 10


def rates(decay, warmup=WARM, end=0.0):
    return np.array([float(rate_at(step, BASE, TOTAL, decay, warmup, end)) for step in range(TOTAL + 1)])


def test_cosine():
    for step in (0, 1, 5, 10, 37, 99, 100):
        progress = min(max((step - WARM) / (TOTAL - WARM), 0), 1)
        expected = BASE * 0.5 * (1 + math.cos(math.pi * progress)) * min(1, step / WARM)
        assert rates("cosine")[step] == pytest.approx(expected, abs=1e-7)


def test_linear_ends_at_end():
    found = rates("linear", end=1e-2)
    assert found[0] == 0 and found[WARM] == pytest.approx(BASE) and found[TOTAL] == pytest.approx(1e-2)
    assert found[55] == pytest.approx(1e-2 + (BASE - 1e-2) * 0.5)


def test_constant_and_no_warmup():
    assert np.allclose(rates("constant", warmup=0), BASE)
    assert rates("cosine", warmup=0)[0] == pytest.approx(BASE)


def test_optax_agrees():
    optax = pytest.importorskip("optax", reason="optax is not installed")
    theirs = optax.warmup_cosine_decay_schedule(0.0, BASE, WARM, TOTAL)
    assert np.allclose(rates("cosine"), [float(theirs(step)) for step in range(TOTAL + 1)], atol=1e-6)


def test_torch_agrees():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=BASE)
    theirs = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=TOTAL)
    expected = []
    for _ in range(TOTAL):
        expected.append(theirs.get_last_lr()[0])
        optimizer.step()
        theirs.step()
    assert np.allclose(rates("cosine", warmup=0)[:TOTAL], expected, atol=1e-6)


def test_warmup_as_long_as_the_run_is_refused():
    with pytest.raises(ValueError, match="warmup_steps expected fewer than the 10 steps of the run, received 10"):
        LearningRate(BASE, 10, Schedule(warmup_steps=10))
