"""How long does fitting heads to frozen features take? Prints one table.

    python -m benchmarks.probes [--rounds 3]

The few-shot evaluation as the papers' code ran it: 30 strengths, here on 10,000 x 768 features of 100 classes; the same
by scikit-learn's Ridge, one strength after the other; and weighted neighbours, 10,000 among 10,000.
"""

import argparse
import statistics
import time

import numpy as np

from benchmarks.harness.arguments import rounds
from benchmarks.harness.machine import in_words
from keras_vit.evaluate.heads import neighbour_scores
from keras_vit.evaluate.ridge import ALL_L2, few_shot_accuracies

N, D, K = 10_000, 768, 100


def main(arguments: list[str] | None = None):
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=rounds, default=3)
    options = parser.parse_args(arguments)
    rng = np.random.default_rng(0)
    labels = rng.integers(0, K, 2 * N)
    features = (rng.normal(size=(K, D))[labels] + 8 * rng.normal(size=(2 * N, D))).astype("float32")
    train, test = (features[:N], labels[:N]), (features[N:], labels[N:])
    contestants = {
        "few_shot_accuracies, 30 strengths": lambda: few_shot_accuracies(train, test, K, [np.arange(N)], ALL_L2),
        "scikit-learn's Ridge, 30 strengths": lambda: ridge(train, test),
        "neighbour_scores, 20 neighbours": lambda: neighbour_scores(train, test[0], K),
    }
    seconds = {name: [] for name in contestants}
    for _ in range(options.rounds):
        for name, call in contestants.items():
            begun = time.perf_counter()
            call()
            seconds[name].append(time.perf_counter() - begun)
    print(f"{in_words()}\n\n### {N:,} x {D} features, {K} classes, {N:,} to classify\n")
    print("| | seconds, median | min – max |\n|---|---:|---:|")
    for name, values in seconds.items():
        print(f"| {name} | {statistics.median(values):.2f} | {min(values):.2f} – {max(values):.2f} |")


def ridge(train, test):
    from sklearn.linear_model import Ridge

    mean, std = train[0].mean(axis=0), train[0].std(axis=0) + 1e-5
    x, other = (np.c_[(part[0] - mean) / std, np.full(N, 100.0)].astype("float64") for part in (train, test))
    y = 2.0 * np.eye(K)[train[1]] - 1.0
    for strength in ALL_L2:
        head = Ridge(alpha=strength, fit_intercept=False, solver="cholesky").fit(x, y)
        np.mean(head.predict(other).argmax(axis=1) == test[1])


if __name__ == "__main__":
    main()
