"""One model measured on the tasks of a suite."""

import functools
from dataclasses import dataclass, replace
from pathlib import Path

import keras
import numpy as np

from keras_vit.data.evaluation import evaluation_batches
from keras_vit.data.settings import untuned
from keras_vit.data.sources import open_split
from keras_vit.evaluate.accuracy import evaluate, evaluator
from keras_vit.evaluate.disk_cache import fingerprint
from keras_vit.evaluate.few_shot import squeezed
from keras_vit.evaluate.probing import Extractor, probe
from keras_vit.evaluate.ridge import L2, SEEDS, SHOTS, few_of_each, few_shot_accuracies
from keras_vit.evaluate.transfer import Transfer, fine_tuning
from keras_vit.models.load import load_model
from keras_vit.models.model_interface import model_interface
from keras_vit.models.rows_from_weights import row_of
from keras_vit.models.variants import BiTVariant, find_variant
from keras_vit.train.engine import train
from keras_vit.train.recipe import Model
from keras_vit.train.recipe.file import override
from keras_vit.weights import is_weights
from keras_vit.weights.architecture import architecture_of_model

SUITES = ("vtab1k", "paper", "fewshot", "real")
SIZE = 384  # pixels that the paper fine-tunes at (Table 4)


@dataclass(frozen=True)
class Settings:
    """How a suite is run.

    Args:
        suite: one of `SUITES`.
        model: a name with a weights tag, a workdir, a `.keras` file or published weights.
        output: folder of `results.json`, of what is trained and of the features.
        data_dir: where the data lies; TensorFlow Datasets' default where None.
        probe: `logistic`, `ridge` or `knn` in place of fine-tuning; None fine-tunes.
        tasks: names of some; all where empty.
        shots: examples a class, of `fewshot`.
        rates: learning rates in place of Table 4's.
        changes: fields of the fine-tuning recipe, as `keras_vit.train.recipe.file.override` takes them.
        resize: pixels of an image's shorter side before its middle is cut out, of `real` and probes; None squeezes it.
        batch_size: images at once where nothing is trained.
    """

    suite: str
    model: str
    output: Path
    data_dir: str | None = None
    probe: str | None = None
    tasks: tuple[str, ...] = ()
    shots: tuple[int, ...] = SHOTS
    rates: tuple[float, ...] = ()
    changes: tuple[str, ...] = ()
    resize: int | None = None
    batch_size: int = 64


