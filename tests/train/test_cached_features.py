"""Training of the head on cached features: equal to training on images, resumed, selected, and refused elsewhere."""

import os
import signal
import time
from dataclasses import replace

import keras
import numpy as np
import pytest
from support import needs_tensorflow
from train.photo_runs import RECIPE as PHOTOS

from keras_vit.evaluate import disk_cache
from keras_vit.train import cached_features, engine
from keras_vit.train.checkpoint import Checkpoints
from keras_vit.train.engine import train
from keras_vit.train.recipe import (
    Augment,
    Average,
    Checkpoint,
    Data,
    Evaluate,
    Loss,
    Model,
    Optimizer,
    Recipe,
    Schedule,
    Variant,
)

pytestmark = needs_tensorflow
ROW = Variant("tiny", width=8, depth=2, mlp_dim=16, num_heads=2, patch_size=4, image_size=8)
RECIPE = Recipe(
    "head",
    Model(ROW, channels=1, freeze=("e*", "class_token", "position_embedding")),
    Data("digits", train_split="train[:7%]", test_split="test[:20%]", batch_size=16),
    optimizer=Optimizer("adamw", learning_rate=3e-2, weight_decay=0.1),
    schedule=Schedule("cosine", warmup_steps=2),
    loss=Loss(label_smoothing=0.1),
    average=Average(0.9),
    evaluate=Evaluate(every=2, split="train[90%:]", metrics=("accuracy", "calibration"), patience=50),
    checkpoint=Checkpoint(seconds=0, best=True, use_best=True),
    epochs=5,
)
CACHED = replace(RECIPE, data=replace(RECIPE.data, cache_features=True))


def weights(workdir, name="model.keras"):
    return [np.asarray(w) for w in keras.saving.load_model(workdir / name, compile=False).weights]


def require_equal(one, other, **tolerance):
    for a, b in zip(one, other, strict=True):
        np.testing.assert_allclose(a, b, **tolerance)


@pytest.mark.parametrize("change", [{}, {"data": "balanced"}], ids=["plain", "balanced"])
def test_a_run_on_features_has_the_figures_of_the_run_on_images(change, tmp_path, capfd):
    plain, cached = RECIPE, CACHED
    if change:
        plain, cached = (replace(each, data=replace(each.data, sampling="balanced")) for each in (plain, cached))
    expected, found = train(plain, tmp_path / "plain", None), train(cached, tmp_path / "cached", None)
    require_equal(weights(tmp_path / "plain"), weights(tmp_path / "cached"), atol=2e-5)
    require_equal(*(weights(tmp_path / name, "best.keras") for name in ("plain", "cached")), atol=2e-5)
    for name in ("loss", "accuracy", "calibration"):
        assert found[name] == pytest.approx(expected[name], abs=2e-5)
    lines = [(tmp_path / name / "metrics.jsonl").read_text().count("\n") for name in ("plain", "cached")]
    assert lines[0] == lines[1]
    said = capfd.readouterr().err
    assert "only the head is trained, and no image changes from epoch to epoch: --set data.cache_features" in said
    assert (
        f"features of the images (101 train, 72 test, 144 validation) are cached in {tmp_path}/cached/features" in said
    )
    assert "MB; the epochs read them in place of the images" in said


@pytest.mark.broad
def test_stopped_and_gone_on_is_equal_to_the_bit_and_computes_no_feature_again(tmp_path, monkeypatch):
    monkeypatch.setattr(engine, "CALL_SECONDS", 0.0)
    train(CACHED, tmp_path / "whole", None)
    save = Checkpoints.save

    def saving(self, at):
        save(self, at)
        if at == 11:
            os.kill(os.getpid(), signal.SIGTERM)

    with monkeypatch.context() as patch:
        patch.setattr(Checkpoints, "save", saving)
        with pytest.raises(SystemExit):
            train(CACHED, tmp_path / "run", None)
    for name in ("_training_chunk", "_evaluation_chunk"):
        monkeypatch.setattr(cached_features, name, None)
    train(CACHED, tmp_path / "run", None)
    assert all(
        np.array_equal(a, b) for a, b in zip(weights(tmp_path / "whole"), weights(tmp_path / "run"), strict=True)
    )


@pytest.mark.broad
def test_interrupted_features_go_on_from_the_last_finished_file(tmp_path, monkeypatch):
    monkeypatch.setattr(cached_features, "CHUNK", 32)
    computed, own = [], cached_features._training_chunk

    def chunk(*arguments):
        computed.append(arguments[1].count)
        if len(computed) == 2:
            os.kill(os.getpid(), signal.SIGTERM)
        return own(*arguments)

    monkeypatch.setattr(cached_features, "_training_chunk", chunk)
    with pytest.raises(SystemExit):
        train(CACHED, tmp_path / "run", None)
    assert computed == [32, 32] and len(list((tmp_path / "run" / "features").glob("*.npz"))) == 2
    train(CACHED, tmp_path / "run", None)
    assert computed == [32, 32, 32, 5]
    monkeypatch.undo()
    train(CACHED, tmp_path / "whole", None)
    require_equal(weights(tmp_path / "whole"), weights(tmp_path / "run"), atol=2e-6)


