"""Load the models, listen, and answer all pending requests before stopping."""

import asyncio
import copy
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

STOP_SECONDS = 30  # time limit of pending requests after a stop signal


def serve(
    folders,
    host: str = "127.0.0.1",
    port: int = 8501,
    batching: Batching | None = None,
    limits: Limits | None = None,
    keep: int = 1,
    poll_seconds: float = 2.0,
    allowed_hosts=(),
    ready=None,
) -> None:
    """Serve exported models until SIGTERM or SIGINT. Then answer the pending requests and return.

    Args:
        folders: folders of the models, `saved_models/NAME`. New versions in them are loaded, warmed up and served
            instead of the old ones.
        host: address to listen on; `0.0.0.0` for all.
        port: port to listen on; 0 for a free one, which is printed.
        batching: settings of batching.
        limits: limits of a request.
        keep: number of newest versions to serve per model.
        poll_seconds: time between two checks for new versions.
        allowed_hosts: host names of the server, in addition to `host`, `localhost` and all IP addresses; `*` allows any
            name.
        ready: receives the address and a dict from the models' names to their versions, once requests are answered;
            None prints both.

    Raises:
        ValueError: an argument is out of range, a folder holds no loadable export, or the port is taken.
    """
    batching, limits = batching or Batching(), limits or Limits()
    _check(keep, poll_seconds, batching, limits)
    with _bind(host, port) as listener:
        repository = Repository(folders, keep, batching, poll_seconds, lambda sentence: print(sentence, flush=True))
        app = make_app(repository, limits, Gate({host, *allowed_hosts}))
        config = uvicorn.Config(
            app,
            http=bounded(limits.header_seconds),
            log_level="warning",
            log_config=log_settings(),
            access_log=False,
            timeout_graceful_shutdown=STOP_SECONDS,
            server_header=False,
            ws="none",
        )
        _run(_Server(config), repository, listener, ready or _print_ready)
        print("stopped", flush=True)


def log_settings() -> dict:
    """Return uvicorn's settings of its log, on the process's standard error also where `--quiet` has replaced it."""
    settings = copy.deepcopy(uvicorn.config.LOGGING_CONFIG)
    settings["handlers"]["default"]["stream"] = "ext://sys.__stderr__"
    return settings


def _check(keep: int, poll_seconds: float, batching: Batching, limits: Limits) -> None:
    """Raise a ValueError if a value is out of range."""
    positive = {"keep": keep, "max_batch_size": batching.max_batch_size, "poll_seconds": poll_seconds}
    positive |= dataclasses.asdict(limits)
    for name, value in positive.items():
        if not value > 0:
            raise ValueError(f"{name} expected a positive number, received {value!r}.")
    if not batching.batch_timeout_ms >= 0:
        raise ValueError(f"batch_timeout expected milliseconds from 0 on, received {batching.batch_timeout_ms!r}.")


def _print_ready(address: str, models: dict[str, list[int]]) -> None:
    print(ready_sentence(address, models), flush=True)


def ready_sentence(address: str, models: dict[str, list[int]]) -> str:
    """Return the sentence about the address and the newest version of each model."""
    newest = ", ".join(f"{name} (version {max(versions)})" for name, versions in models.items())
    return f"serving {newest} at {address}"


def _run(server: uvicorn.Server, repository: Repository, listener: socket.socket, ready) -> None:
    """Run the server until SIGTERM or SIGINT."""
    models = {name: sorted(model.versions) for name, model in repository.models.items()}
    address, bound = listener.getsockname()[:2]

    def stop(*_) -> None:
        server.should_exit = True

    # Needed until uvicorn installs its handler, and because uvicorn raises the signal again at the end.
    before = signal.signal(signal.SIGTERM, stop)
    try:
        with repository:
            listener.listen(server.config.backlog)  # before the message, so that its readers can connect
            ready(f"http://{address}:{bound}", models)
            server.run(sockets=[listener])
    except KeyboardInterrupt:
        pass
    finally:
        signal.signal(signal.SIGTERM, before)


class _Server(uvicorn.Server):
    """uvicorn's server, which also accepts the waiting connections before it stops listening."""

    async def shutdown(self, sockets=None) -> None:
        for listener in sockets or ():
            listener.listen(0)  # further connections are refused
            waiting, until = select.poll(), time.monotonic() + 1.0
            waiting.register(listener, select.POLLIN)
            while waiting.poll(0) and time.monotonic() < until:
                await asyncio.sleep(0)
        await asyncio.sleep(0)
        await super().shutdown(sockets)


def _bind(host: str, port: int) -> socket.socket:
    """Return a bound socket. Binding before loading reports a taken port at once."""
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
