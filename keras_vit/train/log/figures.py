"""Write metrics as text."""

NUMBERS = ("loss", "mae", "rmse", "r2", "rank_error", "kappa")  # metrics that are no shares


def figures_of(values: dict) -> list[str]:
    """Return metrics as texts such as `accuracy 91.30%` and `mae_age 3.21`."""
    return [
        f"{name.replace('_', ' ')} {value:.4f}" if name == "loss" else
        f"{name.replace('_', ' ')} {value:.4g}" if name.startswith(NUMBERS) else
        f"{name.replace('_', ' ')} {value:.2%}"
        for name, value in values.items()
    ]  # fmt: skip


def headline(summary: dict) -> str:
    """Return the metrics of the test split that say most: the accuracy, the errors of a regression, or the loss."""
    if "r2" in summary:
        names = [name for name in summary if name.startswith(("mae", "rmse", "r2"))]
        return f"test {', '.join(figures_of({name: summary[name] for name in names}))}"
    if "accuracy" not in summary:
        return f"loss {summary['loss']:.4f}"
    names = [name for name in ("rank_error", "kappa") if name in summary]
    return ", ".join([f"test accuracy {summary['accuracy']:.2%}", *figures_of({name: summary[name] for name in names})])