class Runner:
    """Measures the tasks of one suite on one model, which is loaded once."""

    def __init__(self, settings: Settings):
        self.settings = settings

    @functools.cached_property
    def model(self) -> keras.Model:
        source = self.settings.model
        path = Path(source)
        if not (path.exists() or path.suffix == ".keras" or is_weights(path)) and find_variant(source)[1] is None:
            raise ValueError(f"model expected trained weights, received the name {source!r}, which has fresh ones.")
        return load_model(source)

    @functools.cached_property
    def extract(self) -> Extractor:
        few, size = self.settings.suite == "fewshot", model_interface(self.model).image_size or (0, 0)
        resize = squeezed(size) if few else self.settings.resize
        folder = self.settings.output / "features"
        return Extractor(self.model, folder, self.settings.data_dir, resize, self.settings.batch_size)

    def origin(self) -> dict:
        """What the results are of."""
        settings = self.settings
        how = {"vtab1k": settings.probe or "fine-tuned", "paper": settings.probe or "fine-tuned",
               "fewshot": f"ridge, l2 {L2:g}, draws {SEEDS}", "real": "as it is"}[settings.suite]  # fmt: skip
        return {
            "suite": settings.suite,
            "model": fingerprint(self.model),
            "paper_name": row_of(self.model).paper_name,
            "how": how,
            "settings": {"shots": list(settings.shots), "rates": list(settings.rates), "resize": settings.resize,
                         "changes": list(settings.changes)},
        }  # fmt: skip

    def measure(self, task) -> dict:
        """Scores of one task."""
        if self.settings.suite == "fewshot":
            return self._few_shot(*task[1:])
        if self.settings.suite == "real":
            return self._as_it_is(*task[2:])
        return self._probed(task) if self.settings.probe else self._fine_tuned(task)

    def _probed(self, task: Transfer) -> dict:
        parts = [self.extract(task.source, split) for split in (task.train, task.validation)]
        return probe(self.settings.probe, *parts, self.extract(task.test_source or task.source, task.test))

    def _few_shot(self, source, train_split, test_split) -> dict:
        train, test = self.extract(source, train_split), self.extract(source, test_split)
        found = {}
        for shots in self.settings.shots:
            draws = [few_of_each(train.y, shots, seed) for seed in SEEDS]
            scores = few_shot_accuracies((train.x, train.y), (test.x, test.y), len(train.labels), draws)
            found[str(shots)] = {"accuracy": float(scores.mean()), "deviation": float(scores.std(ddof=1))}
        return {"shots": found, "examples": len(test.y)}

    def _as_it_is(self, source, split, some: bool) -> dict:
        """Accuracy and calibration of the model's own classifier; among the classes that occur where they are some."""
        examples = open_split(source, split, self.settings.data_dir, exif=False)  # as published figures have it
        interface = model_interface(self.model)
        if interface.classes != len(examples.labels):
            raise ValueError(f"model expected a classifier of the {len(examples.labels)} classes of {source!r}, "
                             f"received one of {interface.classes}.")  # fmt: skip
        among = None
        if some:
            among = sorted({int(label) for *_, label in untuned(examples.stream()).as_numpy_iterator()})
        metrics = ("accuracy", "top5", "calibration")
        batches = evaluation_batches(
            examples, batch_size=self.settings.batch_size,
            input_shape=interface.image_shape, scale=not interface.takes_pixels, resize=self.settings.resize,
        )  # fmt: skip
        found = evaluate(self.model, batches, sums=evaluator(self.model, None, metrics, among), metrics=metrics)
        return found | ({"classes": len(among)} if some else {})

    def _fine_tuned(self, task: Transfer) -> dict:
        """Train by the paper's recipe, the rate chosen on the validation part where there are several."""
        folder = self.settings.output / "runs" / (task.trained_as or task.name)
        rates = self.settings.rates or task.rates
        scores = {}
        for rate in rates if len(rates) > 1 else ():
            scores[rate] = self._trained(task, rate, folder / f"lr{rate:g}", choosing=True)["accuracy"]
        rate = max(scores, key=lambda rate: np.nan_to_num(scores[rate], nan=-1.0)) if scores else rates[0]
        summary = self._trained(task, rate, folder / "final")
        found = {"accuracy": summary["accuracy"], "examples": summary["test_examples"], "learning_rate": rate}
        if task.test_source is None:
            return found
        model = load_model(folder / "final")
        batches = evaluation_batches(
            open_split(task.test_source, task.test, self.settings.data_dir, exif=False),
            batch_size=self.settings.batch_size, input_shape=model.input_shape[1:],
            resize=self._recipe(task, rate).data.resize,
        )  # fmt: skip
        return found | {name: value for name, value in evaluate(model, batches).items() if name != "loss"}

    def _trained(self, task, rate, folder, choosing=False) -> dict:
        return train(self._recipe(task, rate, choosing), folder, self.settings.data_dir)

    def _recipe(self, task, rate, choosing=False):
        return override(fine_tuning(task, self._start, rate, choosing), list(self.settings.changes))

    @functools.cached_property
    def _start(self) -> Model:
        """The model without its classifier, at the paper's size, as a recipe has it."""
        path, row = Path(self.settings.model), row_of(self.model)
        path = path / "model.keras" if (path / "model.keras").is_file() else path
        channels = model_interface(self.model).input_shape[2]
        common = {"image_size": SIZE, "channels": channels}
        weights = str(path) if path.exists() else self.settings.model
        if isinstance(row, BiTVariant):
            return Model(row, weights, **common)
        found = architecture_of_model(self.model)
        return Model(replace(row, patch_size=found.patch_size), weights, **common, pooling=found.pooling)
