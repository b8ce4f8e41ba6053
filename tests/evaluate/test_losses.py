"""Losses against their formulas in NumPy, and against code that we did not write."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf
from support import needs_tensorflow

from keras_vit.data.sources import from_arrays
from keras_vit.evaluate.losses import ClassTerms, class_terms, example_losses
from keras_vit.train.recipe import Loss

pytestmark = needs_tensorflow
CLASSES, COUNT = 5, 40
RNG = np.random.default_rng(0)
LOGITS = RNG.normal(0, 3, (COUNT, CLASSES)).astype("float32")
LABELS = np.concatenate([np.arange(CLASSES), RNG.choice(CLASSES, COUNT - CLASSES, p=[0.6, 0.2, 0.1, 0.05, 0.05])])
ONE_HOT = np.eye(CLASSES, dtype="float32")[LABELS]
MIXED = (0.7 * ONE_HOT + 0.3 * ONE_HOT[::-1]).astype("float32")  # as after mixup
SEVERAL = (RNG.uniform(size=(COUNT, CLASSES)) < [0.6, 0.4, 0.2, 0.2, 0.1]).astype("float32")
NAMES = ("a", "b", "c", "d", "e")
EXAMPLES = from_arrays(np.zeros((COUNT, 2, 2, 1), "uint8"), LABELS, NAMES)
WEIGHTS = np.array([0.5, 1.0, 2.0, 3.0, 4.0], "float32")


def losses(loss, targets, terms=None, logits=LOGITS):
    return example_losses(loss, tf.constant(targets), tf.constant(logits), terms or ClassTerms()).numpy()


def softmax(logits):
    powers = np.exp(logits.astype("float64"))
    return powers / powers.sum(axis=1, keepdims=True)


def sigmoid(logits):
    return 1 / (1 + np.exp(-logits.astype("float64")))


def test_balanced_weights_are_scikit_learns():
    compute = pytest.importorskip("sklearn.utils.class_weight").compute_class_weight
    found = class_terms(Loss(class_weights="balanced"), EXAMPLES)
    assert np.allclose(found.weights, compute("balanced", classes=np.arange(CLASSES), y=LABELS), rtol=1e-6)
    assert found.offsets is None
    for index, weight in enumerate(class_terms(Loss("sigmoid", class_weights="balanced"), EXAMPLES).weights):
        others, own = compute("balanced", classes=np.array([0, 1]), y=(index == LABELS).astype(int))
        assert weight == pytest.approx(own / others, rel=1e-6)


def test_weights_by_name_and_one_for_the_others():
    assert class_terms(Loss(class_weights={"d": 3, "b": 0.5}), EXAMPLES).weights.tolist() == [1, 0.5, 1, 3, 1]
    with pytest.raises(ValueError, match="class_weights expected names of classes, received 'dd'; the nearest are d,"):
        class_terms(Loss(class_weights={"dd": 3}), EXAMPLES)


def test_a_class_without_images_and_one_in_every_image_are_refused():
    more = dataclasses.replace(EXAMPLES, labels=(*NAMES, "f"), counts=(*EXAMPLES.counts, 0))
    for loss, option in ((Loss(class_weights="balanced"), "class_weights 'balanced'"),
                         (Loss(logit_adjustment=1.0), "logit_adjustment")):  # fmt: skip
        with pytest.raises(ValueError, match=f"{option} expected training images of each class, found none of f; add"):
            class_terms(loss, more)
    everywhere = dataclasses.replace(EXAMPLES, counts=(COUNT, *EXAMPLES.counts[1:]))
    with pytest.raises(ValueError, match="expected training images without each class, found 'a' in all of them"):
        class_terms(Loss("sigmoid", class_weights="balanced"), everywhere)


def test_counts_of_a_stream_are_those_of_its_labels():
    stream = dataclasses.replace(EXAMPLES, counts=None)
    loss = Loss(class_weights="balanced")
    assert np.array_equal(class_terms(loss, stream).weights, class_terms(loss, EXAMPLES).weights)


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("targets", [ONE_HOT, MIXED], ids=["one class", "mixed"])
def test_weighted_cross_entropy_is_torchs(smoothing, targets):
    torch = pytest.importorskip("torch", reason="extra `parity` is not installed")
    loss = Loss(label_smoothing=smoothing, class_weights="balanced")
    function = torch.nn.CrossEntropyLoss(torch.tensor(WEIGHTS), label_smoothing=smoothing, reduction="none")
    expected = function(torch.tensor(LOGITS), torch.tensor(targets)).numpy()
    assert np.allclose(losses(loss, targets, ClassTerms(WEIGHTS)), expected, rtol=1e-5, atol=1e-6)


def test_weighted_sigmoid_is_torchs():
    torch = pytest.importorskip("torch", reason="extra `parity` is not installed")
    function = torch.nn.BCEWithLogitsLoss(pos_weight=torch.tensor(WEIGHTS), reduction="none")
    expected = function(torch.tensor(LOGITS), torch.tensor(SEVERAL)).sum(axis=1).numpy()
    found = losses(Loss("sigmoid", class_weights="balanced"), SEVERAL, ClassTerms(WEIGHTS))
    assert np.allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("gamma", [0.5, 2.0])
def test_focal_loss_is_keras_and_torchvisions(gamma):
    import keras

    categorical = keras.losses.CategoricalFocalCrossentropy(1.0, gamma, from_logits=True, reduction=None)
    found = losses(Loss(focal_gamma=gamma), ONE_HOT)
    assert np.allclose(found, categorical(ONE_HOT, LOGITS), rtol=1e-4, atol=1e-5)
    shares = softmax(LOGITS)
    assert np.allclose(found, -np.sum(ONE_HOT * (1 - shares) ** gamma * np.log(shares), axis=1), rtol=1e-4, atol=1e-6)
    binary = keras.losses.BinaryFocalCrossentropy(False, gamma=gamma, from_logits=True, reduction=None)
    expected = CLASSES * np.asarray(binary(SEVERAL, LOGITS))  # Keras returns the mean over the classes
    assert np.allclose(losses(Loss("sigmoid", focal_gamma=gamma), SEVERAL), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("loss", [Loss(focal_gamma=0.5), Loss("sigmoid", focal_gamma=0.5)], ids=["softmax", "sigmoid"])
def test_gradients_of_the_focal_loss_are_finite_for_certain_answers(loss):
    logits = tf.constant([[200.0, 0.0, 0.0], [-200.0, 0.0, 0.0]])
    with tf.GradientTape() as tape:
        tape.watch(logits)
        values = example_losses(loss, tf.constant([[1.0, 0.0, 0.0]] * 2), logits)
    assert np.isfinite(values).all() and np.isfinite(tape.gradient(values, logits)).all()
    assert values[1] > 100


@pytest.mark.parametrize("tau", [1.0, 1.5])
def test_logit_adjustment_is_its_formula(tau):
    """Equation 10 of the paper: log(1 + sum over the other classes of (their share / its own)**tau * exp(margin))."""
    loss = Loss(logit_adjustment=tau)
    shares = np.bincount(LABELS) / COUNT
    expected = []
    for row, label in zip(LOGITS.astype("float64"), LABELS, strict=True):
        others = [i for i in range(CLASSES) if i != label]
        ratios = [(shares[i] / shares[label]) ** tau * np.exp(row[i] - row[label]) for i in others]
        expected.append(np.log(1 + sum(ratios)))
    assert np.allclose(losses(loss, ONE_HOT, class_terms(loss, EXAMPLES)), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("kind", "beta", "used"), [("soft", None, 0.95), ("hard", None, 0.8), ("soft", 0.6, 0.6)])
def test_bootstrapping_is_its_formula(kind, beta, used):
    """Equations 6 and 7 of the paper, and their two-class forms for every class of a sigmoid."""
    shares = softmax(LOGITS)
    guess = shares if kind == "soft" else np.eye(CLASSES)[LOGITS.argmax(axis=1)]
    expected = -np.sum((used * MIXED + (1 - used) * guess) * np.log(shares), axis=1)
    options = {"bootstrap": kind, "bootstrap_beta": beta}
    assert np.allclose(losses(Loss(**options), MIXED), expected, rtol=1e-5)
    scores = sigmoid(LOGITS)
    targets = used * SEVERAL + (1 - used) * (scores if kind == "soft" else scores > 0.5)
    expected = -np.sum(targets * np.log(scores) + (1 - targets) * np.log(1 - scores), axis=1)
    assert np.allclose(losses(Loss("sigmoid", **options), SEVERAL), expected, rtol=1e-4)


def test_with_beta_1_nothing_is_bootstrapped():
    for kind in ("soft", "hard"):
        assert np.allclose(losses(Loss(bootstrap=kind, bootstrap_beta=1.0), MIXED), losses(Loss(), MIXED), rtol=1e-5)


@pytest.mark.parametrize("factors", [(0.1, 1.0), (6.0, 0.1)])
def test_symmetric_cross_entropy_is_its_formula(factors):
    """For one class the reverse cross entropy is -A * (1 - p), with A = -4: section 3.2 of the paper."""
    shares = softmax(LOGITS)
    right = shares[np.arange(COUNT), LABELS]
    expected = -factors[0] * np.log(right) + factors[1] * 4 * (1 - right)
    assert np.allclose(losses(Loss(symmetric=factors), ONE_HOT), expected, rtol=1e-5, atol=1e-6)
    log_targets = np.maximum(np.log(np.maximum(MIXED, 1e-9)), -4)
    expected = -factors[0] * np.sum(MIXED * np.log(shares), axis=1) - factors[1] * np.sum(shares * log_targets, axis=1)
    assert np.allclose(losses(Loss(symmetric=factors), MIXED), expected, rtol=1e-5, atol=1e-6)


def test_symmetric_weights_are_of_the_cross_entropy():
    right = softmax(LOGITS)[np.arange(COUNT), LABELS]
    expected = -WEIGHTS[LABELS] * np.log(right) + 4 * (1 - right)
    found = losses(Loss(class_weights="balanced", symmetric=(1.0, 1.0)), ONE_HOT, ClassTerms(WEIGHTS))
    assert np.allclose(found, expected, rtol=1e-5, atol=1e-6)
