"""Checks of what a recipe does with its labels: the loss and the sampling of the examples."""

from keras_vit.checks import require
from keras_vit.train.recipe.updates import Loss

_OF_CLASSES = ("label_smoothing", "class_weights", "focal_gamma", "logit_adjustment", "bootstrap", "symmetric")


def selecting_metric(recipe) -> tuple[str, float]:
    """Return the metric that selects the best weights and settings, and its sign: -1 if lower is better."""
    if recipe.loss.is_regression or (recipe.masked and recipe.masked.target == "pixels"):
        return "loss", -1.0
    if "mean_average_precision" in recipe.evaluate.metrics:
        return "mean_average_precision", 1.0
    return ("kappa" if recipe.loss.kind == "ordinal" else "accuracy"), 1.0


def check_labels(recipe) -> None:
    """Raise a ValueError unless the loss, the sampling and the targets of a recipe are consistent.

    It is called when a run begins, not for every recipe, because `--set` changes one field after the other.
    """
    loss = recipe.loss
    robust = loss.bootstrap or loss.symmetric
    require(loss.bootstrap_beta is None or loss.bootstrap, "bootstrap_beta", "null without bootstrap",
            loss.bootstrap_beta)  # fmt: skip
    require(not (loss.bootstrap and loss.symmetric), "symmetric", "null with bootstrap, for one of the two suffices",
            loss.symmetric)  # fmt: skip
    require(not (loss.focal_gamma and robust), "focal_gamma", "0 with bootstrap or symmetric, because it gives wrong "
            "labels more weight; class_weights fits", loss.focal_gamma)  # fmt: skip
    require(loss.huber_delta == 1.0 or loss.kind == "huber", "huber_delta", "1 without the loss 'huber'",
            loss.huber_delta)  # fmt: skip
    if recipe.masked is None:
        _check_targets(recipe)
    if loss.is_regression:
        _check_regression(recipe)
    if loss.kind == "sigmoid":
        require(not loss.logit_adjustment, "logit_adjustment", "0 with the sigmoid loss, whose classes do not compete; "
                "class_weights fits", loss.logit_adjustment)  # fmt: skip
        require(loss.symmetric is None, "symmetric", "null with the sigmoid loss; bootstrap fits", loss.symmetric)
    ranked = "mean_average_precision" in recipe.evaluate.metrics
    require(loss.kind == "sigmoid" or not ranked, "metrics", f"no 'mean_average_precision' with the {loss.kind} loss, "
            "of one class per image; 'accuracy' and 'calibration' fit", recipe.evaluate.metrics)  # fmt: skip
    if recipe.data.sampling == "balanced":
        require(recipe.masked is None, "sampling", "'uniform' with masked patches, which have no classes", "balanced")
        require(loss.class_weights != "balanced", "class_weights", "null or a weight per class with sampling "
                "'balanced', which balances the classes already", loss.class_weights)  # fmt: skip
        require(not loss.logit_adjustment, "logit_adjustment", "0 with sampling 'balanced', which makes the classes "
                "equally frequent", loss.logit_adjustment)  # fmt: skip


def _check_targets(recipe) -> None:
    """Raise a ValueError unless the targets of the data are those of the loss."""
    data, loss = recipe.data, recipe.loss
    if data.targets != "classes":
        require(data.source == "csv", "targets", f"'classes' with the source {data.source!r}; the source 'csv' has "
                "probabilities and numbers", data.targets)  # fmt: skip
        require(data.sampling == "uniform", "sampling", f"'uniform' with {data.targets}, which have no single class",
                data.sampling)  # fmt: skip
        require(not data.classes, "classes", f"() with {data.targets}, whose order is that of the columns",
                data.classes)  # fmt: skip
        require(recipe.evaluate.few_shot is None, "few_shot", f"null with {data.targets}", recipe.evaluate.few_shot)
    else:
        require(not data.columns, "columns", "() with classes; targets 'numbers' or 'probabilities' have columns",
                data.columns)  # fmt: skip
    kinds = {
        "classes": "'softmax', 'sigmoid' or 'ordinal' with classes; the targets 'numbers' fit a regression",
        "probabilities": "'softmax' with probabilities",
        "numbers": "'mse', 'l1' or 'huber' with numbers",
    }
    fits = {"classes": not loss.is_regression, "probabilities": loss.kind == "softmax", "numbers": loss.is_regression}
    require(fits[data.targets], "kind", kinds[data.targets], loss.kind)
    require(loss.kind != "ordinal" or data.classes, "classes", "the names of the classes in order, the lowest first, "
            "with the loss 'ordinal'", data.classes)  # fmt: skip


def _check_regression(recipe) -> None:
    """Raise a ValueError if a recipe of a regression has an option of classes."""
    loss, model, augment = recipe.loss, recipe.model, recipe.augment
    what = f"with the loss {loss.kind!r}, whose targets are values without classes"
    for name in _OF_CLASSES:
        nothing = getattr(Loss, name)
        fits = "'l1' or 'huber' weigh wrong values less" if name in ("bootstrap", "symmetric") else None
        shown = "null" if nothing is None else f"{nothing:g}"
        require(getattr(loss, name) == nothing, name, f"{shown} {what}{f'; {fits}' if fits else ''}",
                getattr(loss, name))  # fmt: skip
    require(recipe.evaluate.metrics == ("accuracy",), "metrics", f"the default {what}; the mean absolute error, the "
            "root mean squared error and R2 are reported", recipe.evaluate.metrics)  # fmt: skip
    require(not model.head_bias, "head_bias", f"0 {what}; the first prediction is the mean", model.head_bias)
    for name in ("cutmix", "mosaic"):
        require(not getattr(augment, name), name, f"0 {what}; mixup fits", getattr(augment, name))
