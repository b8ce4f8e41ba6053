"""Write metrics as text."""

NUMBERS = ("loss", "mae", "rmse", "r2", "rank_error", "kappa")  # metrics that are no shares
LABEL_METRICS = ("mean_average_precision", "f1", "micro_f1")  # of several labels per image


def is_share(name: str) -> bool:
    """Return whether a metric is a share, which is written in percent."""
    return not name.startswith(NUMBERS)


def score_text(name: str, mean: float | None, deviation: float | None = None) -> str:
    """Return the mean score of some runs with its deviation, such as `91.30 ± 0.25 %`; `diverged` without a score."""
    if mean is None:
        return "diverged"
    if is_share(name):
        return f"{mean:.2%}" if deviation is None else f"{100 * mean:.2f} ± {100 * deviation:.2f} %"
    return f"{mean:.4g}" if deviation is None else f"{mean:.4g} ± {deviation:.2g}"


def figures_of(values: dict) -> list[str]:
    """Return metrics as texts such as `accuracy 91.30%` and `mae_age 3.21`."""
    return [
        f"{name.replace('_', ' ')} {value:.4f}" if name == "loss" else
        f"{name.replace('_', ' ')} {value:.4g}" if name.startswith(NUMBERS) else
        f"{name.replace('_', ' ')} {value:.2%}"
        for name, value in values.items()
    ]  # fmt: skip


def headline(summary: dict) -> str:
    """Return the metrics of the test split that say most.

    They are the accuracy, the mean average precision of several labels, the errors of a regression, or the loss.
    """
    if "r2" in summary:
        names = [name for name in summary if name.startswith(("mae", "rmse", "r2"))]
        return f"test {', '.join(figures_of({name: summary[name] for name in names}))}"
    if "accuracy" not in summary:
        return f"loss {summary['loss']:.4f}"
    if "mean_average_precision" in summary:
        return f"test {', '.join(figures_of({name: summary[name] for name in LABEL_METRICS}))}"
    names = [name for name in ("rank_error", "kappa") if name in summary]
    return ", ".join([f"test accuracy {summary['accuracy']:.2%}", *figures_of({name: summary[name] for name in names})])
