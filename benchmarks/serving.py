"""How many requests a second `keras-vit serve` answers, and how long one waits, beside the bare SavedModel.

    python -m benchmarks.serving [FOLDER OF JPEG FILES] [--rounds 5]

ViT-Ti/16 with 1000 classes, one JPEG file a request (`classify_bytes` of TensorFlow Serving's REST, base64 in JSON),
over real HTTP on kept connections. The clients run on the same cores as the server.
"""

import argparse
import asyncio
import base64
import contextlib
import json
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from benchmarks.harness.arguments import rounds
from benchmarks.harness.machine import in_words
from benchmarks.harness.processes import compare
from benchmarks.harness.tables import table
from benchmarks.harness.worker import work

CLIENTS, REQUESTS, LOAD = 32, 160, 0.7
KEPT = 3.0  # seconds that a silent connection is used again after; the server closes it at 5
BATCHED, SINGLE = "keras-vit serve", "keras-vit serve --max-batch-size 1"
ALONE = "SavedModel alone, one image a call"
IN_BATCHES = "SavedModel alone, 32 images a call"


def files(count: int) -> list[bytes]:
    """That many of the folder's JPEG files, from the beginning again where there are fewer."""
    paths = sorted(Path(os.environ["SERVING_IMAGES"]).glob("*.jpg"))
    return [paths[i % len(paths)].read_bytes() for i in range(count)]


def export() -> None:
    import keras_vit
    from keras_vit.export.saved_model import write_saved_model

    write_saved_model(keras_vit.ViT_Ti16(classes=1000), Path(os.environ["SERVING_EXPORT"]) / "1")


def alone(batch: int):
    """A function that answers all requests by the loaded SavedModel, without a server."""
    import tensorflow as tf

    signature = tf.saved_model.load(str(Path(os.environ["SERVING_EXPORT"]) / "1")).signatures["classify_bytes"]
    given = files(REQUESTS)

    def call():
        for start in range(0, REQUESTS, batch):
            answer = signature(image_bytes=tf.constant(given[start : start + batch]))
            {name: value.numpy() for name, value in answer.items()}

    return call


@contextlib.contextmanager
def served(*options):
    """The port of a started server."""
    command = [sys.executable, "-m", "keras_vit.cli", "serve", os.environ["SERVING_EXPORT"], "--port", "0", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            yield int(re.search(r"http://[\d.]+:(\d+)", process.stdout.readline())[1])
        finally:
            process.terminate()


class Clients:
    """Kept connections to a server, each with one request at a time."""

    def __init__(self, port: int):
        self.port, self.idle = port, []
        bodies = [json.dumps({"signature_name": "classify_bytes",
                              "instances": [{"b64": base64.b64encode(data).decode()}]}).encode()
                  for data in files(REQUESTS)]  # fmt: skip
        path = f"/v1/models/{Path(os.environ['SERVING_EXPORT']).name}:predict"
        self.requests = [f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
                         for body in bodies]  # fmt: skip

    async def ask(self, number: int) -> None:
        """One request and its whole answer; fails unless it is an answer."""
        now = asyncio.get_running_loop().time()
        self.idle = [kept for kept in self.idle if now - kept[2] < KEPT]
        reader, writer, _ = self.idle.pop() if self.idle else (*await self._connection(), now)
        writer.write(self.requests[number % REQUESTS])
        head = await reader.readuntil(b"\r\n\r\n")
        body = await reader.readexactly(int(re.search(rb"content-length: (\d+)", head)[1]))
        if not head.startswith(b"HTTP/1.1 200 ") or b'"scores"' not in body:
            raise RuntimeError(f"the server answered {head[:40]!r} {body[:200]!r}")
        self.idle.append((reader, writer, asyncio.get_running_loop().time()))

    def _connection(self):
        return asyncio.open_connection("127.0.0.1", self.port)

    async def all(self) -> None:
        """All requests, `CLIENTS` at a time, each client asking again once it is answered."""
        numbers = iter(range(REQUESTS))

        async def client():
            for number in numbers:
                await self.ask(number)

        await asyncio.gather(*(client() for _ in range(CLIENTS)))

    async def at_rate(self, rate: float, count: int) -> list[float]:
        """Seconds from when each request was due to its answer; they come by chance, so many a second on average."""
        loop, draw = asyncio.get_running_loop(), random.Random(0)
        due, tasks = loop.time(), []

        async def timed(number, due):
            await self.ask(number)
            return loop.time() - due

        for number in range(count):
            due += draw.expovariate(rate)
            await asyncio.sleep(max(0.0, due - loop.time()))
            tasks.append(asyncio.create_task(timed(number, due)))
        return await asyncio.gather(*tasks)


def loaded(options, stack):
    """A function that asks a started server all requests."""
    clients, loop = Clients(stack.enter_context(served(*options))), stack.enter_context(asyncio.Runner())

    return lambda: loop.run(clients.all())


def latencies(rate: float, count: int) -> list[float]:
    async def run():
        clients = Clients(port)
        await clients.all()  # warm
        return await clients.at_rate(rate, count)

    with served() as port:
        return asyncio.run(run())


def main(arguments: list[str] | None = None):
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", nargs="?", default="../shared/data/imagenet_sample")
    parser.add_argument("--rounds", type=rounds, default=5)
    parser.add_argument("--worker")
    options = parser.parse_args(arguments)
    contestants = {
        BATCHED: lambda stack: loaded((), stack),
        SINGLE: lambda stack: loaded(("--max-batch-size", "1"), stack),
        ALONE: lambda stack: alone(1),
        IN_BATCHES: lambda stack: alone(32),
    }
    if options.worker == "export":
        return export()
    if options.worker:
        with contextlib.ExitStack() as stack:
            return work(lambda: contestants[options.worker](stack))
    if not any(Path(options.folder).glob("*.jpg")):
        return f"benchmarks/serving.py expected a folder of JPEG files, found none in {options.folder!r}."
    with tempfile.TemporaryDirectory() as folder:
        os.environ["SERVING_EXPORT"] = str(Path(folder) / "vit")  # for the workers
        os.environ["SERVING_IMAGES"] = options.folder
        subprocess.run(
            [sys.executable, "-m", "benchmarks.serving", "--worker", "export"], check=True, stderr=subprocess.DEVNULL
        )
        print(f"{in_words()}\n")
        seconds = compare([sys.executable, "-m", "benchmarks.serving"], list(contestants), options.rounds)
        title = f"ViT-Ti/16 from JPEG files, {CLIENTS} clients on the server's own cores"
        print(table(title, seconds, BATCHED, lambda value: REQUESTS / value, "requests/s"))
        rate = LOAD * REQUESTS / statistics.median(seconds[BATCHED])
        waits = sorted(1000 * wait for wait in latencies(rate, max(400, round(20 * rate))))
    p50, p99 = (waits[int(part * len(waits))] for part in (0.5, 0.99))
    print(f"### A request's wait at {LOAD:.0%} of that load ({rate:.1f} a second, {len(waits)} of them)\n")
    print("| p50, ms | p99, ms | p99 / p50 |\n|---:|---:|---:|")
    print(f"| {p50:.1f} | {p99:.1f} | {p99 / p50:.2f} |")
    return None


if __name__ == "__main__":
    sys.exit(main())
