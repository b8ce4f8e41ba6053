"""A disk that cannot be written to, whoever says so: Python, TensorFlow, HDF5 or a C++ library."""

import errno
import os

_FAILURES = tuple(
    os.strerror(code) for code in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO, errno.EACCES)
)


def failure_of_disk(error: BaseException) -> str | None:
    """Return in the system's words why a file could not be written; None where an error is about something else.

    Libraries raise errors of their own kinds, in whose text the system's words stand.
    """
    if isinstance(error, OSError) and error.errno is not None:
        return error.strerror
    return next((words for words in _FAILURES if words in str(error)), None)
