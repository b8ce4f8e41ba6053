"""Runs whose loss and sampling depend on the labels: exact resume, equal on all devices, and what is refused."""

import os
import signal
from dataclasses import replace

import keras
import numpy as np
import pytest
import tensorflow as tf
from support import first_quick, max_difference, needs_tensorflow, randomise, run_python
from train import tiny
from train.test_step import IMAGES, LABELS, TARGETS, TWO_CPUS
from train.test_step import RECIPE as PLAIN

from keras_vit.evaluate.losses import ClassTerms
from keras_vit.train import engine, step
from keras_vit.train.checkpoint import Checkpoints
from keras_vit.train.datasets import Datasets
from keras_vit.train.dry_run import dry_run
from keras_vit.train.engine import train
from keras_vit.train.recipe import Augment, Data, Loss, Masked
from keras_vit.train.recipe.file import differences, from_json, override, to_json
from keras_vit.train.recipe.labels import check_labels
from keras_vit.train.stages import spans_of
from keras_vit.train.state import first_state

pytestmark = needs_tensorflow
WEIGHTED = Loss(class_weights={"1": 2.0, "2": 3.0}, focal_gamma=1.0)
RECIPE = replace(
    tiny.RECIPE,
    data=Data("arrays", batch_size=8, sampling="balanced"),
    augment=Augment(shift=0.2, mixup=0.2),
    loss=WEIGHTED,
    epochs=2,
)
LOSSES = {
    "weights and focal": WEIGHTED,
    "logit adjustment": Loss(logit_adjustment=1.0, label_smoothing=0.1),
    "bootstrap": Loss(bootstrap="hard"),
    "symmetric": Loss(symmetric=(0.1, 1.0)),
    "sigmoid": Loss("sigmoid", class_weights="balanced", bootstrap="soft"),
}


@pytest.fixture(scope="module")
def imbalanced(tmp_path_factory):
    """Three classes of 24, 6 and 2 training images, as a file of arrays."""
    rng = np.random.default_rng(0)
    path = tmp_path_factory.mktemp("arrays") / "imbalanced.npz"
    train_labels, test_labels = np.repeat([0, 1, 2], [24, 6, 2]), np.repeat([0, 1, 2], 8)
    splits = {}
    for name, labels in (("train", train_labels), ("test", test_labels)):
        noise = rng.integers(0, 80, (len(labels), 8, 8), "uint8")
        splits |= {f"x_{name}": noise + 80 * labels[:, None, None].astype("uint8"), f"y_{name}": labels}
    np.savez(path, **splits)
    return str(path)


def weights(workdir):
    return [np.asarray(w) for w in keras.saving.load_model(workdir / "model.keras", compile=False).weights]


@pytest.mark.broad
def test_stopped_and_gone_on_is_equal_to_the_bit(imbalanced, tmp_path, monkeypatch):
    monkeypatch.setattr(engine, "CALL_SECONDS", 0.0)
    train(RECIPE, tmp_path / "whole", imbalanced)
    save = Checkpoints.save

    def saving(self, at):
        save(self, at)
        if at == 5:
            os.kill(os.getpid(), signal.SIGTERM)

    with monkeypatch.context() as patch:
        patch.setattr(Checkpoints, "save", saving)
        with pytest.raises(SystemExit):
            train(RECIPE, tmp_path / "run", imbalanced)
    train(RECIPE, tmp_path / "run", imbalanced)
    pairs = zip(weights(tmp_path / "whole"), weights(tmp_path / "run"), strict=True)
    assert all(np.array_equal(a, b) for a, b in pairs)


def after(recipe, terms):
    """The loss and the weights after two updates."""
    strategy = tf.distribute.get_strategy()
    state = first_state(recipe, LABELS, 100, strategy)
    randomise(state.model)
    update = tf.function(step.Step(recipe, state, strategy, spans_of(recipe, 100)[0], terms=terms))
    losses = [float(update(IMAGES, TARGETS)[0]) for _ in range(2)]
    return losses, [np.asarray(variable) for variable in state.trained]


@pytest.mark.parametrize("name", first_quick(LOSSES))
def test_micro_batches_make_the_plain_update(name):
    loss = LOSSES[name]
    terms = ClassTerms(
        np.array([0.5, 1.0, 3.0], "float32") if loss.class_weights else None,
        np.log(np.array([0.7, 0.2, 0.1], "float32")) if loss.logit_adjustment else None,
    )
    recipe = replace(PLAIN, loss=loss)
    losses, expected = after(recipe, terms)
    found, parts = after(replace(recipe, optimizer=replace(recipe.optimizer, accumulate=4)), terms)
    assert np.allclose(found, losses, atol=1e-6) and max_difference(parts, expected) < 1e-6
    plain, _ = after(replace(PLAIN, loss=Loss(loss.kind)), ClassTerms())
    assert abs(plain[0] - losses[0]) > 1e-3


