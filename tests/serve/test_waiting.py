"""Slow bodies, large images and a full queue do not block other requests. These tests need no server."""

import asyncio
import base64
import json
from threading import Event, Semaphore
from types import SimpleNamespace

import pytest
import tensorflow as tf
from PIL import Image
from serving import b64, encoded, picture
from support import needs_tensorflow

from keras_vit.serve.app import make_app
from keras_vit.serve.bodies import MAX_BODIES
from keras_vit.serve.limits import Limits
from keras_vit.serve.repository import Repository, Version
from keras_vit.serve.signature import Signature

pytestmark = needs_tensorflow
PATH = "/v1/models/photos:predict"


class Computing:
    """A model that computes small images at once, and large ones when the test allows it."""

    def __init__(self):
        self.begun, self.may, self.all = Semaphore(0), Event(), []

    def __call__(self, image_bytes):
        self.all.append(size := int(tf.strings.length(image_bytes[0])))
        if size > 3000:
            self.begun.release()
            assert self.may.wait(60)
        return {"size": tf.strings.length(image_bytes)}


SMALL = {"instances": [b64(encoded(picture(), "PNG"))]}
LARGE = {"instances": [b64(encoded(Image.effect_noise((1001, 1000), 9), "JPEG", quality=9))]}


@pytest.fixture
def computing():
    return Computing()


@pytest.fixture
def app(computing):
    def make(**limits):
        files = {"image_bytes": tf.TensorSpec((None,), tf.string, name="image_bytes")}
        sizes = {"size": tf.TensorSpec((None,), tf.int32, name="size")}
        signature = Signature("serving_default", files, sizes, computing, None, 32, None)
        version = Version("photos", 1, {"serving_default": signature}, {}, {})
        repository = Repository([])
        repository.models = {"photos": SimpleNamespace(name="photos", version=lambda number: version)}
        return make_app(repository, Limits(**limits))

    return make


async def ask(app, body, arrives=None):
    """Return a request whose last byte arrives when `arrives` is set."""
    data, sent, pieces = json.dumps(body).encode(), [], []
    pieces = [data] if arrives is None else [data[:-1], data[-1:]]

    async def receive():
        if len(pieces) == 1 and arrives is not None:
            await arrives.wait()
        return {"type": "http.request", "body": pieces.pop(0), "more_body": bool(pieces)}

    async def send(message):
        sent.append(message)

    headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
    scope = {"type": "http", "method": "POST", "path": PATH, "query_string": b"", "headers": headers}
    await app(scope, receive, send)
    return sent[0]["status"], json.loads(b"".join(message.get("body", b"") for message in sent[1:]))


async def begun(computing):
    assert await asyncio.to_thread(computing.begun.acquire, timeout=60)


def run(coroutine):
    return asyncio.run(asyncio.wait_for(coroutine, 120))  # bounds a failure


def test_bodies_on_their_way_are_no_waiting_work(app):
    async def exchange():
        asked, arrives = app(max_waiting=1), asyncio.Event()
        slow = [asyncio.create_task(ask(asked, SMALL, arrives)) for _ in range(300)]
        await asyncio.sleep(0)
        answers = [await ask(asked, SMALL) for _ in range(2)]
        arrives.set()
        return answers, await asyncio.gather(*slow)

    answers, slow = run(exchange())
    assert [status for status, _ in answers] == [200, 200]
    assert 200 in {status for status, _ in slow} <= {200, 503}


def test_past_the_queue_a_whole_request_is_refused_at_once(app, computing):
    async def exchange():
        asked = app(max_waiting=1)
        first = asyncio.create_task(ask(asked, LARGE))
        await begun(computing)
        refused = await ask(asked, SMALL)
        computing.may.set()
        return refused, await first

    refused, (status, _) = run(exchange())
    assert refused == (503, {"error": "the server is at its limit of 1 requests, try again later."})
    assert status == 200


def test_large_images_hold_no_small_one_and_are_decoded_within_a_budget(app, computing):
    async def exchange():
        asked = app(max_waiting=8, max_pixels=1_500_000)
        large = [asyncio.create_task(ask(asked, LARGE)) for _ in range(2)]
        await begun(computing)
        small = [await ask(asked, SMALL) for _ in range(5)]
        refused = await ask(asked, LARGE)
        together = sum(size > 3000 for size in computing.all)
        computing.may.set()
        return small, refused, together, await asyncio.gather(*large)

    small, refused, together, large = run(exchange())
    assert [status for status, _ in small] == [200] * 5
    assert refused == (503, {"error": "the server is at its limit of large images, try again later."})
    assert together == 1
    assert [status for status, _ in large] == [200] * 2


def test_a_request_ends_with_its_time(app, computing):
    async def exchange():
        body = {"instances": 2 * LARGE["instances"]}
        asked = app(answer_seconds=0.2)
        task = asyncio.create_task(ask(asked, body))
        await begun(computing)
        await asyncio.sleep(0.3)
        computing.may.set()
        return await task

    refused = {"error": "the server could not compute the request within 0.2 s, try again later."}
    assert run(exchange()) == (503, refused)
    assert len(computing.all) == 1


def test_where_there_is_no_room_for_bodies_the_slowest_gives_way(app):
    async def exchange():
        size = len(json.dumps(SMALL))
        asked, arrives = app(max_request_bytes=size), asyncio.Event()
        slow = [asyncio.create_task(ask(asked, SMALL, arrives)) for _ in range(MAX_BODIES)]
        await asyncio.sleep(0)
        quick = await ask(asked, SMALL)
        arrives.set()
        return quick, await asyncio.gather(*slow)

    (status, _), slow = run(exchange())
    assert status == 200
    no_room = {"error": "the server has no memory for more bodies, try again later."}
    assert slow[0] == (503, no_room)
    assert [status for status, _ in slow[1:]] == [200] * (MAX_BODIES - 1)


def test_pieces_of_a_request_are_answered_in_their_order(app, computing):
    computing.may.set()
    rows = [*SMALL["instances"], *LARGE["instances"], *SMALL["instances"]]
    status, answer = run(ask(app(), {"instances": rows}))
    sizes = [len(base64.b64decode(row["b64"])) for row in rows]
    assert (status, answer) == (200, {"predictions": sizes})
    assert len(computing.all) == 3
