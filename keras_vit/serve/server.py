"""Load the models, listen, and stop without leaving a request behind."""

import asyncio
import dataclasses
import select
import signal
import socket
import time

import uvicorn

from keras_vit.serve.app import make_app
from keras_vit.serve.connection import bounded
from keras_vit.serve.gate import Gate
from keras_vit.serve.limits import Limits
from keras_vit.serve.repository import Repository
from keras_vit.serve.signature import Batching

STOP_SECONDS = 30  # what is in flight when a stop is asked for may take this long


def serve(
    folders,
    host: str = "127.0.0.1",
    port: int = 8501,
    batching: Batching | None = None,
    limits: Limits | None = None,
    keep: int = 1,
    poll_seconds: float = 2.0,
    allowed_hosts=(),
) -> None:
    """Serve exported models until SIGTERM or SIGINT, then answer what is in flight and return.

    Args:
        folders: of the models, `saved_models/NAME` each; a version that appears there later is loaded, warmed up and
            put in the older one's place.
        host: address to listen at; `0.0.0.0` for all.
        port: to listen at; 0 for a free one, which is printed.
        batching: how concurrent calls are gathered.
        limits: what a request may cost.
        keep: how many of the newest versions of each model to serve.
        poll_seconds: time between two looks for new versions.
        allowed_hosts: names under which clients reach the server, beside `host`, `localhost` and all IP addresses; `*`
            for any name.

    Raises:
        ValueError: an argument is out of range, a folder holds no export that can be loaded, or the port is taken.
    """
    batching, limits = batching or Batching(), limits or Limits()
    positive = {"keep": keep, "max_batch_size": batching.max_batch_size, "poll_seconds": poll_seconds}
    positive |= dataclasses.asdict(limits)
    for name, value in positive.items():
        if not value > 0:
            raise ValueError(f"{name} expected a positive number, received {value!r}.")
    if not batching.batch_timeout_ms >= 0:
        raise ValueError(f"batch_timeout expected milliseconds from 0 on, received {batching.batch_timeout_ms!r}.")
    with _listen(host, port) as listener:
        repository = Repository(folders, keep, batching, poll_seconds, lambda sentence: print(sentence, flush=True))
        app = make_app(repository, limits, Gate({host, *allowed_hosts}))
        config = uvicorn.Config(
            app,
            http=bounded(limits.header_seconds),
            log_level="warning",
            access_log=False,
            timeout_graceful_shutdown=STOP_SECONDS,
            server_header=False,
            ws="none",
        )
        models = ", ".join(f"{name} (version {max(m.versions)})" for name, m in repository.models.items())
        address, bound = listener.getsockname()[:2]
        server = _Server(config)

        def stop(*_) -> None:
            server.should_exit = True

        # Until uvicorn's own handler is there; and uvicorn raises the signal once more when all is done.
        before = signal.signal(signal.SIGTERM, stop)
        try:
            with repository:
                listener.listen(config.backlog)  # before it is said, so that who reads it can connect
                print(f"serving {models} at http://{address}:{bound}", flush=True)
                server.run(sockets=[listener])
        except KeyboardInterrupt:
            pass
        finally:
            signal.signal(signal.SIGTERM, before)
        print("stopped", flush=True)


class _Server(uvicorn.Server):
    """uvicorn's, which takes what waits to be accepted before it stops listening."""

    async def shutdown(self, sockets=None) -> None:
        for listener in sockets or ():
            listener.listen(0)  # no more are put in the queue: their clients are told that nobody listens
            waiting, until = select.poll(), time.monotonic() + 1.0
            waiting.register(listener, select.POLLIN)
            while waiting.poll(0) and time.monotonic() < until:
                await asyncio.sleep(0)
        await asyncio.sleep(0)
        await super().shutdown(sockets)


def _listen(host: str, port: int) -> socket.socket:
    """A socket bound before anything is loaded, so that a taken port costs no time."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
    except (OSError, OverflowError) as error:
        raise ValueError(f"host and port expected an address, received {host!r} and {port!r} ({error}).") from None
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except (OSError, OverflowError) as error:
        listener.close()
        raise ValueError(f"port expected a free one at {host}, received {port} ({error}).") from None
    return listener
