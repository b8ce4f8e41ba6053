"""Checks of what a recipe does with its labels: the loss and the sampling of the examples."""

from keras_vit.checks import require


def check_labels(recipe) -> None:
    """Raise a ValueError unless the loss and the sampling of a recipe are consistent.

    It is called when a run begins, not for every recipe, because `--set` changes one field after the other.
    """
    loss, balanced = recipe.loss, recipe.data.sampling == "balanced"
    robust = loss.bootstrap or loss.symmetric
    require(loss.bootstrap_beta is None or loss.bootstrap, "bootstrap_beta", "null without bootstrap",
            loss.bootstrap_beta)  # fmt: skip
    require(not (loss.bootstrap and loss.symmetric), "symmetric", "null with bootstrap, for one of the two suffices",
            loss.symmetric)  # fmt: skip
    require(not (loss.focal_gamma and robust), "focal_gamma", "0 with bootstrap or symmetric, because it gives wrong "
            "labels more weight; class_weights fits", loss.focal_gamma)  # fmt: skip
    if loss.kind == "sigmoid":
        require(not loss.logit_adjustment, "logit_adjustment", "0 with the sigmoid loss, whose classes do not compete; "
                "class_weights fits", loss.logit_adjustment)  # fmt: skip
        require(loss.symmetric is None, "symmetric", "null with the sigmoid loss; bootstrap fits", loss.symmetric)
    ranked = "mean_average_precision" in recipe.evaluate.metrics
    require(loss.kind == "sigmoid" or not ranked, "metrics", "no 'mean_average_precision' with the softmax loss, of "
            "one class per image; 'accuracy' and 'calibration' fit", recipe.evaluate.metrics)  # fmt: skip
    if balanced:
        require(recipe.masked is None, "sampling", "'uniform' with masked patches, which have no classes", "balanced")
        require(loss.class_weights != "balanced", "class_weights", "null or a weight per class with sampling "
                "'balanced', which balances the classes already", loss.class_weights)  # fmt: skip
        require(not loss.logit_adjustment, "logit_adjustment", "0 with sampling 'balanced', which makes the classes "
                "equally frequent", loss.logit_adjustment)  # fmt: skip
