"""Image files in requests: each is measured before it is decoded, and large ones are decoded apart from the others.

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

LARGE_PIXELS, LARGE_SCANS = 1_000_000, 16  # an image past either is computed alone, not in a batch with others
PIECE_PIXELS = 8_000_000  # of the smaller images of a request that are computed together
MAX_SCANS = 64  # of a JPEG file; a progressive one has 10, of four colours 18
MAX_WORK = 20  # pixels times scans, as a multiple of the most pixels
_BASE64_OF_IMAGE = re.compile(rb"(?:data:[\w.+/-]+;base64,)?(?=/9j/|iVBORw0KGgo|R0lGOD|UklGR)")


class Piece(NamedTuple):
    """Images of a request that are computed together: `start` to `stop`; a large one is alone."""

    start: int
    stop: int
    pixels: int
    large: bool


@dataclass(frozen=True)
class Call:
    """A request whose image files are measured.

    Args:
        signature: to be called.
        inputs: its arrays, with an empty string in place of each file that cannot be used.
        refused: what is wrong with these files, by their place in the batch.
        pieces: the parts of the batch that are computed one after the other.
    """

    signature: Signature
    inputs: dict[str, np.ndarray]
    refused: dict[int, str]
    pieces: list[Piece]

    @property
    def large(self) -> bool:
        """Whether it takes much longer than a small image."""
        return len(self.pieces) > 1 or self.pieces[0].large


class Budget:
    """Pixels of large images that may be decoded at the same time."""

    def __init__(self, pixels: int):
        self._most = self._free = pixels
        self._turn, self._changed = threading.Lock(), threading.Condition()

    @contextmanager
    def taking(self, pixels: int):
        """Wait until so many are free, or all where that is less, and hold them inside the `with`."""
        pixels = min(pixels, self._most)
        with self._turn, self._changed:  # only one waits for pixels, so that a large image is not passed over for ever
            self._changed.wait_for(lambda: self._free >= pixels)
            self._free -= pixels
        try:
            yield
        finally:
            with self._changed:
                self._free += pixels
                self._changed.notify_all()


def check(signature: Signature, inputs: dict[str, np.ndarray], limits: Limits) -> Call:
    """Measure the image files of a request; none is decoded.

    Where the signature has an output `error`, a bad file will have its sentence there; elsewhere the request is
    refused.

    Args:
        signature: to be called.
        inputs: its arrays; those of strings hold image files, (B,).
        limits: what a request may cost.

    Raises:
        Refusal: an image file cannot be used and the signature has no place to say so, or there are too many pixels.
    """
    refused: dict[int, str] = {}
    rows = max((len(value) for value in inputs.values() if value.ndim), default=1)
    pixels, large = np.zeros(rows, np.int64), np.zeros(rows, bool)
    for name, value in inputs.items():
        if signature.inputs[name].dtype != tf.string or value.ndim != 1:
            continue
        files = []
        for i, data in enumerate(map(_file, value)):
            found = measure(data)
            if sentence := _fault(found, len(data), limits.max_pixels):
                if "error" not in signature.outputs:
                    raise Refusal(400, f"{name} {i} {sentence}")
                refused[i] = f"{name} {i} {sentence}"
                files.append(b"")
                continue
            files.append(found.data)
            pixels[i] += found.pixels
            large[i] |= found.pixels > LARGE_PIXELS or found.scans > LARGE_SCANS
        inputs = {**inputs, name: np.array(files, object)}
    if (total := int(pixels.sum())) > (most := limits.max_request_pixels):
        raise Refusal(413, f"the request expected images of at most {most:,} pixels in all, received {total:,}.")
    if signature.most is None:
        return Call(signature, inputs, refused, [Piece(0, rows, total, bool(large.any()))])
    return Call(signature, inputs, refused, _pieces(pixels.tolist(), large.tolist()))


def compute(call: Call, budget: Budget, until: float, seconds: float) -> dict[str, np.ndarray]:
    """Compute a request, one piece after the other.

    Args:
        call: the request.
        budget: of the pixels of all large images that are decoded now.
        until: when `time.monotonic()` is past it no other piece begins.
        seconds: the time that the request had until then, to be told.

    Raises:
        Refusal: the time is over (503), or as `Signature` says.
    """
    parts = []
    for piece in call.pieces:
        if time.monotonic() > until:
            raise Refusal(503, f"the server could not compute the request within {seconds:g} s, try again later.")
        inputs = call.inputs
        if len(call.pieces) > 1:
            inputs = {name: value[piece.start : piece.stop] for name, value in inputs.items()}
        if piece.large:
            with budget.taking(piece.pixels):
                parts.append(call.signature(inputs, alone=True))
        else:
            parts.append(call.signature(inputs))
    outputs = parts[0] if len(parts) == 1 else {n: np.concatenate([p[n] for p in parts]) for n in parts[0]}
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
    """An image file; the file itself where a client sent its base64 text, which begins as no image file does."""
    if start := _BASE64_OF_IMAGE.match(data):
        try:
            return base64.b64decode(data[start.end() :], validate=True)
        except binascii.Error:
            return data
    return data


def _fault(found: Measured | None, size: int, max_pixels: int) -> str | None:
    """What is wrong with an image file by what was measured; None where nothing is."""
    if found is None:
        return f"expected an image file (JPEG, PNG, GIF or WebP), received {size:,} other bytes."
    if found.animated:
        return "expected one image, received an animation."
    if found.pixels > max_pixels:
        return f"expected an image of at most {max_pixels:,} pixels, received {found.width} x {found.height}."
    most = min(MAX_SCANS, MAX_WORK * max_pixels // found.pixels)
    if found.scans > most:
        return f"expected a JPEG file of at most {most} scans at its size, received {found.scans}."
    return None
