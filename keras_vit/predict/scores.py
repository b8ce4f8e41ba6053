"""Compute the logits and probabilities of many images by a Keras model or an export.

N images, B batch, H W C image, K classes.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from keras_vit.exported import ExportedModel
from keras_vit.models.model_interface import ModelInterface
from keras_vit.predict.images import BATCH_SIZE, loaded_batches
from keras_vit.predict.predictor import interface_of
from keras_vit.predict.progress import Progress


@dataclass(frozen=True)
class Scores:
    """The outputs of a classifier for N images.

    Args:
        logits: (N, K); zeros for an image that cannot be read.
        probabilities: (N, K).
        errors: index -> why the image cannot be read.
        notes: the values of `each` for the images, None for an image that cannot be read.
    """

    logits: np.ndarray
    probabilities: np.ndarray
    errors: dict[int, str]
    notes: list


def score_files(
    model, files: Sequence[str], progress: Progress, each: Callable[[np.ndarray], object] | None = None
) -> Scores:
    """Return the scores of image files, which are decoded and resized as `predict` does.

    Args:
        model: a Keras model of this package with a classifier, or an export of one.
        files: paths of the images.
        progress: receives the number of finished images.
        each: a function of the pixels (H, W, C) in 0..255 of each image, whose values are returned as `notes`.

    Raises:
        ValueError: the model has no classifier.
    """
    interface = require_classifier(model)
    loaded = loaded_batches(files, interface.image_shape, interface.preprocessing)
    return score_batches(model, ((pixels, errors) for _, pixels, errors in loaded), progress, each)


def score_batches(model, batches: Iterable, progress: Progress, each=None) -> Scores:
    """Return the scores of batches of (pixels (B, H, W, C) in 0..255, error messages or None of B images)."""
    interface, outputs_of = require_classifier(model), _outputs_function(model)
    logits, probabilities, errors, notes = [], [], {}, []
    for pixels, messages in batches:
        count = len(messages)
        missing = BATCH_SIZE - count  # a batch of another size would be compiled again
        padded = np.pad(pixels, [(0, max(missing, 0)), (0, 0), (0, 0), (0, 0)])
        outputs = outputs_of(interface.inputs_of(padded))
        errors |= {len(notes) + i: message for i, message in enumerate(messages) if message}
        logits.append(np.asarray(outputs["logits"])[:count])
        probabilities.append(np.asarray(outputs["probabilities"])[:count])
        notes += [each(image) if each and not error else None for image, error in zip(pixels, messages, strict=True)]
        progress.add(count)
    return Scores(np.concatenate(logits), np.concatenate(probabilities), errors, notes)


def thumbnails_of(files: Sequence[str], interface: ModelInterface, progress: Progress, each: Callable) -> list:
    """Return `each` of the pixels of image files without a model; None for a file that cannot be read."""
    notes = []
    for _, pixels, messages in loaded_batches(files, interface.image_shape, interface.preprocessing):
        notes += [None if error else each(image) for image, error in zip(pixels, messages, strict=True)]
        progress.add(len(messages))
    return notes


def require_classifier(model) -> ModelInterface:
    """Return the interface of a model, or raise a ValueError if the model has no classifier."""
    interface = interface_of(model)
    if interface.targets:
        raise ValueError(f"model expected a classifier, received {model.name}, a regression of "
                         f"{', '.join(interface.targets)}.")  # fmt: skip
    if interface.classes is None:
        raise ValueError(f"model expected a classifier, received {model.name} without one (include_top=False).")
    return interface


def _outputs_function(model):
    """Return a function: images (B, H, W, C) -> `logits` and `probabilities` by name."""
    if isinstance(model, ExportedModel):
        return model
    from keras_vit.models.model_interface import named_outputs

    return named_outputs(model).predict_on_batch
