"""Figures of an evaluation against scikit-learn, SciPy, cleanlab and plain loops."""

import numpy as np
import pytest
from PIL import Image

from keras_vit.data.near_duplicates import near_duplicates, thumbnail
from keras_vit.evaluate.calibration import calibration, fit_temperature, softmax
from keras_vit.evaluate.class_metrics import class_metrics, resampled
from keras_vit.evaluate.mistakes import (
    coverage_curve,
    hardest_pairs,
    likely_wrong_labels,
    rejection,
    surest_mistakes,
)

COUNT, CLASSES = 300, 7
RNG = np.random.default_rng(0)
LABELS = RNG.choice(CLASSES - 1, COUNT, p=[0.4, 0.2, 0.2, 0.1, 0.06, 0.04])  # the last class has no image
LOGITS = 3 * (RNG.standard_normal((COUNT, CLASSES)) + 1.8 * np.eye(CLASSES)[LABELS])
LOGITS[:, 4] -= 20  # never predicted
PROBABILITIES = softmax(LOGITS)
PREDICTED, PRESENT = LOGITS.argmax(axis=1), list(range(CLASSES - 1))


def rates(labels, predicted, **options):
    metrics = pytest.importorskip("sklearn.metrics")
    found = metrics.precision_recall_fscore_support(labels, predicted, labels=PRESENT, zero_division=0, **options)
    return np.array(found[:3])


def values(row):
    return [row[name]["value"] for name in ("precision", "recall", "f1")]


def test_scikit_learn_computes_the_same_figures():
    metrics = pytest.importorskip("sklearn.metrics")
    found = class_metrics(LOGITS, LABELS, top=3, resamples=0)
    assert found["accuracy"] == {"value": pytest.approx(metrics.accuracy_score(LABELS, PREDICTED))}
    expected = metrics.top_k_accuracy_score(LABELS, LOGITS, k=3, labels=range(CLASSES))
    assert found["top_k"] == {"k": 3, "value": pytest.approx(expected)} and expected < 1
    assert np.transpose([values(row) for row in found["classes"][:-1]]) == pytest.approx(rates(LABELS, PREDICTED))
    for average in ("macro", "weighted"):
        assert values(found[average]) == pytest.approx(rates(LABELS, PREDICTED, average=average))
    assert values(found["classes"][-1]) == [None] * 3 and values(found["classes"][4])[0] == 0
    confusion = metrics.confusion_matrix(LABELS, PREDICTED, labels=range(CLASSES))
    rows = [(row["images"], row["predicted"], row["correct"]) for row in found["classes"]]
    assert rows == list(zip(confusion.sum(1), confusion.sum(0), confusion.diagonal(), strict=True))


def test_the_intervals_are_percentiles_of_scikit_learns_figures_on_the_same_resamples():
    found = class_metrics(LOGITS, LABELS, resamples=60, level=0.9, seed=3)
    drawn, macro, accuracy = [], [], []
    for i in resampled(COUNT, 60, 3):
        drawn.append(rates(LABELS[i], PREDICTED[i]))
        macro.append(rates(LABELS[i], PREDICTED[i], average="macro")[2])
        accuracy.append(np.mean(LABELS[i] == PREDICTED[i]))
    low, high = np.percentile(drawn, [5, 95], axis=0)
    for i, row in enumerate(found["classes"][:-1]):
        bounds = [(row[name]["low"], row[name]["high"]) for name in ("precision", "recall", "f1")]
        assert np.array(bounds) == pytest.approx(np.stack([low[:, i], high[:, i]], axis=1))
    for row, expected in ((found["macro"]["f1"], macro), (found["accuracy"], accuracy)):
        assert (row["low"], row["high"]) == pytest.approx(np.percentile(expected, [5, 95]))
        assert row["low"] < row["value"] < row["high"]
    assert found == class_metrics(LOGITS, LABELS, resamples=60, level=0.9, seed=3)
    assert found != class_metrics(LOGITS, LABELS, resamples=60, level=0.9, seed=4)


def test_an_interval_covers_as_the_binomial_distribution_says():
    stats = pytest.importorskip("scipy.stats")
    row = class_metrics(LOGITS, LABELS)["accuracy"]
    low, high = np.array(stats.binom.interval(0.95, COUNT, row["value"])) / COUNT
    assert (row["low"], row["high"]) == pytest.approx((low, high), abs=0.01)


def test_equal_scores_count_once_for_the_first_class():
    """As `argmax` does: a model that answers the same for all classes is right for one of them."""
    found = class_metrics(np.zeros((4, 4)), np.arange(4), top=2, resamples=0)
    assert (found["accuracy"]["value"], found["top_k"]["value"]) == (0.25, 0.5)


