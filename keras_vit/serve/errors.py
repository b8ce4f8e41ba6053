"""What a client is told: a status and one sentence, in the body that both protocols give it."""

from starlette.responses import JSONResponse

HOW_TO_SEND = 'send {"signature_name": "classify_bytes", "instances": [{"b64": "..."}]}, the image file in base64.'


class Refusal(Exception):
    """A request that gets no answer.

    Args:
        status: of HTTP.
        sentence: why.
        close: whether the connection is of no more use, since the rest of the body was not read.
    """

    def __init__(self, status: int, sentence: str, close: bool = False):
        super().__init__(sentence)
        self.status, self.sentence, self.close = status, sentence, close

    def response(self) -> JSONResponse:
        headers = {"connection": "close"} if self.close else None
        return JSONResponse({"error": self.sentence}, self.status, headers)
