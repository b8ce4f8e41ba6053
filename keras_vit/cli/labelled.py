"""Score labelled images by any form of a model, for `keras-vit evaluate --data` and `keras-vit compare`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

SPLIT = "split"  # the test split of the recipe


@dataclass(frozen=True)
class LabelledScores:
    """The scores of labelled images that can be read.

    Args:
        images: names of the N images.
        labels: (N,) class indices of the model; None without labels.
        logits: (N, K).
        probabilities: (N, K).
        notes: N values of `each`.
        unreadable: `{"image": name, "error": reason}` of the images that cannot be read.
        pictures: a function of indices that returns the pixels (H, W, C) of these images, resized for the model.
    """

    images: list[str]
    labels: np.ndarray | None
    logits: np.ndarray
    probabilities: np.ndarray
    notes: list
    unreadable: list[dict]
    pictures: Callable[[Sequence[int]], list[np.ndarray]]


def score_labelled(model, data: str, recipe, data_dir=None, left_out=(), argument="--data", each=None, quiet=False):
    """Return the `LabelledScores` of a model.

    Args:
        model: a Keras model or an export.
        data: a folder, a `.csv` file, or `split` for the test split of the recipe.
        recipe: a recipe for `split`; None without one.
        data_dir: replaces the directory of the recipe's data.
        left_out: files of the recipe's data that may be missing.
        argument: name of the option in error messages.
        each: a function of the pixels of each image.
        quiet: whether to hide the progress.

    Raises:
        ValueError: the data does not fit the model, or no image can be read.
    """
    if data == SPLIT:
        return _score_split(model, recipe, data_dir, left_out, argument, each, quiet)
    from keras_vit.data.labelled import class_indices, labelled_files
    from keras_vit.predict.scores import require_classifier

    interface = require_classifier(model)
    files, names = labelled_files(data, argument)
    labels = class_indices(names, interface.labels, argument)
    return score_image_files(model, files, labels, argument, each, quiet)


def score_image_files(model, files, labels, argument, each=None, quiet=False) -> LabelledScores:
    """Return the scores of image files with or without class indices. See `score_labelled`."""
    from keras_vit.predict.progress import Progress
    from keras_vit.predict.scores import require_classifier, score_files
    from keras_vit.preprocessing.inputs import load_image

    interface = require_classifier(model)
    with Progress(len(files), quiet) as progress:
        scores = score_files(model, files, progress, each)
    read = np.array([i for i in range(len(files)) if i not in scores.errors], int)
    if not len(read):
        raise ValueError(f"{argument} expected images, found {len(files):,} files of which none can be read, such as "
                         f"{files[0]!r}: {scores.errors[0]}")  # fmt: skip
    images = [files[i] for i in read]
    return LabelledScores(
        images, None if labels is None else labels[read], scores.logits[read], scores.probabilities[read],
        [scores.notes[i] for i in read], [{"image": files[i], "error": text} for i, text in scores.errors.items()],
        lambda indices: [load_image(images[i], interface.image_shape) for i in indices],
    )  # fmt: skip


def _score_split(model, recipe, data_dir, left_out, argument, each, quiet):
    """Score the test split of a recipe, prepared as the recipe's evaluation prepares it."""
    if recipe is None:
        raise ValueError(f"{argument} split expected a workdir or --recipe, received a model without a recipe.")
    from keras_vit.data.broken import naming_broken_files
    from keras_vit.data.evaluation import evaluation_batches
    from keras_vit.data.labelled import class_indices
    from keras_vit.data.sources import open_data
    from keras_vit.predict.images import BATCH_SIZE
    from keras_vit.predict.progress import Progress
    from keras_vit.predict.scores import require_classifier, score_batches

    interface, data = require_classifier(model), recipe.data
    examples = open_data(data, data.test_split, data_dir, left_out)
    if examples.multi:
        raise ValueError(f"{argument} expected one class per image, received a split with several classes per image.")
    indices, labels = class_indices(examples.labels, interface.labels, argument), []
    shape = {"input_shape": interface.image_shape, "resize": data.resize}

    def batches():
        stream = evaluation_batches(examples, batch_size=BATCH_SIZE, scale=False, **shape)
        for pixels, targets, weights in stream.as_numpy_iterator():
            count = int(weights.sum())
            yield pixels[:count], targets[:count]

    def scored_batches():
        for pixels, targets in batches():
            labels.extend(targets)
            yield pixels, [None] * len(targets)

    def pictures(wanted):
        found, start = {}, 0
        for pixels, _ in batches():
            found |= {i: pixels[i - start] for i in wanted if start <= i < start + len(pixels)}
            start += len(pixels)
            if len(found) == len(set(wanted)):
                break
        return [found[i] for i in wanted]

    with naming_broken_files(examples), Progress(examples.count, quiet) as progress:
        scores = score_batches(model, scored_batches(), progress, each)
    names = [str(i) for i in range(len(labels))] if examples.files is None else list(examples.files)
    return LabelledScores(
        names, indices[labels], scores.logits, scores.probabilities, scores.notes, [], pictures
    )  # fmt: skip
