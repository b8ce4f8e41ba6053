"""Refused hosts, origins and content types."""

import json
import socket

import pytest
from serving import b64, encoded, picture
from starlette.requests import Request
from support import needs_tensorflow

from keras_vit.serve.errors import Refusal
from keras_vit.serve.gate import Gate

pytestmark = needs_tensorflow
PATH = "/v1/models/photos:predict"
JPEG = encoded(picture(), "JPEG")
BODY = json.dumps({"signature_name": "classify_bytes", "instances": [b64(JPEG)]}).encode()
HOW = 'send {"signature_name": "classify_bytes", "instances": [{"b64": "..."}]}, the image file in base64.'


def asked(server, **headers):
    return server.ask("POST", PATH, BODY, {name.replace("_", "-"): value for name, value in headers.items()})


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8501", "127.0.0.1.evil.example", "evil/v2/health/"])
def test_a_name_that_is_not_the_servers_is_refused(server, host):
    status, answer = asked(server, Host=host)
    assert status == 403 and answer.keys() == {"error"}
    assert server.ask("GET", "/v2/models", headers={"Host": host})[0] == 403
    assert server.ask("GET", "/", headers={"Host": host})[0] == 403
    assert server.ask("GET", "/v2/health/ready", headers={"Host": host})[0] == 200  # orchestrators have own names


def test_the_refusal_of_a_name_says_how_to_allow_it(server):
    answer = {
        "error": "the Host header expected localhost, an IP address or an allowed name, received 'photos.lan': "
        "start the server with --allowed-host and that name if it is this server's."
    }
    assert asked(server, Host="photos.lan:8501") == (403, answer)


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8501", "127.0.0.1", "[::1]:8501", "10.1.2.3:80"])
def test_localhost_and_addresses_are_answered(server, host):
    assert asked(server, Host=host)[0] == 200


def request(host: str) -> Request:
    scope = {"type": "http", "method": "GET", "path": "/", "query_string": b"", "headers": [(b"host", host.encode())]}
    return Request(scope)


def test_allowed_names_are_answered():
    gate = Gate(["Photos.example", "gpu7"])
    for host in ("photos.example", "photos.example.:80", "GPU7:8501", "localhost"):
        gate.check(request(host))
    with pytest.raises(Refusal):
        gate.check(request("other.example"))
    Gate(["*"]).check(request("other.example"))


FOREIGN = {
    "origin": {"Origin": "https://evil.example"},
    "another port": {"Origin": "http://127.0.0.1:1"},
    "a sandbox": {"Origin": "null"},
    "by the browser's word": {"Sec_Fetch_Site": "cross-site"},
    "of the same site": {"Sec_Fetch_Site": "same-site", "Origin": "http://127.0.0.1:1"},
}


@pytest.mark.parametrize("case", FOREIGN)
def test_a_page_of_another_origin_may_not_post(server, case):
    status, answer = asked(server, Content_Type="application/json", **FOREIGN[case])
    assert status == 403
    assert answer["error"].startswith("the request expected no page of another origin, received one of ")


def test_the_servers_own_page_may_post(server):
    origin = f"http://127.0.0.1:{server.port}"
    assert asked(server, Content_Type="application/json", Origin=origin)[0] == 200
    assert asked(server, Content_Type="application/json", Origin=origin, Sec_Fetch_Site="same-origin")[0] == 200


def test_no_page_is_given_leave_to_read(server):
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as client:
        client.sendall(
            b"OPTIONS /v1/models/photos:predict HTTP/1.1\r\nHost: localhost\r\nOrigin: https://evil.example\r\n"
            b"Access-Control-Request-Method: POST\r\nConnection: close\r\n\r\n"
        )
        head = b"".join(iter(lambda: client.recv(65536), b"")).lower()
    assert head.startswith((b"http/1.1 400", b"http/1.1 405")) and b"access-control" not in head


@pytest.mark.parametrize("kind", ["application/json", "Application/JSON; charset=utf-8", None])
def test_json_is_read(server, kind):
    assert asked(server, **({"Content_Type": kind} if kind else {}))[0] == 200


def test_what_curl_calls_a_body_is_read_unless_a_browser_says_so(server):
    curl = "application/x-www-form-urlencoded"
    assert asked(server, Content_Type=curl)[0] == 200
    assert asked(server, Content_Type=curl, Origin=f"http://127.0.0.1:{server.port}")[0] == 415


@pytest.mark.parametrize("kind", ["text/plain", "image/jpeg", "multipart/form-data; boundary=x"])
def test_other_bodies_are_refused_with_what_to_send(server, kind):
    sentence = f"the body expected JSON with Content-Type application/json, received '{kind}': {HOW}"
    assert asked(server, Content_Type=kind) == (415, {"error": sentence})


def test_an_image_file_as_the_body_is_refused_with_what_to_send(server):
    sentence = f"the body expected JSON, received a JPEG file: {HOW}"
    for path in (PATH, "/v2/models/photos/infer"):
        assert server.ask("POST", path, JPEG) == (400, {"error": sentence})
    assert asked(server, Content_Encoding="gzip")[0] == 415


AMBIGUOUS = {
    "two lengths": b"Host: localhost\r\nContent-Length: 2\r\nContent-Length: 3\r\n",
    "a length and pieces": b"Host: localhost\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n",
    "pieces under another name": b"Host: localhost\r\nTransfer-Encoding: xchunked\r\n",
    "a length with a sign": b"Host: localhost\r\nContent-Length: +2\r\n",
    "a space in front of a colon": b"Host: localhost\r\nContent-Length : 2\r\n",
    "two hosts": b"Host: localhost\r\nHost: evil.example\r\nContent-Length: 2\r\n",
}


@pytest.mark.parametrize("case", AMBIGUOUS)
def test_a_head_that_two_servers_may_read_differently_is_refused(server, case):
    """Otherwise a request could be hidden from a proxy in the body of another one."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as client:
        hidden = b"GET /v2/models HTTP/1.1\r\nHost: localhost\r\n\r\n"
        client.sendall(b"POST /v1/models/photos:predict HTTP/1.1\r\n" + AMBIGUOUS[case] + b"\r\n{}" + hidden)
        data = b""
        try:
            while chunk := client.recv(65536):
                data += chunk
        except ConnectionResetError:
            pass
    assert data.startswith(b"HTTP/1.1 400") and data.count(b"HTTP/1.1 ") == 1
    assert json.loads(data.partition(b"\r\n\r\n")[2]).keys() == {"error"}
