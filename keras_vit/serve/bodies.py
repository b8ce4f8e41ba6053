"""Read the bodies of requests within the limits of one body and of all bodies."""

import asyncio
from contextlib import asynccontextmanager

from starlette.requests import Request

from keras_vit.serve.errors import Refusal
from keras_vit.serve.limits import Limits

MAX_BODIES = 16  # bodies of the maximum size that may be in memory


class Body:
    """A body that is being received, or whose request has no response yet."""

    def __init__(self, timeout: asyncio.Timeout):
        self.timeout, self.size, self.arriving, self.dropped = timeout, 0, True, False


class Bodies:
    """Track the bodies in memory.

    Slow clients must not block others. If the memory limit is reached, the oldest body that is still being received is
    dropped.
    """

    def __init__(self, limits: Limits):
        self.limits, self.max_bytes = limits, MAX_BODIES * limits.max_request_bytes
        self.in_memory: dict[Body, None] = {}  # oldest first

    @asynccontextmanager
    async def read(self, request: Request):
        """Receive and yield the body of a request. The body counts as in memory until the `with` ends.

        Raises:
            Refusal: the body is too large (413) or too slow (408), or the memory limit is reached (503).
        """
        limit, seconds = self.limits.max_request_bytes, self.limits.body_seconds
        too_large = Refusal(413, f"the body expected at most {limit:,} bytes, received more.", close=True)
        declared = request.headers.get("content-length", "")
        if declared.isdecimal() and int(declared) > limit:
            raise too_large
        body, chunks = None, []
        try:
            async with asyncio.timeout(seconds) as timeout:
                self.in_memory[body := Body(timeout)] = None
                async for chunk in request.stream():
                    body.size += len(chunk)
                    if body.size > limit:
                        raise too_large
                    chunks.append(chunk)
                    self._make_room(body)
            body.arriving = False
            yield b"".join(chunks)
        except TimeoutError:
            if body is None or not body.arriving:  # raised by the caller inside the `with`
                raise
            if body.dropped:
                raise _no_room() from None
            sentence = f"the body expected to arrive within {seconds:g} s, received {body.size:,} bytes."
            raise Refusal(408, sentence, close=True) from None
        finally:
            self.in_memory.pop(body, None)

    def _make_room(self, body: Body) -> None:
        while sum(other.size for other in self.in_memory) > self.max_bytes:
            oldest = next((other for other in self.in_memory if other.arriving), body)
            if oldest is body:
                raise _no_room()
            del self.in_memory[oldest]
            oldest.dropped = True
            oldest.timeout.reschedule(0.0)  # ends its wait for more bytes


def _no_room() -> Refusal:
    return Refusal(503, "the server has no memory for more bodies, try again later.", close=True)
