"""Turn errors of users and of the disk into one sentence."""

from keras_vit.disk import failure_of_disk

MISTAKES = (
    *(ValueError, ImportError),
    OSError,  # a full disk
    FloatingPointError,  # a loss that is not finite
)


def sentence_of(error: Exception) -> str | None:
    """Return the sentence that a user reads for an error; None for a bug of the package."""
    if isinstance(error, MISTAKES) and getattr(error, "errno", None) is None:
        return str(error)
    reason = failure_of_disk(error)
    if reason is None:
        return None
    place = f" {error.filename!r}" if getattr(error, "filename", None) else ""
    return f"the system refused to read or write{place}: {reason}."
