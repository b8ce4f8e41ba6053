"""Bodies of requests, read within the limits of each and of all together."""

import asyncio
from contextlib import asynccontextmanager

from starlette.requests import Request

from keras_vit.serve.errors import Refusal
from keras_vit.serve.limits import Limits

TOGETHER = 16  # bodies of the largest size that may be in memory


class Body:
    """A body that is arriving, or whose request has no answer yet."""

    def __init__(self, patience: asyncio.Timeout):
        self.patience, self.size, self.arrives, self.gave_way = patience, 0, True, False


class Bodies:
    """The bodies that are in memory.

    Slow clients may not keep others out: where there is no room for more bytes, the body that has been arriving for the
    longest time gives way.
    """

    def __init__(self, limits: Limits):
        self.limits, self.most = limits, TOGETHER * limits.max_request_bytes
        self.held: dict[Body, None] = {}  # the oldest first

    @asynccontextmanager
    async def read(self, request: Request):
        """The body of a request, which counts as in memory until the `with` ends.

        Raises:
            Refusal: it is too large (413), too slow (408), or there is no room for it (503).
        """
        limit, seconds = self.limits.max_request_bytes, self.limits.body_seconds
        too_large = Refusal(413, f"the body expected at most {limit:,} bytes, received more.", close=True)
        declared = request.headers.get("content-length", "")
        if declared.isdecimal() and int(declared) > limit:
            raise too_large
        body, chunks = None, []
        try:
            async with asyncio.timeout(seconds) as patience:
                self.held[body := Body(patience)] = None
                async for chunk in request.stream():
                    body.size += len(chunk)
                    if body.size > limit:
                        raise too_large
                    chunks.append(chunk)
                    self._make_room(body)
            body.arrives = False
            yield b"".join(chunks)
        except TimeoutError:
            if body is None or not body.arrives:  # of the request's own
                raise
            if body.gave_way:
                raise _no_room() from None
            sentence = f"the body expected to arrive within {seconds:g} s, received {body.size:,} bytes."
            raise Refusal(408, sentence, close=True) from None
        finally:
            self.held.pop(body, None)

    def _make_room(self, body: Body) -> None:
        while sum(other.size for other in self.held) > self.most:
            oldest = next((other for other in self.held if other.arrives), body)
            if oldest is body:
                raise _no_room()
            del self.held[oldest]
            oldest.gave_way = True
            oldest.patience.reschedule(0.0)  # which ends its wait for more


def _no_room() -> Refusal:
    return Refusal(503, "the server has no memory for more bodies, try again later.", close=True)
