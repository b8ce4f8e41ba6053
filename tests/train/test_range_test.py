"""The learning-rate range test: the engine's own updates at a rising rate, and what it suggests."""

import json
from dataclasses import replace

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image
from support import needs_tensorflow
from train import tiny

from keras_vit import cli
from keras_vit.train import range_test
from keras_vit.train.datasets import Datasets
from keras_vit.train.range_test import RangeTest, Rising, find_rate, smooth
from keras_vit.train.recipe import Average, Curriculum, HeadFirst, Masked, Stage
from keras_vit.train.recipe.file import to_json
from keras_vit.train.stages import spans_of
from keras_vit.train.state import first_state
from keras_vit.train.step import compiled_steps

pytestmark = needs_tensorflow
pytest.importorskip("sklearn", reason="scikit-learn carries the digits")
RECIPE = replace(tiny.RECIPE, curriculum=Curriculum((Stage(0.5, image_size=4),)), head_first=HeadFirst(0.5))


@pytest.fixture(scope="module")
def found():
    """A test of a real run, from a rate that does nothing to one that destroys the model."""
    return find_rate(RECIPE, lowest=1e-5, highest=100.0, steps=60)


def test_the_loss_falls_and_then_grows(found):
    assert found.diverged and 10 < len(found.rates) < 60
    np.testing.assert_allclose(found.rates[:3], [1e-5 * 1e7 ** (step / 59) for step in range(3)], rtol=1e-5)
    assert found.losses[0] == pytest.approx(np.log(10), abs=0.01)  # the head starts at zero
    assert min(found.smoothed) < found.losses[0] - 0.1 and found.losses[-1] > 2 * min(found.smoothed)
    assert found.suggestion == pytest.approx(found.best / 10) and 1e-4 < found.suggestion < 0.1


def test_it_makes_the_updates_of_the_engine(found):
    """The losses are those of the recipe's own step at these rates, without its average, curriculum and first phase."""
    plain = replace(RECIPE, curriculum=Curriculum(), head_first=None, average=Average(), nonfinite="skip", steps=60)
    strategy = tf.distribute.get_strategy()
    data = Datasets.open(plain)
    state = first_state(plain, data.train.labels, 60, strategy, rate=Rising(1e-5, 100.0, 60))
    (span,) = spans_of(plain, 60)
    steps = compiled_steps(plain, state, strategy, span)
    batches = iter(data.batches(span.input_shape, 0)((0, 1)))
    for loss in found.losses[:8]:
        steps(batches, tf.constant(1))
        assert state.counters.mean_loss == loss
        state.counters.next_report()


def test_the_head_alone_can_be_tested(monkeypatch):
    states, first = [], range_test.first_state
    monkeypatch.setattr(range_test, "first_state", lambda *given: states.append(first(*given)) or states[0])
    find_rate(RECIPE, lowest=1e-3, highest=1.0, steps=10, head=True)
    begin = first_state(RECIPE, tuple("0123456789"), 10, tf.distribute.get_strategy()).model
    moved = {
        new.path.split("/")[0]
        for new, old in zip(states[0].trained, begin.trainable_variables, strict=True)
        if not np.array_equal(np.array(new), np.array(old))
    }
    assert moved == {"head"}


def test_what_is_suggested():
    rates = tuple(10.0**power for power in range(-5, 1))
    assert RangeTest(rates, (3, 2, 1, 2, 3, 4), (3, 2, 1, 2, 3, 4), True).suggestion == pytest.approx(1e-4)
    assert RangeTest(rates, (1, 2, 3, 4, 5, 6), (1, 2, 3, 4, 5, 6), True).suggestion is None
    values = np.random.default_rng(0).normal(size=200)
    assert smooth(values, 10).std() < 0.3 * values.std()
    np.testing.assert_allclose(smooth(np.ones(9), 2.5), np.ones(9))
    line = smooth(np.arange(50.0), 2)
    np.testing.assert_allclose(line[10:40], np.arange(10.0, 40.0), atol=1e-3)  # no delay


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"lowest": 0.0}, "lowest expected a positive number, received 0.0"),
        ({"lowest": 1.0, "highest": 0.1}, "highest expected a number above the lowest rate 1, received 0.1"),
        ({"steps": 5}, "steps expected an int of at least 10, received 5"),
        ({"lowest": 1e30, "highest": 1e31, "steps": 10}, "lowest expected a rate at which the loss stays finite"),
    ],
)
def test_wrong_arguments_are_refused_by_name(arguments, message):
    with pytest.raises(ValueError, match=message):
        find_rate(RECIPE, **arguments)
    with pytest.raises(ValueError, match="head expected false with masked patches"):
        find_rate(replace(tiny.RECIPE, masked=Masked()), head=True)


def test_the_verb_prints_a_rate_and_draws(tmp_path, monkeypatch, capsys, found):
    pytest.importorskip("matplotlib", reason="extra `analysis` is not installed")
    monkeypatch.setattr(range_test, "find_rate", lambda *given, **options: found)
    (tmp_path / "recipe.json").write_text(to_json(RECIPE))
    command = ["find-rate", str(tmp_path / "recipe.json"), "--plot", str(tmp_path / "rates.png")]
    assert cli.main(command) == 0
    said = capsys.readouterr()
    assert (
        f"suggested learning rate {found.suggestion:.2g}, a tenth of the rate with the lowest smoothed loss" in said.out
    )
    assert f"--set optimizer.learning_rate={found.suggestion:.2g}" in said.err
    with Image.open(tmp_path / "rates.png") as drawn:
        assert drawn.size[0] > 500
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs" / RECIPE.name).mkdir(parents=True)
    assert cli.main(command) == 0  # the run of this name began at another rate
    assert f"--workdir runs/{RECIPE.name}_rate --set" in capsys.readouterr().err
    assert cli.main([*command, "--json", "--quiet"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["suggestion"] == found.suggestion and len(data["rates"]) == len(data["losses"]) == data["updates"]
    monkeypatch.setattr(range_test, "find_rate", lambda *given, **options: RangeTest((1.0, 2.0), (1, 2), (1, 2), True))
    assert cli.main([*command, "--head"]) == 0
    said = capsys.readouterr()
    assert "no rate is suggested; a lower --lowest may help" in said.out and "next:" not in said.err
