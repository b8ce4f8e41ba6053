"""Limits of requests."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """Limits of requests, all positive.

    Args:
        max_request_bytes: maximum size of a body.
        max_pixels: maximum pixels per image file.
        max_request_pixels: maximum pixels of all image files of a request.
        max_images: maximum images of a request. Even an empty file costs a forward pass.
        header_seconds: time limit for receiving the request line and headers.
        body_seconds: time limit for receiving the body.
        answer_seconds: time limit from the complete request to the start of its last image.
        max_waiting: maximum number of complete requests without a response; further ones get status 503.
    """

    max_request_bytes: int = 32_000_000
    max_pixels: int = 50_000_000
    max_request_pixels: int = 200_000_000
    max_images: int = 1024
    header_seconds: float = 10.0
    body_seconds: float = 30.0
    answer_seconds: float = 60.0
    max_waiting: int = 256