def test_other_weights_have_other_features(tmp_path, monkeypatch):
    keys, own = [], disk_cache.cached_arrays
    monkeypatch.setattr(cached_features, "cached_arrays", lambda folder, key, *rest: keys.append(dict(key)) or own(folder, key, *rest))  # noqa: E501 # fmt: skip
    for seed in (0, 1):
        train(replace(CACHED, seed=seed, epochs=1), tmp_path / str(seed), None)
    assert keys[0]["model"] != keys[3]["model"]
    assert {name: value for name, value in keys[0].items() if name != "model"} == {
        name: value for name, value in keys[3].items() if name != "model"
    }


@pytest.mark.broad
def test_photographs_keep_their_preprocessing_and_a_regression_its_units(photos, tmp_path):
    """Pictures of another size than the model's, several labels per image and values."""
    rows = [(path, path.parent.name == "day", int(path.stem)) for path in sorted(photos.rglob("*.png"))]
    split = lambda number: "train" if number % 4 else "test"  # noqa: E731
    tables = {
        "several": ["path,split,day,even", *(f"{p},{split(n)},{int(day)},{1 - n % 2}" for p, day, n in rows)],
        "values": ["path,split,light", *(f"{p},{split(n)},{120 if day else 60}" for p, day, n in rows)],
    }
    for name, lines in tables.items():
        (tmp_path / f"{name}.csv").write_text("\n".join(lines))
    model = replace(PHOTOS.model, freeze=RECIPE.model.freeze, dropout_rate=0.0, drop_path_rate=0.0)
    base = replace(RECIPE, model=replace(model, variant=ROW, patch_size=None), evaluate=Evaluate(), epochs=2)
    base = replace(base, average=Average(), checkpoint=Checkpoint(), loss=Loss())
    several = replace(base, loss=Loss("sigmoid"), data=Data("csv", batch_size=8))
    several = replace(several, evaluate=Evaluate(metrics=("accuracy", "mean_average_precision")))
    values = replace(base, loss=Loss("l1"), data=Data("csv", batch_size=8, targets="numbers"))
    for name, recipe in (("several", several), ("values", values)):
        results = []
        for cache in (False, True):
            own = replace(recipe, data=replace(recipe.data, cache_features=cache))
            results.append(train(own, tmp_path / name / str(cache), str(tmp_path / f"{name}.csv")))
        for metric in ("loss", "mean_average_precision") if name == "several" else ("loss", "mae", "rmse", "r2"):
            assert results[1][metric] == pytest.approx(results[0][metric], rel=1e-4, abs=1e-5)


@pytest.mark.parametrize(
    ("recipe", "sentence"),
    [
        (
            replace(CACHED, model=replace(CACHED.model, freeze=("e*",))),
            "class_token, position_embedding trained beside",
        ),
        (replace(CACHED, model=replace(CACHED.model, dropout_rate=0.1)), "random model.dropout_rate; false fits"),
        (replace(CACHED, augment=Augment(flip=True, mixup=0.2)), "random augment.flip, augment.mixup; false fits"),
        (replace(CACHED, evaluate=Evaluate(few_shot="digits")), "a curriculum, masked patches or few-shot evaluations"),
    ],
)
def test_a_run_whose_features_change_is_refused(recipe, sentence, tmp_path):
    recipe = replace(recipe, checkpoint=Checkpoint())
    with pytest.raises(ValueError, match=f"cache_features expected a run that trains only the head .* {sentence}"):
        train(recipe, tmp_path / "run", None)


@pytest.mark.broad
def test_an_epoch_of_ten_thousand_features_takes_less_than_two_seconds(tmp_path, monkeypatch):
    """With features as wide as those of ViT-S/16; the time is of training alone, after compiling."""
    width, count = 384, 10_000
    rng = np.random.default_rng(0)
    y = rng.integers(0, 10, count)
    np.savez(tmp_path / "data.npz", x_train=np.zeros((count, 8, 8), "uint8"), y_train=y,
             x_test=np.zeros((64, 8, 8), "uint8"), y_test=y[:64])  # fmt: skip
    row = replace(ROW, width=width, depth=1, num_heads=6)
    recipe = replace(CACHED, model=replace(CACHED.model, variant=row), evaluate=Evaluate(), checkpoint=Checkpoint())
    recipe = replace(recipe, data=Data("arrays", batch_size=128, cache_features=True), epochs=4)
    times, own = [], engine.Run._report

    def report(self):
        if self.step % self.data.epoch_steps == 0:
            times.append(time.perf_counter())
        own(self)

    monkeypatch.setattr(engine.Run, "_report", report)
    train(recipe, tmp_path / "run", str(tmp_path / "data.npz"))
    assert min(np.diff(times)) < 2.0
