"""Errors that are a user's mistake or the disk's, as one sentence."""

from keras_vit.disk import failure_of_disk

MISTAKES = (
    *(ValueError, ImportError),
    OSError,  # a full disk
    FloatingPointError,  # a loss that is not finite, most often because of the learning rate
)


def sentence_of(error: Exception) -> str | None:
    """Return what a user reads of an error; None for a fault of the package."""
    if isinstance(error, MISTAKES) and getattr(error, "errno", None) is None:
        return str(error)
    reason = failure_of_disk(error)
    if reason is None:
        return None
    place = f" {error.filename!r}" if getattr(error, "filename", None) else ""
    return f"the system refused to read or write{place}: {reason}."
