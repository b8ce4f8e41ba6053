"""Limits of time, memory and waiting requests."""

import asyncio
import contextlib
import http.client
import json
import re
import socket
from pathlib import Path

import pytest
import tensorflow as tf
import uvicorn
from PIL import Image
from serving import MAX_BYTES, agrees, b64, encoded, started
from support import needs_tensorflow

from keras_vit.serve.connection import MAX_HEAD_BYTES, bounded

pytestmark = needs_tensorflow
PREDICT = b"POST /v1/models/photos:predict HTTP/1.1\r\nHost: localhost\r\n"
IMAGES = 5


@pytest.fixture(scope="module")
def strict(exports):
    options = ("--header-timeout", 3, "--body-timeout", 2, "--max-request-bytes", MAX_BYTES, "--max-images", IMAGES)
    with started([exports / "photos"], *options) as server:
        yield server


@pytest.fixture
def server(strict, own, images):
    """Return the server with low limits, and check after the test that it still answers."""
    yield strict
    right(strict, own, images)


def right(server, own, images):
    status, answer = server.predict("photos", {"inputs": images.tolist()})
    assert status == 200
    assert agrees(answer["outputs"], own()["serving_default"](images=tf.constant(images)))


def connected(server):
    return socket.create_connection(("127.0.0.1", server.port), timeout=30)


def received(client: socket.socket) -> tuple[int | None, object]:
    """Return status and JSON of the response; None if the server closes the connection without one."""
    data = b""
    with contextlib.suppress(ConnectionResetError):  # it closed with bytes of ours unread
        while chunk := client.recv(65536):
            data += chunk
    head, _, body = data.partition(b"\r\n\r\n")
    return (int(head.split()[1]), json.loads(body)) if data else (None, None)


def test_a_body_past_the_limit_is_refused_unread(server):
    refused = (413, {"error": f"the body expected at most {MAX_BYTES:,} bytes, received more."})
    with connected(server) as client:  # its body never comes
        client.sendall(PREDICT + b"Content-Length: 1000001\r\n\r\n")
        assert received(client) == refused
    with connected(server) as client:  # of undeclared length
        client.sendall(PREDICT + b"Transfer-Encoding: chunked\r\n\r\nf4241\r\n" + bytes(1_000_001) + b"\r\n")
        assert received(client) == refused


def test_images_past_the_limit_are_refused_however_few_bytes_they_have(server):
    sentence = f"the request expected at most {IMAGES} images, received {{}}."
    for count in (IMAGES, IMAGES + 1, 200_000):
        tensor = {"name": "image_bytes", "datatype": "BYTES", "shape": [count]}
        head = json.dumps({"inputs": [{**tensor, "parameters": {"binary_data_size": 4 * count}}]}).encode()
        sizes = {"Inference-Header-Content-Length": str(len(head))}
        status, answer = server.ask("POST", "/v2/models/photos/infer", head + bytes(4 * count), sizes)
        refused = (413, {"error": sentence.format(f"{count:,}")})
        assert status == 200 if count == IMAGES else (status, answer) == refused
        if count == IMAGES + 1:
            assert server.predict("photos", {"inputs": [[[[0.0] * 3] * 16] * 16] * count}) == refused


def test_a_client_that_sends_its_body_too_slowly_is_let_go_and_holds_up_no_other(server, own, images):
    with connected(server) as client:
        client.sendall(PREDICT + b'Content-Length: 100\r\n\r\n{"inst')
        right(server, own, images)
        sentence = "the body expected to arrive within 2 s, received 6 bytes."
        assert received(client) == (408, {"error": sentence})


def test_a_client_that_sends_its_head_too_slowly_is_let_go_and_holds_up_no_other(server, own, images):
    with connected(server) as client, connected(server) as silent:
        client.sendall(PREDICT + b"Content-Le")
        right(server, own, images)
        sentence = "the headers expected to arrive within 3 s, received a part."
        assert received(client) == (408, {"error": sentence})
        assert received(silent) == (None, None)


def test_a_kept_connection_has_the_same_bound(server):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    with contextlib.closing(connection):
        for _ in range(2):
            connection.request("GET", "/v2/health/live")
            assert json.loads(connection.getresponse().read()) == {"live": True}
        connection.sock.sendall(PREDICT)
        assert received(connection.sock)[0] == 408


LATE = {
    "a body that nobody awaits": (PREDICT + b"Content-Length: 900\r\n\r\n", b"{" * 200),
    "a body of a GET": (b"GET / HTTP/1.1\r\nContent-Length: 900\r\n\r\n", b"{" * 200),
    "empty lines": (b"GET / HTTP/1.1\r\n\r\n", b"\r\n" * 100),
}


