"""Two real steps of every recipe, and the other answers of `keras-vit train` that train nothing."""

import dataclasses
import operator

import pytest
from support import ROOT, needs_tensorflow

from keras_vit import cli
from keras_vit.models.variants import BiTVariant
from keras_vit.train import dry_run as module
from keras_vit.train.dry_run import dry_run, shrunk
from keras_vit.train.recipe.file import load_recipe, recipes_in

pytestmark = needs_tensorflow
FILES = sorted((ROOT / "recipes").glob("*.py"))
DIGITS = str(ROOT / "recipes/digits.py")
STAGED = ("cifar10", "cifar10:hybrid", "cifar10:local", "cifar10:masked")  # three sizes each
DEEP = ("paper_jft:BiT_R101x1", "paper_ablations:axial_b16")  # of many layers, however narrow
ALIKE = ("augreg", "imagenet_s16", "paper_imagenet21k", "paper_finetune")  # files much like paper_imagenet.py


ABLATED = operator.attrgetter("positions", "positions_at", "mlp_kernel_size", "axial")


def kind(recipe):
    """What decides which code a dry run goes through: which settings are made, not their numbers."""
    made = lambda part: tuple(  # noqa: E731
        field.name for field in dataclasses.fields(part) if getattr(part, field.name) != field.default
    )
    row = recipe.model.row
    family = "bit" if isinstance(row, BiTVariant) else (bool(row.stem), *ABLATED(row))
    parts = recipe.model, recipe.augment, recipe.optimizer, recipe.loss, recipe.average, recipe.curriculum
    parts += (recipe.masked,) * (recipe.masked is not None)
    shape = recipe.model.input_shape, recipe.model.pooling, recipe.augment.crop, recipe.optimizer.kind, recipe.loss.kind
    return family, shape, recipe.precision, recipe.recompute, *map(made, parts)


def kinds():
    """Every recipe, one of each kind: the first row of a file is quick enough, but for some."""
    seen = set()
    for path in FILES:
        for i, (_, recipe) in enumerate(sorted(recipes_in(path).items())):
            if kind(recipe) not in seen or i == 0:
                large = i > 0 or path.stem in ALIKE or recipe.name in STAGED + DEEP
                marks = [pytest.mark.large] * large + [pytest.mark.broad] * (recipe.name != "digits")
                yield pytest.param(recipe, id=recipe.name, marks=marks)
            seen.add(kind(recipe))


@pytest.mark.parametrize("recipe", list(kinds()))
def test_a_recipe_hangs_together(recipe):
    found = dry_run(recipe)
    phases = 1 if recipe.head_first is None else 2
    assert len(found["losses"]) == phases + len(recipe.curriculum.stages)
    assert all(0 < loss < 100 for loss in found["losses"]) and 0 <= found["accuracy"] <= 1
    assert found["parameters"] < 2_500_000


def test_a_shrunk_recipe_keeps_all_but_the_size():
    recipe = load_recipe(str(ROOT / "recipes/cifar10.py:local"))
    small = shrunk(recipe)
    for field in ("augment", "optimizer", "loss", "average", "curriculum", "precision", "evaluate"):
        assert getattr(small, field) == getattr(recipe, field)
    row = small.model.row
    assert (row.mlp_kernel_size, row.positions) == (recipe.model.row.mlp_kernel_size, recipe.model.row.positions)
    assert small.model.input_shape == recipe.model.input_shape and row.width < recipe.model.row.width


@pytest.mark.broad
def test_a_loss_that_is_not_finite_is_an_error():
    recipe = load_recipe(DIGITS)
    wild = dataclasses.replace(recipe.optimizer, kind="sgd", learning_rate=1e38, clip_norm=None)
    with pytest.raises(FloatingPointError, match="loss expected finite numbers and gradients, received others"):
        dry_run(dataclasses.replace(recipe, optimizer=wild))


def test_the_command_says_what_it_did_and_writes_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["train", DIGITS, "--dry-run", "--workdir", str(tmp_path / "run")]) == 0
    said = capsys.readouterr().out
    assert said.startswith("digits: two steps of every stage with ") and said.count("\n") == 1
    assert " parameters, losses 1." in said
    assert not list(tmp_path.iterdir())


def test_settings_reach_the_dry_run(monkeypatch, capsys):
    asked = []
    monkeypatch.setattr(
        module, "dry_run", lambda recipe: asked.append(recipe) or {"parameters": 1, "losses": [1.0], "accuracy": 0.0}
    )
    settings = ["--set", "epochs=3", "model.dropout_rate=0.25", "--set", "seed=5"]
    assert cli.main(["train", DIGITS, "--dry-run", *settings]) == 0
    (recipe,) = asked
    assert (recipe.epochs, recipe.model.dropout_rate, recipe.seed) == (3, 0.25, 5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "--workdir expected the folder of the run, received nothing."),
        (["--dry-run", "--set", "epochs"], "set expected path.to.field=value, received 'epochs'."),
        (["--dry-run", "--set", "epochs=2", "seeds=1"], "set expected the path of a recipe's field, received 'seeds'"),
    ],
)
def test_a_mistake_gets_one_sentence(arguments, message, capsys):
    assert cli.main(["train", DIGITS, *arguments]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"keras-vit train: {message}") and said.count("\n") == 1
