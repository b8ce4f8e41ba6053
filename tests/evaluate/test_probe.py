"""The linear probe against big_vision's own numbers and against scikit-learn."""

import numpy as np
import pytest
from support import GOLDENS, randomise

import keras_vit
from keras_vit.evaluate.disk_cache import cached_arrays, fingerprint
from keras_vit.evaluate.heads import fit_logistic, neighbour_scores
from keras_vit.evaluate.ridge import few_shot_accuracies, fit_ridge, fit_ridges, ridge_scores, sample_per_class

CASES = ["f1_fewshot_n_ge_d", "f1_fewshot_d_gt_n"]  # more examples than features, and fewer


@pytest.fixture(params=CASES)
def case(request):
    with np.load(GOLDENS / f"{request.param}.npz") as file:
        return dict(file)


def relative(ours, theirs):
    return float(np.max(np.abs(ours - theirs)) / max(1.0, np.max(np.abs(theirs))))


def test_the_head_is_big_visions(case):
    heads = fit_ridges(case["x_train"], case["y_train"], int(case["num_classes"]), case["l2"])
    for i, head in enumerate(heads):
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


def test_accuracies_of_all_strengths_and_draws(case):
    train, test = ((case[f"x_{part}"], case[f"y_{part}"]) for part in ("train", "test"))
    everything, half = np.arange(len(train[1])), np.arange(0, len(train[1]), 2)
    found = few_shot_accuracies(train, test, int(case["num_classes"]), [everything, half], case["l2"])
    assert found.shape == (len(case["l2"]), 2)
    assert found[:, 0] == pytest.approx(case["accuracy"], abs=1e-6)
    head = fit_ridge(train[0][half], train[1][half], int(case["num_classes"]), float(case["l2"][-1]))
    assert found[-1, 1] == np.mean(ridge_scores(head, test[0]).argmax(axis=1) == test[1])


@pytest.fixture(scope="module")
def clouds():
    """Points around five centres: those to fit to, to choose on, and to measure on."""
    rng = np.random.default_rng(3)
    labels = rng.integers(0, 5, 330)
    points = rng.normal(size=(5, 12))[labels] + 1.2 * rng.normal(size=(330, 12))
    return [(points[part], labels[part]) for part in (slice(150), slice(150, 230), slice(230, None))]


@pytest.mark.parametrize("neighbours", [1, 20, 1000])
def test_neighbours_are_scikit_learns(clouds, neighbours):
    module = pytest.importorskip("sklearn.neighbors")
    train, _, (x, y) = clouds
    vote = lambda distance: np.exp((1 - distance) / 0.07)  # noqa: E731
    count = min(neighbours, len(train[1]))
    theirs = module.KNeighborsClassifier(count, weights=vote, metric="cosine", algorithm="brute").fit(*train)
    ours = neighbour_scores(train, x, 5, neighbours)
    assert np.allclose(ours / ours.sum(axis=1, keepdims=True), theirs.predict_proba(x), atol=1e-9)
    assert np.mean(ours.argmax(axis=1) == y) > 0.5
    with pytest.raises(ValueError, match="neighbours and temperature expected positive numbers, received 0, 0.07"):
        neighbour_scores(train, x, 5, 0)


def test_the_linear_probe_takes_the_best_strength(clouds):
    linear = pytest.importorskip("sklearn.linear_model")
    train, validation, (x, _) = clouds
    found = fit_logistic(train, validation, c=(1e-6, 0.1, 1.0))
    mean, std = train[0].mean(axis=0), train[0].std(axis=0)
    scores = {}
    for c in (1e-6, 0.1, 1.0):
        head = linear.LogisticRegression(C=c, max_iter=1000).fit((train[0] - mean) / std, train[1])
        scores[c] = head.score((validation[0] - mean) / std, validation[1])
    assert found.validation_accuracy == pytest.approx(max(scores.values())) and scores[found.c] == max(scores.values())
    both = [np.concatenate(pair) for pair in zip(train, validation, strict=True)]
    mean, std = both[0].mean(axis=0), both[0].std(axis=0)
    last = linear.LogisticRegression(C=found.c, max_iter=1000).fit((both[0] - mean) / std, both[1])
    assert np.array_equal(found.model.predict(x), last.predict((x - mean) / std))


def test_arrays_are_cached_and_a_broken_file_is_computed_again(tmp_path):
    calls, notes = [], []

    def compute():
        calls.append(1)
        return {"x": np.arange(3.0)}

    for _ in range(2):
        assert np.array_equal(cached_arrays(tmp_path, {"a": 1}, compute, notes.append)["x"], np.arange(3.0))
    assert len(calls) == 1 and not notes
    cached_arrays(tmp_path, {"a": 2}, compute, notes.append)
    assert len(calls) == 2 and len(list(tmp_path.iterdir())) == 2 and not notes
    for file in tmp_path.iterdir():
        file.write_bytes(file.read_bytes()[:40])
    assert np.array_equal(cached_arrays(tmp_path, {"a": 1}, compute, notes.append)["x"], np.arange(3.0))
    assert len(calls) == 3 and len(notes) == 1 and "cannot be used and is computed again" in notes[0]
    assert (
        np.array_equal(cached_arrays(tmp_path, {"a": 1}, compute, notes.append)["x"], np.arange(3.0))
        and len(calls) == 3
    )


def test_a_fingerprint_is_of_weights_and_function(tmp_path):
    row = keras_vit.Variant("tiny", 8, 1, 8, 2, 4, image_size=8)
    model = randomise(keras_vit.build(row, classes=2))
    first = fingerprint(model)
    model.save(tmp_path / "model.keras")
    assert fingerprint(keras_vit.load_model(tmp_path / "model.keras")) == first
    other = keras_vit.build(row, classes=2, activation="gelu")
    other.set_weights(model.get_weights())
    assert fingerprint(other) != first
    model.get_layer("head").bias.assign([0.0, 1e-7])
    assert fingerprint(model) != first


def test_a_sample_per_class():
    labels = np.array([2, 0, 2, 2, 0, 7, 2, 0])
    chosen = sample_per_class(labels, 3, seed=1)
    assert sorted(labels[chosen]) == [0, 0, 0, 2, 2, 2, 7] and len(set(chosen)) == 7
    assert np.array_equal(chosen, sample_per_class(labels, 3, seed=1))
    assert len({tuple(sorted(sample_per_class(labels, 1, seed))) for seed in range(20)}) > 1


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([0, 1], r"labels expected one per example of features \(3, 2\), received \(2,\)"),
        ([0, 1, 2], "labels expected classes of 0 to 1, received 0 to 2"),
    ],
)
def test_labels_that_do_not_fit(labels, message):
    with pytest.raises(ValueError, match=message):
        fit_ridge(np.zeros((3, 2)), labels, 2)
