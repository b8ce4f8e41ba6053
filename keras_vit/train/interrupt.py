"""Ctrl-C and SIGTERM, handled between two updates."""

import signal
import threading


class Interrupt:
    """Sets `requested` at the first Ctrl-C or SIGTERM inside the `with`; a second one ends the process as usual.

    `code` is the exit status of the stopped process: 128 plus the number of the signal. A worker that stops because
    another worker was signalled uses SIGTERM's.
    """

    def __init__(self):
        self.requested = False
        self.code = 128 + signal.SIGTERM
        self._before = {}

    def __enter__(self):
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._request)
        return self

    def _request(self, number, _):
        self.requested, self.code = True, 128 + number
        self._restore_handlers()

    def _restore_handlers(self):
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}

    def __exit__(self, *_):
        self._restore_handlers()