@pytest.mark.parametrize(
    ("scores", "labels", "message"),
    [
        (np.zeros((2, 3)), [0], "one label per image"),
        (np.zeros((0, 3)), [], "one label per image"),
        (np.zeros((2, 3)), [0, 3], "below 3, received 0 to 3"),
        (np.full((2, 3), np.nan), [0, 1], "finite"),
    ],
)
def test_what_is_no_evaluation_is_refused(scores, labels, message):
    with pytest.raises(ValueError, match=message):
        class_metrics(scores, np.array(labels, int))


def test_the_reliability_curve_and_log_loss_are_scikit_learns():
    metrics, curves = (pytest.importorskip(f"sklearn.{name}") for name in ("metrics", "calibration"))
    found = calibration(PROBABILITIES, LABELS, bins=10)
    confidence, right = PROBABILITIES.max(axis=1), PREDICTED == LABELS
    accuracy, mean = curves.calibration_curve(right, confidence, n_bins=10, strategy="uniform")
    rows = [row for row in found["bins"] if row["images"]]
    assert [row["accuracy"] for row in rows] == pytest.approx(accuracy)
    assert [row["confidence"] for row in rows] == pytest.approx(mean)
    counts = np.array([row["images"] for row in rows])
    assert found["ece"] == pytest.approx(np.sum(counts * np.abs(accuracy - mean)) / COUNT) and found["ece"] > 0.05
    assert found["log_loss"] == pytest.approx(metrics.log_loss(LABELS, PROBABILITIES, labels=range(CLASSES)))
    certain = calibration(np.eye(3)[[0, 1]], [0, 2])
    assert certain["bins"][-1]["images"] == 2 and certain["ece"] == 0.5 and np.isfinite(certain["log_loss"])


def test_the_temperature_is_scipys_minimum_and_scikit_learns():
    optimize = pytest.importorskip("scipy.optimize")
    metrics = pytest.importorskip("sklearn.metrics")

    def log_loss(temperature):
        return metrics.log_loss(LABELS, softmax(LOGITS, temperature), labels=range(CLASSES))

    expected = optimize.minimize_scalar(log_loss, bounds=(0.1, 20), method="bounded", options={"xatol": 1e-9}).x
    assert fit_temperature(LOGITS, LABELS) == pytest.approx(expected, rel=1e-5) and expected > 1.3
    probabilities = PROBABILITIES.astype("float64")
    assert fit_temperature(np.log(probabilities), LABELS) == pytest.approx(expected, rel=1e-5)  # an export has these
    after = softmax(LOGITS, expected)
    assert (after.argmax(axis=1) == PREDICTED).all()
    assert calibration(after, LABELS)["log_loss"] < calibration(PROBABILITIES, LABELS)["log_loss"]


def test_the_temperature_of_logits_that_are_three_times_too_large_is_three():
    rng = np.random.default_rng(1)
    logits = 2 * rng.standard_normal((4000, 5))
    labels = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)  # drawn by the softmax
    found = fit_temperature(3 * logits, labels)
    assert found == pytest.approx(3, rel=0.05)
    assert (
        calibration(softmax(3 * logits, found), labels)["ece"] < 0.02 < calibration(softmax(3 * logits), labels)["ece"]
    )


def test_scikit_learns_temperature_scaling_gives_the_same_probabilities():
    from sklearn.base import BaseEstimator, ClassifierMixin

    calibrated = pytest.importorskip("sklearn.calibration").CalibratedClassifierCV
    frozen = pytest.importorskip("sklearn.frozen").FrozenEstimator

    class Logits(ClassifierMixin, BaseEstimator):
        def fit(self, x, y):
            self.classes_ = np.unique(LABELS)
            return self

        def decision_function(self, x):
            return x

        def predict(self, x):
            return x.argmax(axis=1)

    logits = LOGITS[:, :-1]  # scikit-learn expects images of every class
    other = calibrated(frozen(Logits().fit(None, None)), method="temperature").fit(logits, LABELS)
    expected = other.predict_proba(logits)
    assert softmax(logits, fit_temperature(logits, LABELS)) == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("sign", [1, -1], ids=["all right", "all wrong"])
def test_a_temperature_needs_some_mistakes(sign):
    with pytest.raises(ValueError, match="only correct" if sign == 1 else "no temperature improves"):
        fit_temperature(sign * np.eye(3), np.arange(3))


def test_coverage_and_accuracy_are_a_loop_over_thresholds():
    curve = coverage_curve(np.round(PROBABILITIES, 2), LABELS)  # rounded, so that confidences are equal
    confidence, right = np.round(PROBABILITIES, 2).max(axis=1), PREDICTED == LABELS
    expected = []
    for threshold in sorted(set(confidence), reverse=True):
        answered = confidence >= threshold
        expected.append((threshold, answered.mean(), right[answered].mean()))
    assert curve == pytest.approx(np.array(expected)) and len(curve) < COUNT
    found = rejection(np.round(PROBABILITIES, 2), LABELS)
    for row in found["by_coverage"]:
        fits = [x for x in expected if x[1] >= row["requested"] - 1e-12]
        assert (row["threshold"], row["coverage"], row["accuracy"]) == pytest.approx(fits[0])
    for row in found["by_accuracy"]:
        fits = [x for x in expected if x[2] >= row["requested"]]
        assert row["coverage"] == (pytest.approx(max(x[1] for x in fits)) if fits else None)
    assert found["by_coverage"][0]["accuracy"] == pytest.approx(right.mean())