@pytest.mark.parametrize("case", LATE)
def test_what_comes_behind_an_answer_and_begins_no_request_does_not_keep_the_connection(case):
    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 404, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body"})

    async def exchange():
        config = uvicorn.Config(app, http=bounded(60.0), timeout_keep_alive=1, lifespan="off")
        config.load()
        state = uvicorn.server.ServerState()
        make = lambda: config.http_protocol_class(config=config, server_state=state, app_state={})  # noqa: E731
        server = await asyncio.get_running_loop().create_server(make, "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        request, late = LATE[case]
        with contextlib.closing(server), contextlib.closing(writer):
            writer.write(request)
            answer = await reader.readuntil(b"\r\n\r\n")

            async def drip():
                for byte in late:  # each of them within the deadline of the silence, which is not set anew
                    writer.write(bytes((byte,)))
                    await asyncio.sleep(0.6)

            dripping = asyncio.create_task(drip())
            try:
                return answer, await asyncio.wait_for(reader.read(), 60)  # bounds a failure
            finally:
                dripping.cancel()

    answer, rest = asyncio.run(exchange())
    assert b" 404 " in answer and not rest


def test_a_slow_head_behind_a_request_does_not_cost_that_one_its_answer(server, own, images):
    """The deadline of a pipelined request passes while the first body still arrives, and applies after it."""
    body = json.dumps({"inputs": images.tolist()}).encode()
    with connected(server) as client:
        client.sendall(PREDICT + b"Connection: keep-alive\r\nContent-Length: %d\r\n\r\n" % len(body) + body + PREDICT)
        data = b""
        while chunk := client.recv(65536):
            data += chunk
    first, second = (part.partition(b"\r\n\r\n")[2] for part in data.split(b"HTTP/1.1 ")[1:])
    expected = own()["serving_default"](images=tf.constant(images))
    assert agrees(json.loads(first)["outputs"], expected)
    assert "the headers expected to arrive" in json.loads(second)["error"]


def test_endless_headers_are_refused(server):
    with connected(server) as client:
        lines = (b"X-%d: " % i + b"x" * 1024 + b"\r\n" for i in range(2 * MAX_HEAD_BYTES // 1024))
        with contextlib.suppress(ConnectionError):  # it may close before all is sent
            client.sendall(PREDICT + b"".join(lines))
        status, answer = received(client)
    if status is not None:  # a reset may have overtaken the sentence
        assert (status, answer) == (431, {"error": "the headers expected at most 65,536 bytes, received more."})


def test_a_client_that_closes_its_direction_behind_a_request_gets_its_answer(server, own, images):
    body = json.dumps({"inputs": images.tolist()}).encode()
    request = PREDICT + b"Content-Length: %d\r\n\r\n" % len(body) + body
    expected = own()["serving_default"](images=tf.constant(images))
    for sent in (request, request + request):
        with connected(server) as client:
            client.sendall(sent)
            client.shutdown(socket.SHUT_WR)
            data = b""
            while chunk := client.recv(65536):
                data += chunk
        answers = [part.partition(b"\r\n\r\n")[2] for part in data.split(b"HTTP/1.1 ")[1:]]
        assert len(answers) == len(sent) // len(request)
        assert all(agrees(json.loads(answer)["outputs"], expected) for answer in answers)
    with connected(server) as client:
        client.sendall(request[:-10])
        client.shutdown(socket.SHUT_WR)
        assert received(client) == (None, None)


@pytest.mark.broad
@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="this system does not tell a process's memory")
def test_a_large_image_takes_its_pixels_in_memory_and_gives_them_back(server):
    """Decoding takes 4 bytes per pixel; a float32 copy would take 12 more. oneDNN's allocator releases no memory."""
    process, pixels = Path(f"/proc/{server.process.pid}"), 5000 * 5000

    def memory(kind):
        return 1024 * int(re.search(rf"{kind}:\s+(\d+)", (process / "status").read_text())[1])

    body = {"signature_name": "classify_bytes", "instances": [b64(encoded(Image.new("L", (5000, 5000)), "PNG"))]}
    assert server.predict("photos", body)[0] == 200  # what is taken once and for all
    before = memory("VmRSS")
    (process / "clear_refs").write_text("5")
    for _ in range(2):
        status, answer = server.predict("photos", body)
        assert status == 200 and not answer["predictions"][0]["error"]
    assert memory("VmHWM") - before < 6 * pixels
    assert memory("VmRSS") - before < pixels
