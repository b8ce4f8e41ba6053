"""Turn user errors and disk errors into one sentence."""

from keras_vit.disk import failure_of_disk

USER_ERRORS = (
    *(ValueError, ImportError),
    OSError,  # a full disk
    FloatingPointError,  # a loss that is not finite
)


def error_message(error: Exception) -> str | None:
    """Return the message of a user error or a disk error; None for a bug of the package."""
    if isinstance(error, USER_ERRORS) and getattr(error, "errno", None) is None:
        return str(error)
    reason = failure_of_disk(error)
    if reason is None:
        return None
    place = f" {error.filename!r}" if getattr(error, "filename", None) else ""
    return f"the system refused to read or write{place}: {reason}."
