"""The routes handle an unexpected error."""

import asyncio
from types import SimpleNamespace

import pytest
from support import needs_tensorflow

from keras_vit.serve.app import make_app
from keras_vit.serve.repository import Repository

pytestmark = needs_tensorflow


def broken(number=None):
    raise RuntimeError("broken")


def ask(app, path: str) -> tuple[int, bytes]:
    """Send a GET to the application without a server, and ignore the error that it raises after its response."""
    sent = []

    async def receive():
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message):
        sent.append(message)

    scope = {"type": "http", "http_version": "1.1", "method": "GET", "path": path, "query_string": b"", "headers": []}
    try:
        asyncio.run(app(scope, receive, send))
    except RuntimeError as error:
        assert str(error) == "broken"
    return sent[0]["status"], b"".join(message.get("body", b"") for message in sent)


@pytest.fixture
def app():
    repository = Repository([])
    repository.models = {"photos": SimpleNamespace(version=broken, versions={1: None})}
    return make_app(repository)


def test_a_failure_is_answered_and_counted(app):
    status, body = ask(app, "/v2/models/photos/ready")
    assert (status, body) == (500, b'{"error":"the server failed on this request (RuntimeError)."}')
    counted = b'keras_vit_requests_total{handler="v2_model_ready",model="photos",status="500"} 1.0'
    assert counted in ask(app, "/metrics")[1]
