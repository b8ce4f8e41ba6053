"""Recognise errors of the disk in exceptions of Python, TensorFlow, HDF5 and C++ libraries."""

import errno
import os

_FAILURES = tuple(
    os.strerror(code) for code in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO, errno.EACCES)
)


def failure_of_disk(error: BaseException) -> str | None:
    """Return the system's message about a file that could not be written; None for other errors.

    Libraries raise their own types of errors, whose text contains the system's message.
    """
    if isinstance(error, OSError) and error.errno is not None:
        return error.strerror
    return next((words for words in _FAILURES if words in str(error)), None)
