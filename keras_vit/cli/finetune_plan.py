"""Write what `keras-vit finetune` found and chose, and why."""

import textwrap
from collections.abc import Iterator
from pathlib import Path

from keras_vit.cli.finetune_data import Findings
from keras_vit.cli.new_data import DataFacts
from keras_vit.cli.new_model import ModelFacts
from keras_vit.cli.new_recipe import better
from keras_vit.cli.plan import ADAPTED, IMBALANCE, SMALL, Plan
from keras_vit.cli.table import terminal_width

SHOWN = 5  # names of classes


def plan_values(data: DataFacts, model: ModelFacts, plan: Plan, recipe: Path) -> dict:
    """Return the plan as JSON values."""
    return {
        "recipe": str(recipe),
        "model": model.name,
        "image_size": model.image_size,
        "targets": data.targets.kind,
        "train_examples": data.train,
        "validation_examples": data.validation,
        "test_examples": data.test,
        "batch_size": plan.batch,
        "epochs": plan.epochs,
        "learning_rate": plan.learning_rate,
        "patience": plan.patience,
        "adapt": plan.adapt and plan.adapt.kind,
        "rank": plan.adapt and plan.adapt.size,
        "cache_features": plan.cached,
    }


def plan_lines(data: DataFacts, findings: Findings, model: ModelFacts, plan: Plan, recipe: Path) -> Iterator[str]:
    """Yield what was found and chosen, and why, in a few lines."""
    rows = [*_data_rows(data, findings), *_training_rows(data, model, plan)]
    for title, text in rows:
        width, indent = terminal_width() or 100, " " * 9
        whole = {"break_long_words": False, "break_on_hyphens": False}  # paths
        yield textwrap.fill(f"{title:<9}{text}", width, subsequent_indent=indent, **whole)
    yield f"wrote {recipe}; to change anything, stop, edit it, and run the same command"


def _data_rows(data, findings):
    names = [f"{label} {count:,}" for label, count in findings.counts] or list(data.labels)
    more = f", and {len(names) - SHOWN:,} more" if len(names) > SHOWN else ""
    found = f"{data.train:,} images to train on, {data.validation:,} for validation, {data.test:,} to test"
    yield "data", f"{found}: {', '.join(names[:SHOWN])}{more}. {data.split_note}"
    if data.targets.note:
        yield "table", data.targets.note
    for path, reason in findings.broken[:SHOWN]:
        yield "left out", f"{path}: {reason}"
    if len(findings.broken) > SHOWN:
        yield "left out", f"{len(findings.broken) - SHOWN:,} more files"
    for paths in findings.across[:SHOWN]:
        yield "care", f"the same picture in two given splits, which makes the test too easy: {', '.join(paths)}"


def _training_rows(data, model, plan):
    small = f"{'fewer than' if data.train < SMALL else 'at least'} {SMALL:,} images"
    yield "model", f"{model.name} with images of {model.image_size} pixels, and a new {_head(data)}"
    if plan.adapt:
        yield "trains", _adapted(plan)
    yield "updates", (f"at most {plan.epochs * plan.updates:,} of {plan.batch} images, in {plan.epochs} epochs; fewer "
                      f"if {plan.patience} epochs bring no {better(data)} on the validation split")  # fmt: skip
    if plan.adapt:
        yield "rate", f"{plan.learning_rate:g}, the same in all layers, for {plan.adapt.kind}"
    else:
        yield "rate", f"{plan.learning_rate:g}, lower in the first layers, for {small}"
    smoothing = "label smoothing, " if data.targets.kind == "classes" and not data.targets.order else ""
    if plan.cached:
        yield "changes", f"{smoothing}no crops and no mirror images, so that each image is read once"
    else:
        yield "changes", (f"crops of at least {plan.crop_area:.0%} of an image, mirror images, {smoothing}stochastic "
                          f"depth, for {small}")  # fmt: skip
    if plan.adjusts:
        (most, many), (rarest, few) = data.train_counts[0], data.train_counts[-1]
        yield "rare", (f"{rarest} has {few:,} images to train on and {most} {many:,}, over {IMBALANCE} times as many, "
                       "so rare classes count more (logit_adjustment=1 in the recipe): the mean accuracy of the "
                       "classes rises, and the accuracy may fall")  # fmt: skip


def _head(data) -> str:
    if data.targets.kind == "numbers":
        return f"head for {', '.join(data.labels[:SHOWN])}"
    return "classifier of several labels per image" if data.multi else "classifier"


def _adapted(plan) -> str:
    """Return what `adapt` trains, and why."""
    few = ADAPTED[plan.adapt.kind].trained.format(size=plan.adapt.size)
    trained = f"{few}, and the head" if few else "the head alone"
    if plan.cached:
        return f"{trained}, on features that are computed once per image; the pre-trained weights stay as they are"
    if plan.adapt.kind == "probe":
        return f"{trained}; streamed images have no cached features; the pre-trained weights stay as they are"
    return (f"{trained}; the pre-trained weights stay as they are, so the run takes less memory, and "
            "adapter.safetensors has only what was trained")  # fmt: skip
