"""Several labels with intervals, and two models on the same images, against scikit-learn and SciPy."""

import numpy as np
import pytest

from keras_vit.evaluate import label_agreement, label_results, paired_test, value_agreement
from keras_vit.evaluate.class_metrics import resampled
from keras_vit.evaluate.label_results import LabelRanks

metrics = pytest.importorskip("sklearn.metrics", reason="scikit-learn is the other implementation")
stats = pytest.importorskip("scipy.stats", reason="SciPy is the other implementation")
LABELS, LIMITS = ("cat", "dog", "owl", "none"), np.array([0.5, 0.3, 0.6, 0.5])


def drawn(count=60, seed=0, noise=0.3):
    """Labels (N, 4), the last of which no image has, and probabilities with ties."""
    rng = np.random.default_rng(7)
    hot = (rng.uniform(size=(count, 4)) < [0.5, 0.3, 0.15, 0]).astype("int64")
    noisy = 0.3 * hot + 0.35 + noise * np.random.default_rng(seed).normal(size=hot.shape)
    return hot, np.clip(noisy, 0, 1).round(1).astype("float32")


def test_the_figures_of_labels_are_scikit_learns_and_their_intervals_those_of_repeated_images():
    hot, scores = drawn()
    names = [f"{i}.png" for i in range(len(hot))]
    found = label_results(scores, hot, LIMITS, LABELS, names, resamples=50)
    called = scores >= LIMITS.astype("float32")
    expected = [metrics.average_precision_score(hot[:, k], scores[:, k]) for k in range(3)]
    rows = found["labels"]
    assert [row["average_precision"]["value"] for row in rows[:3]] == pytest.approx(expected)
    assert rows[3]["average_precision"]["value"] is None and rows[3]["images"] == 0
    assert found["mean_average_precision"]["value"] == pytest.approx(np.mean(expected))
    own = metrics.precision_recall_fscore_support(hot, called, zero_division=0)
    for name, values in zip(("precision", "recall", "f1"), own[:3], strict=True):
        assert [row[name]["value"] for row in rows[:3]] == pytest.approx(values[:3])
    assert found["micro_f1"]["value"] == pytest.approx(metrics.f1_score(hot, called, average="micro"))
    assert found["f1"]["value"] == pytest.approx(own[2][:3].mean())
    assert found["exact"]["value"] == pytest.approx(metrics.accuracy_score(hot, called))
    repeated = [
        metrics.average_precision_score(hot[i, 0], scores[i, 0]) for i in resampled(len(hot), 50, 0)
    ]  # fmt: skip
    low, high = np.percentile(repeated, [2.5, 97.5])
    assert (rows[0]["average_precision"]["low"], rows[0]["average_precision"]["high"]) == pytest.approx((low, high))
    mistakes = found["surest_mistakes"]
    assert len(mistakes) == min((called != hot).sum(), 50)
    first = mistakes[0]
    assert called[int(first["image"][:-4]), LABELS.index(first["label"])] != first["has_label"]


def test_average_precisions_of_weighted_images_are_scikit_learns():
    hot, scores = drawn()
    weights = np.random.default_rng(1).integers(0, 4, len(hot)).astype("float64")
    found = LabelRanks(scores, hot).average_precisions(weights)
    expected = [metrics.average_precision_score(hot[:, k], scores[:, k], sample_weight=weights) for k in range(3)]
    assert found[:3] == pytest.approx(expected) and np.isnan(found[3])


@pytest.mark.parametrize("count", [9, 80])
def test_the_paired_test_is_scipys(count):
    differences = np.random.default_rng(count).normal(0.25, 1, count)
    expected = stats.permutation_test((differences,), np.sum, permutation_type="samples", n_resamples=20_000)
    assert paired_test(differences) == pytest.approx(expected.pvalue, abs=1e-12 if count < 12 else 0.015)
    assert paired_test(np.zeros(count)) == 1.0


def test_two_regressions():
    rng = np.random.default_rng(0)
    values = rng.normal(50, 10, (70, 2))
    first, second = values + rng.normal(0, 3, values.shape), values + rng.normal(0, [1, 3], values.shape)
    found = value_agreement(first, second, ("age", "weight"), values)
    age, weight = found["targets"]
    assert age["mae"] == pytest.approx([metrics.mean_absolute_error(values[:, 0], x[:, 0]) for x in (first, second)])
    assert age["change"]["value"] == pytest.approx(age["mae"][1] - age["mae"][0])
    assert age["change"]["high"] < 0 and age["p"] < 0.01  # the second is better
    assert weight["change"]["low"] < 0 < weight["change"]["high"] and weight["p"] > 0.05
    assert age["difference"] == pytest.approx(np.abs(first - second)[:, 0].mean())
    assert "interval" not in (bare := value_agreement(first, second, ("age", "weight"))) and bare["images"] == 70
    with pytest.raises(ValueError, match="second expected values .images, 1. as first"):
        value_agreement(first, second, ("age",))


def test_two_models_of_several_labels():
    (hot, first), (_, second) = drawn(), drawn(seed=1, noise=0.1)
    called = [scores >= 0.5 for scores in (first, second)]
    found = label_agreement((first, second), called, LABELS, hot)
    same = (called[0] == called[1]).all(axis=1)
    assert found["agreement"] == pytest.approx(same.mean()) and found["changed"] == (~same).sum()
    means = [metrics.average_precision_score(hot[:, :3], scores[:, :3]) for scores in (first, second)]
    assert found["mean_average_precision"] == pytest.approx(means) and found["change"]["low"] > 0
    row = found["labels"][0]
    right = [answers[:, 0] == (hot[:, 0] > 0) for answers in called]
    assert row["mcnemar"]["second_only"] == (right[1] & ~right[0]).sum() and row["images"] == hot[:, 0].sum()
    assert found["labels"][3]["change"] is None
    assert "change" not in label_agreement((first, second), called, LABELS)
