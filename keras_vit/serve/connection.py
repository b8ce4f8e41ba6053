"""Limit the time and the size of a request's headers, and answer every complete request.

uvicorn does not limit headers. It closes a connection whose client has closed its side, and at shutdown it closes
connections whose request it has not read yet.
"""

import json
from http import HTTPStatus

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

LAST_REQUEST_SECONDS = 0.5  # time for a request that was on its way at shutdown to arrive
MAX_HEAD_BYTES = 65_536  # headers of one request: in the packet where they begin only complete lines count


class Connection(HttpToolsProtocol):
    """uvicorn's, with a deadline for a request's line and headers; `bounded` makes the class of a server."""

    header_seconds = 10.0
    _deadline = None  # set while headers are awaited
    _head_bytes, _begins = 0, False
    _stops = False

    def connection_made(self, transport) -> None:
        super().connection_made(transport)
        self._await_head()

    def connection_lost(self, exc) -> None:
        self._head_is_here()
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._head_bytes, self._begins = 0, True
        if self._deadline is None:  # on a reused connection, where uvicorn limits the idle time before
            self._await_head()

    def on_header(self, name: bytes, value: bytes) -> None:
        super().on_header(name, value)
        if self._begins:  # at an unknown offset of the packet
            self._head_bytes += len(name) + len(value)

    def on_headers_complete(self) -> None:
        self._head_is_here()
        super().on_headers_complete()
        if self._stops and self.cycle is not None:
            self.cycle.keep_alive = False

    def eof_received(self) -> bool:
        """Keep the connection open for the response if the client has closed its side after a complete request."""
        waits = self.cycle is not None and not self.cycle.response_complete and not self.cycle.more_body
        if waits:
            self.cycle.keep_alive = False
        return waits

    def shutdown(self) -> None:
        """Answer the requests that have arrived or are on their way, then close."""
        self._stops = True
        if self.cycle is None or self.cycle.response_complete:
            self.loop.call_later(LAST_REQUEST_SECONDS, self._close_unless_asked)
        else:
            self.cycle.keep_alive = False

    def _close_unless_asked(self) -> None:
        if self.cycle is None or self.cycle.response_complete:
            self.transport.close()

    def data_received(self, data: bytes) -> None:
        self._begins = False
        ends = self.timeout_keep_alive_task and self.timeout_keep_alive_task.when()
        super().data_received(data)
        if self._deadline is not None:
            self._head_bytes += 0 if self._begins else len(data)
            if self._head_bytes > MAX_HEAD_BYTES:
                self._refuse(431, f"the headers expected at most {MAX_HEAD_BYTES:,} bytes, received more.")
        self._await_request(ends)

    def _await_request(self, ends: float | None) -> None:
        """Restore uvicorn's deadline for the next request, which any byte cancels.

        The bytes may not begin a request: an empty line, or a body whose request was answered without it. A deadline
        that was set keeps its time.
        """
        answered = self.cycle is not None and self.cycle.response_complete
        waiting = self._deadline is not None or self.timeout_keep_alive_task is not None
        if answered and not waiting and not self.transport.is_closing():
            ends = ends or self.loop.time() + self.timeout_keep_alive
            self.timeout_keep_alive_task = self.loop.call_at(ends, self.timeout_keep_alive_handler)

    def _await_head(self) -> None:
        self._deadline = self.loop.call_later(self.header_seconds, self._too_late)

    def _head_is_here(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _too_late(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            self._await_head()  # the slow request follows one that is still being answered
        elif self.headers is None:
            self._deadline = None
            self.transport.close()  # no request has begun
        else:
            self._refuse(408, f"the headers expected to arrive within {self.header_seconds:g} s, received a part.")

    def send_400_response(self, msg: str) -> None:
        self._refuse(400, "the request expected HTTP/1.1, received a message that does not follow it.")

    def _refuse(self, status: int, sentence: str) -> None:
        self._head_is_here()
        body = json.dumps({"error": sentence}).encode()
        head = (
            f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\ncontent-type: application/json\r\n"
            f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        self.transport.close()


def bounded(header_seconds: float) -> type[Connection]:
    """Return a connection class with a time limit for headers, in seconds."""
    return type("BoundedConnection", (Connection,), {"header_seconds": header_seconds})
