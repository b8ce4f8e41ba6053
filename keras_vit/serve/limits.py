"""What a request may cost."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """What a request may cost, each a positive number.

    Args:
        max_request_bytes: largest body.
        max_pixels: most pixels of an image file.
        max_request_pixels: most pixels of all image files of a request.
        max_images: most images of a request: an empty file is a few bytes, and a whole pass through the model.
        header_seconds: longest time that a client may take to send its request's line and headers.
        body_seconds: the same of its body.
        answer_seconds: longest time from a whole request to the computation of its last image.
        max_waiting: whole requests without an answer, past which one more is refused with status 503.
    """

    max_request_bytes: int = 32_000_000
    max_pixels: int = 50_000_000
    max_request_pixels: int = 200_000_000
    max_images: int = 1024
    header_seconds: float = 10.0
    body_seconds: float = 30.0
    answer_seconds: float = 60.0
    max_waiting: int = 256
