"""Errors that a client receives: an HTTP status and one sentence, in the JSON of both protocols."""

from starlette.responses import JSONResponse

HOW_TO_SEND = 'send {"signature_name": "classify_bytes", "instances": [{"b64": "..."}]}, the image file in base64.'


class Refusal(Exception):
    """Raised to refuse a request.

    Args:
        status: HTTP status.
        sentence: the reason.
        close: whether to close the connection, because the rest of the body was not read.
    """

    def __init__(self, status: int, sentence: str, close: bool = False):
        super().__init__(sentence)
        self.status, self.sentence, self.close = status, sentence, close

    def response(self) -> JSONResponse:
        headers = {"connection": "close"} if self.close else None
        return JSONResponse({"error": self.sentence}, self.status, headers)