MIRRORED = """
import tempfile
import keras
from keras_vit.train.engine import train
from train.test_labels import *

for loss in (WEIGHTED, Loss(symmetric=(0.5, 1.0))):
    recipe, found = replace(RECIPE, loss=loss), []
    recipe = override(recipe, ["optimizer.epsilon=1e-4", "optimizer.accumulate=2"])
    for strategy in ("one", "mirrored"):
        with tempfile.TemporaryDirectory() as folder:
            summary = train(recipe, folder + "/run", DATA, strategy=strategy)
            model = keras.saving.load_model(folder + "/run/model.keras", compile=False)
            found.append((summary["replicas"], [np.asarray(weight) for weight in model.weights]))
    (one, a), (two, b) = found
    print(one, two, max_difference(a, b) < 1e-6, max_difference(a[-2:], [np.zeros_like(x) for x in a[-2:]]) > 1e-3)
"""


@pytest.mark.broad
def test_two_replicas_make_the_run_of_one_device(imbalanced):
    printed = run_python(TWO_CPUS + f"DATA = {imbalanced!r}\n" + MIRRORED)
    assert printed.strip().splitlines()[-2:] == ["1 2 True True"] * 2


def test_the_terms_are_of_the_training_split(imbalanced):
    uniform = replace(RECIPE, data=replace(RECIPE.data, sampling="uniform"))
    loss = Loss(class_weights="balanced", logit_adjustment=1.0)
    found = Datasets.open(replace(uniform, loss=loss), imbalanced).terms
    assert np.allclose(found.weights, [32 / 72, 32 / 18, 32 / 6])
    assert np.allclose(found.offsets, np.log([24 / 32, 6 / 32, 2 / 32]))
    with pytest.raises(ValueError, match="class_weights expected names of classes, received 'cat'"):
        Datasets.open(replace(RECIPE, loss=Loss(class_weights={"cat": 2.0})), imbalanced)


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
def test_a_recipe_comes_back_from_json(loss):
    recipe = replace(RECIPE, loss=loss)
    assert from_json(to_json(recipe)) == recipe
    assert bool(differences(recipe, replace(recipe, loss=Loss()))) and not differences(recipe, recipe)


@pytest.mark.broad
def test_a_dry_run_has_the_loss_and_the_sampling():
    for loss in (WEIGHTED, Loss(bootstrap="soft")):
        assert all(np.isfinite(dry_run(replace(RECIPE, loss=loss))["losses"]))
    uniform = replace(RECIPE, data=Data("arrays", batch_size=8))
    assert np.isfinite(dry_run(replace(uniform, loss=Loss(class_weights="balanced", logit_adjustment=1.0)))["losses"])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (['loss.class_weights="even"'], "class_weights expected 'balanced', a positive number for each name"),
        (['loss.class_weights={"a": 0}'], "class_weights expected 'balanced', a positive number .*'a': 0"),
        (["loss.focal_gamma=-1"], "focal_gamma expected a number of at least 0, received -1"),
        (["loss.bootstrap=medium"], "bootstrap expected 'soft', 'hard' or null, received 'medium'"),
        (["loss.bootstrap_beta=1.1"], r"bootstrap_beta expected a share in \[0, 1\] or null, received 1.1"),
        (["loss.symmetric=[1]"], r"symmetric expected two numbers of at least 0, or null, received \(1.0,\)"),
        (["data.sampling=even"], "sampling expected 'uniform' or 'balanced', received 'even'"),
        (["loss.bootstrap_beta=0.9"], "bootstrap_beta expected null without bootstrap, received 0.9"),
        (["loss.bootstrap=soft", "loss.symmetric=[1, 1]"], "symmetric expected null with bootstrap"),
        (["loss.bootstrap=soft", "loss.focal_gamma=2"], "focal_gamma expected 0 with .* class_weights fits"),
        (["loss.kind=sigmoid", "loss.logit_adjustment=1"], "logit_adjustment expected 0 with the sigmoid .* fits"),
        (["loss.kind=sigmoid", "loss.symmetric=[1, 1]"], "symmetric expected null with the sigmoid .* fits"),
        (["data.sampling=balanced", "loss.class_weights=balanced"], "class_weights expected null or a weight"),
        (["data.sampling=balanced", "loss.logit_adjustment=1"], "logit_adjustment expected 0 with sampling 'balanced'"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_in_a_sentence(settings, message):
    with pytest.raises(ValueError, match=message) as error:
        check_labels(override(PLAIN, settings))
    assert "\n" not in str(error.value) and str(error.value).endswith(".")


def test_a_run_is_refused_before_it_claims_its_folder(imbalanced, tmp_path):
    with pytest.raises(ValueError, match="logit_adjustment expected 0 with sampling 'balanced'"):
        train(replace(RECIPE, loss=Loss(logit_adjustment=1.0)), tmp_path / "run", imbalanced)
    with pytest.raises(ValueError, match="sampling expected 'uniform' with masked patches"):
        check_labels(replace(RECIPE, loss=Loss(), augment=Augment(), masked=Masked()))
    assert not (tmp_path / "run" / "recipe.json").exists()
