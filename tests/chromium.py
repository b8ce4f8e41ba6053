"""A headless Chromium, told what to do over its DevTools protocol, without a library between.

The browser is the one that `KERAS_VIT_CHROMIUM` names, else one of the usual names on the path. Where only package
registries are at hand, the npm package `@sparticuz/chromium` carries one (with its version 147 these tests pass):

    npm install @sparticuz/chromium
    node -e 'import("@sparticuz/chromium").then(found => found.default.executablePath()).then(console.log)'

unpacks it and prints where it lies.
https://chromedevtools.github.io/devtools-protocol/
"""

import base64
import contextlib
import fcntl
import json
import os
import shutil
import subprocess
import threading
import time
from pathlib import Path

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome", "chrome-headless-shell")
SECONDS = 60  # for one answer; only bounds a failure
OPTIONS = (
    *("--headless", "--remote-debugging-pipe", "--disable-gpu", "--no-first-run", "--no-default-browser-check"),
    *("--no-sandbox", "--no-zygote", "--single-process", "--disable-dev-shm-usage"),  # what a container has to do with
    *("--hide-scrollbars", "--disable-background-networking", "--disable-component-update"),
)


class Page:
    """One page of a started browser."""

    def __init__(self, commands, answers):
        self._commands, self._answers, self._number, self._session = commands, answers, 0, None
        self.said = []  # what the page wrote to its console, and what it asked the network for
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters) -> dict:
        """One command; its result."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        self._commands.write(json.dumps(message).encode() + b"\0")
        self._commands.flush()
        while True:
            answer = json.loads(self._read())
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return answer["result"]
            self.said.append(answer)

    def _read(self) -> bytes:
        message = bytearray()
        while (byte := self._answers.read(1)) != b"\0":
            assert byte, "the browser ended"
            message += byte
        return message

    def open(self, address: str, width: int, height: int, dark: bool = False) -> None:
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.call("Emulation.setEmulatedMedia", features=scheme)
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        self.call("Page.navigate", url=address)
        self.until("document.readyState === 'complete'")

    def evaluate(self, expression: str):
        """The value of a JavaScript expression, awaited."""
        result = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def until(self, condition: str) -> None:
        """Until a JavaScript condition holds; the deadline only bounds a failure."""
        for _ in range(20 * SECONDS):
            if self.evaluate(f"Boolean({condition})"):
                return
            time.sleep(0.05)
        raise AssertionError(f"never came to hold: {condition}")

    def drop(self, path: Path, selector: str) -> None:
        """Drag a file from outside onto the middle of an element, and let it go."""
        box = self.evaluate(f"document.querySelector({selector!r}).getBoundingClientRect().toJSON()")
        at = {"x": box["x"] + box["width"] / 2, "y": box["y"] + box["height"] / 2}
        data = {"items": [], "files": [str(path)], "dragOperationsMask": 1}
        for kind in ("dragEnter", "dragOver", "drop"):
            self.call("Input.dispatchDragEvent", type=kind, **at, data=data)

    def screenshot(self) -> bytes:
        """PNG of the whole page."""
        return base64.b64decode(self.call("Page.captureScreenshot", captureBeyondViewport=True)["data"])

    def of(self, method: str) -> list[dict]:
        """Parameters of the events of one kind so far."""
        return [event["params"] for event in self.said if event.get("method") == method]


@contextlib.contextmanager
def browser(folder: Path):
    """A page of a browser whose profile is in `folder`; skips the test where there is no browser."""
    path = os.environ.get("KERAS_VIT_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        pytest.skip("no Chromium: KERAS_VIT_CHROMIUM names none, and none is on the path")
    pipes = [*os.pipe(), *os.pipe()]
    # It reads from 3 and writes to 4; higher numbers here, lest one lie in the other's way.
    theirs = [fcntl.fcntl(pipe, fcntl.F_DUPFD, 10) for pipe in (pipes[0], pipes[3])]
    command = ["bash", "-c", f'exec "$0" "$@" 3<&{theirs[0]} 4>&{theirs[1]}', path]
    with subprocess.Popen(
        [*command, *OPTIONS, f"--user-data-dir={folder}"], pass_fds=theirs, stderr=subprocess.DEVNULL
    ) as process:
        for pipe in (pipes[0], pipes[3], *theirs):
            os.close(pipe)
        kill = threading.Timer(10 * SECONDS, process.kill)
        kill.start()
        try:
            with open(pipes[1], "wb") as commands, open(pipes[2], "rb") as answers:
                page = Page(commands, answers)
                yield page
                page.call("Browser.close")
        finally:
            kill.cancel()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(10)
            process.kill()
