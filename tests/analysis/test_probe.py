"""The linear probe against big_vision's own numbers and against scikit-learn."""

import numpy as np
import pytest
from support import GOLDENS

from keras_vit.analysis.probe import few_of_each, fit_ridge, ridge_scores

CASES = ["f1_fewshot_n_ge_d", "f1_fewshot_d_gt_n"]  # more examples than features, and fewer


@pytest.fixture(params=CASES)
def case(request):
    with np.load(GOLDENS / f"{request.param}.npz") as file:
        return dict(file)


def relative(ours, theirs):
    return float(np.max(np.abs(ours - theirs)) / max(1.0, np.max(np.abs(theirs))))


def test_the_head_is_big_visions(case):
    for i, l2 in enumerate(case["l2"]):
        head = fit_ridge(case["x_train"], case["y_train"], int(case["num_classes"]), float(l2))
        scores = ridge_scores(head, case["x_test"])
        assert relative(head.mean, case["mean"][0]) < 1e-8 and relative(head.std, case["std"][0]) < 1e-8
        assert relative(head.weights, case["weights"][i]) < 1e-8
        assert relative(scores, case["scores"][i]) < 1e-8
        assert np.mean(np.argmax(scores, axis=-1) == case["y_test"]) == pytest.approx(case["accuracy"][i], abs=1e-6)


def test_the_head_is_scikit_learns_ridge(case):
    linear = pytest.importorskip("sklearn.linear_model")
    classes, labels = int(case["num_classes"]), case["y_train"]
    x, other = (
        np.c_[(case[name] - case["mean"]) / case["std"], np.full(len(case[name]), 100.0)]
        for name in ("x_train", "x_test")
    )
    for l2 in (1.0, 1024.0):
        ridge = linear.Ridge(alpha=l2, fit_intercept=False, solver="cholesky", tol=1e-12)
        ridge.fit(x, np.where(labels[:, None] == np.arange(classes), 1.0, -1.0))
        head = fit_ridge(case["x_train"], labels, classes, l2)
        assert relative(head.weights, ridge.coef_.T) < 1e-8
        assert relative(ridge_scores(head, case["x_test"]), ridge.predict(other)) < 1e-8


def test_a_few_of_each_class():
    labels = np.array([2, 0, 2, 2, 0, 7, 2, 0])
    chosen = few_of_each(labels, 3, seed=1)
    assert sorted(labels[chosen]) == [0, 0, 0, 2, 2, 2, 7] and len(set(chosen)) == 7
    assert np.array_equal(chosen, few_of_each(labels, 3, seed=1))
    assert len({tuple(sorted(few_of_each(labels, 1, seed))) for seed in range(20)}) > 1


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([0, 1], r"labels expected one for each row of features \(3, 2\), received \(2,\)"),
        ([0, 1, 2], "labels expected classes of 0 to 1, received 0 to 2"),
    ],
)
def test_labels_that_do_not_fit(labels, message):
    with pytest.raises(ValueError, match=message):
        fit_ridge(np.zeros((3, 2)), labels, 2)
