"""Evaluate one model on the tasks of a suite."""

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
from keras_vit.evaluate.few_shot import size_before_crop
from keras_vit.evaluate.probing import Extractor, probe
from keras_vit.evaluate.ridge import L2, SEEDS, SHOTS, few_shot_accuracies, sample_per_class
from keras_vit.evaluate.transfer import Transfer, fine_tuning
from keras_vit.models.load import load_model
from keras_vit.models.model_interface import model_interface
from keras_vit.models.rows_from_weights import row_of
from keras_vit.models.variants import ConvNet, find_variant
from keras_vit.train.engine import train
from keras_vit.train.recipe import Model
from keras_vit.train.recipe.file import override
from keras_vit.weights import is_weights
from keras_vit.weights.model_architecture import architecture_of_model

SUITES = ("vtab1k", "paper", "fewshot", "real")
SIZE = 384  # image size of fine-tuning in pixels (Table 4)


@dataclass(frozen=True)
class Settings:
    """Settings of a suite.

    Args:
        suite: one of `SUITES`.
        model: a name with a weights tag, a workdir, a `.keras` file or published weights.
        output: folder of `results.json`, the trained models and the cached features.
        data_dir: folder of the data; TensorFlow Datasets' default if None.
        probe: `logistic`, `ridge` or `knn`; None fine-tunes the model.
        tasks: names of the tasks to run; all if empty.
        shots: numbers of examples per class, for `fewshot`.
        rates: learning rates that replace Table 4's.
        changes: overrides of the fine-tuning recipe, as for `keras_vit.train.recipe.file.override`.
        resize: shorter side in pixels before the center crop, for `real` and probes; None resizes without a crop.
        batch_size: images per batch of evaluations and features.
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
    """Evaluates one model on the tasks of a suite. The model is loaded once."""

    def __init__(self, settings: Settings):
        self.settings = settings

    @functools.cached_property
    def model(self) -> keras.Model:
        source = self.settings.model
        path = Path(source)
        if not (path.exists() or path.suffix == ".keras" or is_weights(path)) and find_variant(source)[1] is None:
            raise ValueError(f"model expected trained weights, received the name {source!r} without a tag.")
        return load_model(source)

    @functools.cached_property
    def extract(self) -> Extractor:
        size, resize = model_interface(self.model).image_size or (0, 0), self.settings.resize
        if self.settings.suite == "fewshot":
            resize = size_before_crop(size)
        folder = self.settings.output / "features"
        return Extractor(self.model, folder, self.settings.data_dir, resize, self.settings.batch_size)

    def origin(self) -> dict:
        """Return everything that the results depend on, for `results.json`."""
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
        """Return the scores of one task."""
        if self.settings.suite == "fewshot":
            return self._few_shot(*task[1:])
        if self.settings.suite == "real":
            return self._evaluate_classifier(*task[2:])
        return self._probe(task) if self.settings.probe else self._fine_tune(task)

    def _probe(self, task: Transfer) -> dict:
        train, validation = (self.extract(task.source, split) for split in (task.train, task.validation))
        return probe(self.settings.probe, train, validation, self.extract(task.test_source or task.source, task.test))

    def _few_shot(self, source, train_split, test_split) -> dict:
        train, test = self.extract(source, train_split), self.extract(source, test_split)
        results = {}
        for shots in self.settings.shots:
            draws = [sample_per_class(train.y, shots, seed) for seed in SEEDS]
            scores = few_shot_accuracies((train.x, train.y), (test.x, test.y), len(train.labels), draws)
            results[str(shots)] = {"accuracy": float(scores.mean()), "deviation": float(scores.std(ddof=1))}
        return {"shots": results, "examples": len(test.y)}

    def _evaluate_classifier(self, source, split, subset: bool) -> dict:
        """Return the accuracy and calibration of the model's classifier.

        With `subset`, only classes that occur in the split may be predicted.
        """
        examples = open_split(source, split, self.settings.data_dir, exif=False)  # as for published accuracies
        interface = model_interface(self.model)
        if interface.classes != len(examples.labels):
            raise ValueError(f"model expected a classifier of the {len(examples.labels)} classes of {source!r}, "
                             f"received one of {interface.classes}.")  # fmt: skip
        among = None
        if subset:
            among = sorted({int(label) for *_, label in untuned(examples.stream()).as_numpy_iterator()})
        metrics = ("accuracy", "top5", "calibration")
        batches = evaluation_batches(
            examples, batch_size=self.settings.batch_size,
            input_shape=interface.image_shape, scale=not interface.takes_pixels, spec=interface.preprocessing,
            resize=self.settings.resize,
        )  # fmt: skip
        results = evaluate(self.model, batches, sums=evaluator(self.model, None, metrics, among), metrics=metrics)
        return results | ({"classes": len(among)} if subset else {})

    def _fine_tune(self, task: Transfer) -> dict:
        """Fine-tune by the paper's recipe. Several learning rates are compared by validation accuracy."""
        folder = self.settings.output / "runs" / (task.trained_as or task.name)
        rates = self.settings.rates or task.rates
        scores = {}
        for rate in rates if len(rates) > 1 else ():
            scores[rate] = self._train(task, rate, folder / f"lr{rate:g}", choosing=True)["accuracy"]
        rate = max(scores, key=lambda rate: np.nan_to_num(scores[rate], nan=-1.0)) if scores else rates[0]
        summary = self._train(task, rate, folder / "final")
        results = {"accuracy": summary["accuracy"], "examples": summary["test_examples"], "learning_rate": rate}
        if task.test_source is None:
            return results
        model = load_model(folder / "final")
        batches = evaluation_batches(
            open_split(task.test_source, task.test, self.settings.data_dir, exif=False),
            batch_size=self.settings.batch_size, input_shape=model.input_shape[1:],
            spec=model_interface(model).preprocessing, resize=self._recipe(task, rate).data.resize,
        )  # fmt: skip
        return results | {name: value for name, value in evaluate(model, batches).items() if name != "loss"}

    def _train(self, task, rate, folder, choosing=False) -> dict:
        return train(self._recipe(task, rate, choosing), folder, self.settings.data_dir)

    def _recipe(self, task, rate, choosing=False):
        return override(fine_tuning(task, self._start, rate, choosing), list(self.settings.changes))

    @functools.cached_property
    def _start(self) -> Model:
        """Return the recipe's description of the model without its classifier, at the paper's image size."""
        path, row = Path(self.settings.model), row_of(self.model)
        path = path / "model.keras" if (path / "model.keras").is_file() else path
        channels = model_interface(self.model).input_shape[2]
        common = {"image_size": SIZE, "channels": channels}
        weights = str(path) if path.exists() else self.settings.model
        if isinstance(row, ConvNet):
            return Model(row, weights, **common)
        architecture = architecture_of_model(self.model)
        row = replace(row, patch_size=architecture.patch_size)
        return Model(row, weights, **common, pooling=architecture.pooling)
