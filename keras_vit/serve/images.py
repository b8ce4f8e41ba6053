"""Measure the image files of a request before decoding, and compute large ones separately.

B batch.
"""

import base64
import binascii
import re
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from keras_vit.serve.errors import Refusal
from keras_vit.serve.limits import Limits
from keras_vit.serve.measure import Measured, measure
from keras_vit.serve.signature import Signature

LARGE_PIXELS, LARGE_SCANS = 1_000_000, 16  # images above either limit are not batched with others
PIECE_PIXELS = 8_000_000  # small images of a request that are computed together
MAX_SCANS = 64  # scans of a JPEG file; progressive ones have 10, and 18 with four colours
MAX_WORK = 20  # pixels times scans, as a multiple of the maximum pixels
_BASE64_OF_IMAGE = re.compile(rb"(?:data:[\w.+/-]+;base64,)?(?=/9j/|iVBORw0KGgo|R0lGOD|UklGR)")


class Piece(NamedTuple):
    """Images `start` to `stop` of a request, which are computed together. A large image has its own piece."""

    start: int
    stop: int
    pixels: int
    large: bool


@dataclass(frozen=True)
class Call:
    """A request with measured image files.

    Args:
        signature: the requested signature.
        inputs: its arrays, with an empty string for each refused file.
        refused: index in the batch -> reason, for the refused files.
        pieces: the parts of the batch, which are computed one after another.
    """

    signature: Signature
    inputs: dict[str, np.ndarray]
    refused: dict[int, str]
    pieces: list[Piece]

    @property
    def large(self) -> bool:
        """Return whether the request takes much longer than a small image."""
        return len(self.pieces) > 1 or self.pieces[0].large


class Budget:
    """Limit the pixels of large images that are decoded at the same time.

    Args:
        pixels: the limit.
    """

    def __init__(self, pixels: int):
        self._limit = self._free = pixels
        self._turn, self._changed = threading.Lock(), threading.Condition()

    @contextmanager
    def taking(self, pixels: int):
        """Wait until `pixels` are free, at most the limit, and reserve them inside the `with`."""
        pixels = min(pixels, self._limit)
        with self._turn, self._changed:  # one waiter at a time, so that a large image cannot starve
            self._changed.wait_for(lambda: self._free >= pixels)
            self._free -= pixels
        try:
            yield
        finally:
            with self._changed:
                self._free += pixels
                self._changed.notify_all()


def check(signature: Signature, inputs: dict[str, np.ndarray], limits: Limits) -> Call:
    """Measure the image files of a request without decoding them.

    A bad file gets its error message in the output `error`. If the signature has no such output, the request is
    refused.

    Args:
        signature: the requested signature.
        inputs: its arrays; string arrays (B,) hold image files.
        limits: limits of a request.

    Raises:
        Refusal: an image file is bad and the signature has no output `error`, or the images have too many pixels.
    """
    refused: dict[int, str] = {}
    count = max((len(value) for value in inputs.values() if value.ndim), default=1)
    pixels, large = np.zeros(count, np.int64), np.zeros(count, bool)
    for name, value in inputs.items():
        if signature.inputs[name].dtype != tf.string or value.ndim != 1:
            continue
        files = []
        for i, data in enumerate(map(_file, value)):
            measured = measure(data)
            if sentence := _fault(measured, len(data), limits.max_pixels):
                if "error" not in signature.outputs:
                    raise Refusal(400, f"{name} {i} {sentence}")
                refused[i] = f"{name} {i} {sentence}"
                files.append(b"")
                continue
            files.append(measured.data)
            pixels[i] += measured.pixels
            large[i] |= measured.pixels > LARGE_PIXELS or measured.scans > LARGE_SCANS
        inputs = {**inputs, name: np.array(files, object)}
    if (total := int(pixels.sum())) > (most := limits.max_request_pixels):
        raise Refusal(413, f"the request expected images of at most {most:,} pixels in all, received {total:,}.")
    if signature.max_rows is None:
        return Call(signature, inputs, refused, [Piece(0, count, total, bool(large.any()))])
    return Call(signature, inputs, refused, _pieces(pixels.tolist(), large.tolist()))


def compute(call: Call, budget: Budget, deadline: float, seconds: float) -> dict[str, np.ndarray]:
    """Compute a request piece by piece, and return the outputs by name.

    Args:
        call: the request.
        budget: limit of the pixels of large images that are decoded at the same time.
        deadline: value of `time.monotonic()` after which no further piece starts.
        seconds: the time limit in seconds, for the error message.

    Raises:
        Refusal: the deadline has passed (503), or `Signature` refuses the inputs.
    """
    results = []
    for piece in call.pieces:
        if time.monotonic() > deadline:
            raise Refusal(503, f"the server could not compute the request within {seconds:g} s, try again later.")
        inputs = call.inputs
        if len(call.pieces) > 1:
            inputs = {name: value[piece.start : piece.stop] for name, value in inputs.items()}
        if piece.large:
            with budget.taking(piece.pixels):
                results.append(call.signature(inputs, alone=True))
        else:
            results.append(call.signature(inputs))
    outputs = results[0]
    if len(results) > 1:
        outputs = {name: np.concatenate([result[name] for result in results]) for name in outputs}
    if call.refused:
        sentences = outputs["error"].astype(object)
        for i, sentence in call.refused.items():
            sentences[i] = sentence.encode()
        outputs["error"] = sentences
    return outputs


def _pieces(pixels: list[int], large: list[bool]) -> list[Piece]:
    pieces = [Piece(0, 0, 0, False)]
    for i, (count, is_large) in enumerate(zip(pixels, large, strict=True)):
        last = pieces[-1]
        if is_large or last.large or last.pixels + count > PIECE_PIXELS:
            pieces.append(Piece(i, i + 1, count, is_large))
        else:
            pieces[-1] = last._replace(stop=i + 1, pixels=last.pixels + count)
    return pieces if len(pieces) == 1 or pieces[0].stop else pieces[1:]


def _file(data: bytes) -> bytes:
    """Return the bytes of an image file, decoded if the client has sent base64 text."""
    if start := _BASE64_OF_IMAGE.match(data):
        try:
            return base64.b64decode(data[start.end() :], validate=True)
        except binascii.Error:
            return data
    return data


def _fault(measured: Measured | None, size: int, max_pixels: int) -> str | None:
    """Return why a measured image file is refused; None if it is accepted."""
    if measured is None:
        return f"expected an image file (JPEG, PNG, GIF or WebP), received {size:,} other bytes."
    if measured.animated:
        return "expected one image, received an animation."
    if measured.pixels > max_pixels:
        return f"expected an image of at most {max_pixels:,} pixels, received {measured.width} x {measured.height}."
    most = min(MAX_SCANS, MAX_WORK * max_pixels // measured.pixels)
    if measured.scans > most:
        return f"expected a JPEG file of at most {most} scans at its size, received {measured.scans}."
    return None