def test_the_surest_mistakes_and_the_hardest_pairs():
    metrics = pytest.importorskip("sklearn.metrics")
    found = surest_mistakes(PROBABILITIES, LABELS, most=5)
    wrong = [i for i in range(COUNT) if PREDICTED[i] != LABELS[i]]
    assert found.tolist() == sorted(wrong, key=lambda i: -PROBABILITIES[i].max())[:5]
    confusion = metrics.confusion_matrix(LABELS, PREDICTED, labels=range(CLASSES))
    pairs = {
        (i, j): confusion[i, j] + confusion[j, i]
        for i in range(CLASSES)
        for j in range(i)
        if confusion[i, j] + confusion[j, i]
    }
    found = hardest_pairs(confusion)
    assert {(j, i): a + b for i, j, a, b in found} == pairs
    assert [a + b for *_, a, b in found] == sorted(pairs.values(), reverse=True)
    i, j, a, b = found[0]
    assert (a, b) == tuple(
        sum(pair == wanted for pair in zip(LABELS, PREDICTED, strict=True)) for wanted in ((i, j), (j, i))
    )


# Of cleanlab 2.9: `find_label_issues`, filtered by "confident_learning" and ranked by "self_confidence".
CLEANLAB = {
    1: [161, 188, 43, 115, 99, 152, 179, 59, 57, 6, 190, 21, 36],
    2: [45, 101, 172, 159, 116, 150, 148, 0, 154, 140, 127, 146, 74, 166, 55, 195, 72, 183, 67],
    3: [27, 4, 143, 127, 142, 29, 19, 179, 120, 7, 14, 99, 98, 126, 154],
}


@pytest.mark.parametrize("seed", CLEANLAB)
def test_likely_wrong_labels_are_cleanlabs(seed):
    rng = np.random.default_rng(seed)
    true = rng.integers(0, 4, 200)
    logits = rng.normal(size=(200, 4)) + 2.5 * np.eye(4)[true]
    given = np.where(rng.uniform(size=200) < 0.15, rng.integers(0, 4, 200), true)
    powers = np.exp(2 * logits)
    probabilities = powers / powers.sum(axis=1, keepdims=True)
    indices, classes = likely_wrong_labels(probabilities, given)
    assert indices.tolist() == CLEANLAB[seed]
    changed = np.flatnonzero(given != true)
    hits = np.isin(indices, changed)
    assert hits.mean() > 3 * len(changed) / len(true) and (classes[hits] == true[indices[hits]]).mean() > 0.8


def test_no_label_is_suspect_where_the_model_agrees():
    indices, classes = likely_wrong_labels(softmax(5 * np.eye(3)), np.arange(3))
    assert len(indices) == len(classes) == 0


def photograph(seed):
    """Smooth noise in colour, which has large structures as photographs have."""
    noise = np.random.default_rng(seed).integers(0, 256, (6, 6, 3), "uint8")
    return Image.fromarray(noise).resize((64, 64), Image.Resampling.BICUBIC)


def test_near_duplicates_survive_size_compression_and_brightness(tmp_path):
    photographs = [photograph(seed) for seed in range(8)]
    photographs[0].save(tmp_path / "0.jpg", quality=40)
    changed = [
        Image.open(tmp_path / "0.jpg"),
        photographs[1].resize((40, 40)),
        photographs[2].point(lambda value: 0.7 * value + 20),
        photograph(99),
        photographs[4].transpose(Image.Transpose.FLIP_LEFT_RIGHT),
        Image.new("RGB", (64, 64), "white"),
    ]
    vectors = [[thumbnail(np.asarray(image, "float32")) for image in images] for images in (changed, photographs)]
    found = near_duplicates(*vectors)
    assert {(i, j) for i, j, _ in found} == {(0, 0), (1, 1), (2, 2)}
    grey = [
        np.asarray(image.convert("L").resize((16, 16), 2), "float64").ravel() for image in (changed[0], photographs[0])
    ]
    assert next(value for i, _, value in found if i == 0) == pytest.approx(np.corrcoef(*grey)[0, 1], abs=1e-5)
    assert found == sorted(found, key=lambda row: -row[2])
    assert near_duplicates(vectors[0], np.zeros((0, 256))) == []


def test_near_duplicates_are_found_beyond_one_chunk(monkeypatch):
    monkeypatch.setattr("keras_vit.data.near_duplicates.CHUNK", 3)
    vectors = np.stack([thumbnail(np.asarray(photograph(seed), "float32")) for seed in range(8)])
    order = [5, 0, 7, 3]
    assert {(i, j) for i, j, _ in near_duplicates(vectors[order], vectors)} == set(enumerate(order))
