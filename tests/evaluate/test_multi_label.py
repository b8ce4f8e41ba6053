"""Average precision, thresholds and F1 against scikit-learn."""

import numpy as np
import pytest

from keras_vit.evaluate.multi_label import average_precision, f1_thresholds, label_metrics

metrics = pytest.importorskip("sklearn.metrics", reason="scikit-learn is the other implementation")
RNG = np.random.default_rng(0)
HOT = (RNG.uniform(size=(60, 6)) < [0.5, 0.3, 0.1, 0.05, 0.95, 0.2]).astype("float32")
SCORES = np.clip(0.3 * HOT + RNG.uniform(0, 0.7, HOT.shape), 0, 1).astype("float32")
COARSE = np.round(SCORES, 1).astype("float32")  # with many equal scores
assert HOT.any(axis=0).all()


@pytest.mark.parametrize("scores", [SCORES, COARSE], ids=["distinct", "equal"])
def test_average_precision_is_scikit_learns(scores):
    for own, values in zip(HOT.T, scores.T, strict=True):
        assert average_precision(own, values) == pytest.approx(metrics.average_precision_score(own, values), abs=1e-12)
    found = label_metrics(HOT, scores, (0.5,) * 6)["mean_average_precision"]
    assert found == pytest.approx(metrics.average_precision_score(HOT, scores, average="macro"), abs=1e-12)


@pytest.mark.parametrize("scores", [SCORES, COARSE], ids=["distinct", "equal"])
def test_no_threshold_has_a_higher_f1(scores):
    for own, values, threshold in zip(HOT.T, scores.T, f1_thresholds(HOT, scores), strict=True):
        precision, recall, _ = metrics.precision_recall_curve(own, values)
        best = np.max(2 * precision * recall / np.maximum(precision + recall, 1e-12))
        assert metrics.f1_score(own, values >= np.float32(threshold)) == pytest.approx(best, abs=1e-9)
        assert threshold not in values or not (values < threshold).any()  # between two scores


@pytest.mark.parametrize("thresholds", [(0.5,) * 6, (0.1, 0.9, 0.4, 0.5, 0.2, 0.99)])
def test_f1_is_scikit_learns(thresholds):
    found = label_metrics(HOT, SCORES, thresholds)
    called = np.asarray(thresholds, "float32") <= SCORES
    assert found["f1"] == pytest.approx(metrics.f1_score(HOT, called, average="macro", zero_division=0), abs=1e-12)
    assert found["micro_f1"] == pytest.approx(metrics.f1_score(HOT, called, average="micro"), abs=1e-12)


def test_a_label_without_an_image_counts_in_no_mean_and_has_the_usual_threshold():
    hot = HOT.copy()
    hot[:, 2] = 0
    others = [0, 1, 3, 4, 5]
    thresholds = f1_thresholds(hot, SCORES)
    assert thresholds[2] == 0.5
    found, expected = label_metrics(hot, SCORES, thresholds), label_metrics(
        HOT[:, others], SCORES[:, others], np.array(thresholds)[others]
    )  # fmt: skip
    assert found["mean_average_precision"] == pytest.approx(expected["mean_average_precision"])
    assert found["f1"] == pytest.approx(expected["f1"])
    assert np.isnan(label_metrics(0 * hot, SCORES, thresholds)["f1"])


def test_a_label_of_a_perfect_model():
    hot = np.array([[1], [1], [0], [0]], "float32")
    scores = np.array([[0.9], [0.8], [0.2], [0.1]], "float32")
    assert f1_thresholds(hot, scores) == (pytest.approx(0.5),)
    assert label_metrics(hot, scores, (0.5,)) == {"mean_average_precision": 1, "f1": 1, "micro_f1": 1}
