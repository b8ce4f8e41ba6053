"""The data splits of a run, and the number of steps."""

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass

from keras_vit.data.balance import balanced
from keras_vit.data.evaluation import evaluation_batches
from keras_vit.data.mosaic import mosaic_layer
from keras_vit.data.pipeline import steps_per_epoch, training_batches
from keras_vit.data.sources import Examples, open_data, open_split
from keras_vit.evaluate.few_shot import size_before_crop
from keras_vit.evaluate.losses import NO_TERMS, ClassTerms, class_terms
from keras_vit.preprocessing.image_spec import PLAIN_SCALING, ImageSpec
from keras_vit.tasks.masked import MaskedPatches
from keras_vit.train.recipe import Recipe
from keras_vit.train.recipe.inputs import augment_at


@dataclass(frozen=True)
class Datasets:
    """The splits of a run.

    `validation` is the split of the evaluations during training. `few_shot` are the splits to fit linear heads to, and
    to test them on; None without few-shot evaluation. `spec` is the preprocessing of the model. `terms` are those of
    the recipe's loss per class or target.
    """

    recipe: Recipe
    train: Examples
    test: Examples
    validation: Examples
    few_shot: tuple[Examples, Examples] | None = None
    spec: ImageSpec = PLAIN_SCALING
    terms: ClassTerms = NO_TERMS

    @classmethod
    def open(cls, recipe: Recipe, data_dir: str | None = None, left_out: tuple[str, ...] = ()) -> "Datasets":
        """Open all splits of a recipe before training.

        `data_dir` replaces the directory of the recipe's data. `left_out` names files that may have been removed since
        the run began.

        Raises:
            FileNotFoundError: the data is absent.
            ImportError: a package is missing.
            ValueError: a split is unknown, there are fewer training examples than a batch, or the loss or the sampling
                does not fit the labels.
        """
        data, evaluate = recipe.data, recipe.evaluate
        if recipe.augment.mosaic:
            mosaic_layer()
        train, test = (open_data(data, split, data_dir, left_out) for split in (data.train_split, data.test_split))
        validation = open_data(data, evaluate.split, data_dir, left_out) if evaluate.split else test
        few_shot = None
        if evaluate.few_shot is not None:
            directory = evaluate.few_shot_directory or data_dir or data.directory
            few_shot = tuple(
                open_split(evaluate.few_shot, split, directory, data.shuffle, data.on_error, exif=data.exif)
                for split in evaluate.few_shot_splits
            )
        datasets = cls.of_splits(recipe, train, test, validation, few_shot)
        datasets.epoch_steps  # noqa: B018  raises an error if an epoch has no step
        return datasets

    @classmethod
    def of_splits(
        cls, recipe: Recipe, train: Examples, test: Examples, validation: Examples, few_shot=None
    ) -> "Datasets":
        """Return splits that are open already, sampled and weighted as the recipe says.

        Raises:
            ValueError: the loss or the sampling does not fit the labels.
        """
        if train.multi and recipe.loss.kind == "ordinal":
            raise ValueError("kind expected 'sigmoid' with several classes per image, received 'ordinal'.")
        ranked = "mean_average_precision" in recipe.evaluate.metrics
        if ranked and not test.multi:
            raise ValueError("metrics expected no 'mean_average_precision' with one class per image, received it; "
                             "'accuracy' and 'calibration' fit.")  # fmt: skip
        terms = class_terms(recipe.loss, train)
        if recipe.data.sampling == "balanced":
            train = balanced(train, recipe.data.source)
        return cls(recipe, train, test, validation, few_shot, terms=terms)

    @property
    def splits(self) -> list[Examples]:
        """Return all splits, for the search for broken files."""
        return [*self._splits, *(self.few_shot or ())]

    @property
    def facts(self) -> dict:
        """Counts, names and hashes that change with the data.

        Files that are left out are counted, so that a resumed run may leave out more files.
        """
        return self._facts([split.whole or split for split in self._splits])

    @property
    def facts_of_good_files(self) -> dict:
        """`facts` as runs wrote them before `left_out.json` existed: without the files that are left out."""
        return self._facts(self._splits)

    def _facts(self, splits) -> dict:
        train, test, validation = splits
        counts = {"train_examples": train.count, "test_examples": test.count, "labels": list(train.labels)}
        hashed = {"train_files": train, "test_files": test}
        hashed |= {"validation_files": validation} if self.recipe.evaluate.split else {}
        return counts | {name: files_hash(split) for name, split in hashed.items() if split.files}

    @property
    def left_out(self) -> list[str]:
        """The paths of the files that are left out, in order."""
        missing = (set(split.whole.files or ()) - set(split.files or ()) for split in self._splits if split.whole)
        return sorted(set().union(*missing))

    @property
    def _splits(self) -> tuple[Examples, Examples, Examples]:
        return self.train, self.test, self.validation

    @property
    def epoch_steps(self) -> int:
        """The number of updates of one epoch."""
        return steps_per_epoch(self.train, self.recipe.data.batch_size)

    @property
    def report_steps(self) -> int:
        """The number of updates between two reports of the training loss."""
        return self.recipe.evaluate.interval or self.epoch_steps

    @property
    def steps(self) -> int:
        """The number of updates of the whole run."""
        return self.recipe.steps or self.epoch_steps * self.recipe.epochs

    @property
    def epochs(self) -> int:
        """The number of epochs that the run begins."""
        return -(-self.steps // self.epoch_steps)

    def batches(self, input_shape: tuple[int, int, int], start: int) -> Callable:
        """Return a function (part, parts) that returns a part of the training batches from a step on."""

        corrupt = MaskedPatches(self.recipe, input_shape).corrupt if self.recipe.masked else None
        augment = augment_at(self.recipe.augment, input_shape[:2], self.recipe.model.input_shape[:2])

        def of_part(shard):
            return training_batches(
                self.train, augment, batch_size=self.recipe.data.batch_size, input_shape=input_shape,
                epochs=self.epochs, seed=self.recipe.seed, start=start, scale=self._scale, spec=self.spec, shard=shard,
                multi_hot=self.recipe.loss.kind == "sigmoid", corrupt=corrupt,
            )  # fmt: skip

        return of_part

    def evaluation(self, examples: Examples, shard: tuple[int, int] = (0, 1)):
        """Return the batches of a split, or of a worker's part, for evaluations, at the model's own size."""
        return self._whole(examples, self.recipe.data.resize, shard)

    def few_shot_evaluation(self, examples: Examples, shard: tuple[int, int] = (0, 1)):
        """Return the batches of a split for few-shot evaluations: center crops of resized images."""
        return self._whole(examples, size_before_crop(self.recipe.model.input_shape[:2]), shard)

    def _whole(self, examples, resize, shard):
        return evaluation_batches(
            examples, batch_size=self.recipe.data.batch_size, input_shape=self.recipe.model.input_shape,
            scale=self._scale, spec=self.spec, resize=resize, shard=shard,
        )  # fmt: skip

    @property
    def _scale(self):
        return not self.recipe.model.include_preprocessing


def files_hash(examples: Examples) -> str:
    """Return the first 16 digits of the SHA-256 of a split's file names and classes, in order."""
    above = os.path.commonprefix(examples.files).rfind("/") + 1
    digest = hashlib.sha256()
    targets = [""] * len(examples.files) if examples.targets is None else examples.targets.tolist()
    for path, target in zip(examples.files, targets, strict=True):
        digest.update(f"{path[above:]}\n{target}\n".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()[:16]
