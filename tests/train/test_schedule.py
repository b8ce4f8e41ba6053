"""The learning rate against its closed forms, and optax's where it is there."""

import math

import numpy as np
import pytest

from keras_vit.train.optim.schedule import LearningRate, rate_at
from keras_vit.train.recipe import Schedule

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


@pytest.mark.parametrize("cooldown", [0, 30])
@pytest.mark.parametrize("decay", ["cosine", "linear", "rsqrt", "constant"])
def test_optax_agrees_at_every_step(decay, cooldown):
    """Composed of optax's own parts; the tolerance is 1e-6 of the rate, or 1e-7 of the base where it nears 0."""
    optax = pytest.importorskip("optax", reason="optax is not installed")
    end, timescale = 1e-2, 20
    theirs = {
        "cosine": optax.cosine_decay_schedule(BASE, TOTAL - WARM),
        "linear": optax.linear_schedule(BASE, end, TOTAL - WARM),
        "rsqrt": lambda step: BASE * (timescale / (timescale + step)) ** 0.5,
        "constant": optax.constant_schedule(BASE),
    }[decay]
    parts, ends = [optax.linear_schedule(0.0, BASE, WARM), theirs], [WARM]
    if cooldown:
        fall = optax.linear_schedule(1.0, 0.0, cooldown)
        parts.append(lambda step: theirs(step + TOTAL - cooldown - WARM) * fall(step))
        ends.append(TOTAL - cooldown)
    joined = optax.join_schedules(parts, ends)
    ours = LearningRate(BASE, TOTAL, Schedule(decay, WARM, end, timescale, cooldown))
    expected = [float(joined(step)) for step in range(TOTAL + 1)]
    assert np.allclose([float(ours(step)) for step in range(TOTAL + 1)], expected, rtol=1e-6, atol=1e-7 * BASE)


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


@pytest.mark.parametrize(
    ("warmup", "cooldown", "expected"), [(9, 0, (9, 0)), (10, 0, (1, 0)), (500, 500, (1, 9)), (4, 7, (4, 6))]
)
def test_a_warmup_and_a_cooldown_too_long_for_the_run_shrink(warmup, cooldown, expected):
    found = LearningRate(BASE, 10, Schedule("constant", warmup_steps=warmup, cooldown_steps=cooldown))
    assert (found.schedule.warmup_steps, found.schedule.cooldown_steps) == expected
    assert float(found(expected[0])) == pytest.approx(BASE * min(1, (10 - expected[0]) / max(expected[1], 1)))


def test_a_run_of_a_single_step_has_no_warmup():
    assert float(LearningRate(BASE, 1, Schedule(warmup_steps=10))(0)) == pytest.approx(BASE)
