"""Start and stop of a server: refused arguments, new versions under load, and pending requests."""

import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from threading import Event, Timer

import numpy as np
import pytest
import tensorflow as tf
from serving import START_SECONDS, STOP_SECONDS, in_flight, started, until
from support import ROOT, needs_tensorflow, quick_first

from keras_vit.serve import repository as serve_repository
from keras_vit.serve import serve
from keras_vit.serve.repository import Model, Repository, load_version
from keras_vit.serve.rest import status as status_of
from keras_vit.serve.signature import Batching

pytestmark = needs_tensorflow
CLIENTS, FRESH = 8, 64


@pytest.fixture(scope="module")
def images():
    return np.random.default_rng(3).uniform(-1, 1, (4, 16, 16, 3)).astype("float32")


@pytest.fixture
def photos(exports, tmp_path):
    """Return a separate folder with version 1."""
    shutil.copytree(exports / "photos" / "1", tmp_path / "photos" / "1")
    return tmp_path / "photos"


def logits(folder, images):
    return tf.saved_model.load(str(folder)).signatures["serving_default"](images=tf.constant(images))["logits"].numpy()


@pytest.mark.broad
def test_a_new_version_under_load_drops_no_request(exports, photos, images):
    """Each response comes from the old or the new version, without errors, and in the end from the new one."""
    old, new = (logits(exports / "photos" / number, images) for number in "12")
    assert not np.allclose(old, new, atol=1e-2)
    enough, begun = Event(), Event()

    with started([photos], "--poll", 0.1) as server:

        def client(number):
            seen, i = set(), number % len(images)
            while not enough.is_set():
                status, answer = server.predict("photos", {"instances": images[i : i + 1].tolist()})
                assert status == 200, answer
                found = answer["predictions"][0]["logits"]
                matches = [name for name, own in (("old", old), ("new", new)) if np.allclose(found, own[i], atol=1e-5)]
                assert len(matches) == 1
                seen.add(matches[0])
                begun.set()
            return seen

        with ThreadPoolExecutor(CLIENTS) as pool:
            clients = [pool.submit(client, number) for number in range(CLIENTS)]
            try:
                assert begun.wait(60)
                shutil.copytree(exports / "photos" / "2", photos / "2")  # file by file, so that it is seen half-way
                server.wait_for("version 1 is unloaded")
            finally:
                enough.set()
            seen = set.union(*(client.result() for client in clients))
        assert "old" in seen
        status, answer = server.predict("photos", {"inputs": images.tolist()})
        assert status == 200
        assert np.allclose(answer["outputs"]["logits"], new, atol=1e-5)


@pytest.mark.broad
def test_a_version_that_cannot_be_loaded_is_reported_and_the_older_one_goes_on(exports, photos, images):
    with started([photos], "--poll", 0.1) as server:
        broken = photos / "2"
        broken.mkdir()
        (broken / "saved_model.pb").write_bytes(b"no graph")
        server.wait_for("model expected an export that TensorFlow can load")
        states = {row["version"]: row for row in server.ask("GET", "/v1/models/photos")[1]["model_version_status"]}
        assert states["1"]["state"] == "AVAILABLE"
        assert states["2"]["state"] == "END"
        assert "expected an export that TensorFlow can load" in states["2"]["status"]["error_message"]
        status, answer = server.predict("photos", {"inputs": images.tolist()})
        assert status == 200
        assert np.allclose(answer["outputs"]["logits"], logits(photos / "1", images), atol=1e-5)
        shutil.rmtree(broken)
        shutil.copytree(exports / "photos" / "2", broken)  # put right under the same number
        server.wait_for("version 2 is loaded")


def test_a_version_without_a_saved_model_is_none_to_serve(photos):
    def write(number, *files):
        (photos / str(number)).mkdir()
        manifest = {"files": {name: {"size": 1} for name in files}}
        (photos / str(number) / "manifest.json").write_text(json.dumps(manifest))

    write(2, "model.onnx", "model_card.md")
    model = Model(photos)
    assert list(model.versions) == [1] and not model.failures
    write(3, "model.tflite")
    assert model.poll() == [] and list(model.versions) == [1]
    write(4, "model.onnx", "saved_model.pb")  # which is still on its way
    with pytest.raises(ValueError, match=r"whole export in '.*4', found no saved_model\.pb\.$"):
        Model(photos)
    for number in "14":
        shutil.rmtree(photos / number)
    with pytest.raises(ValueError, match=r"received '.*photos', where no version holds a SavedModel\.$"):
        Model(photos)


@pytest.mark.parametrize("manifest", [[], {"files": [1]}, {"files": {"a": 1}}, {"files": {"a": {}}}, {"files": None}])
def test_a_version_with_a_malformed_manifest_cannot_be_loaded(tmp_path, manifest):
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "saved_model.pb").write_bytes(b"no graph")
    (tmp_path / "1" / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(ValueError, match=r"^model expected a whole export in '.*1', found a damaged manifest\.json\.$"):
        load_version("photos", tmp_path / "1", Batching())


@pytest.mark.broad
def test_the_watcher_outlives_any_error(photos, monkeypatch):
    said, enough = [], Event()

    def report(sentence):
        said.append(sentence)
        if len(said) == 2:
            enough.set()

    def broken():
        raise KeyError("size")

    repository = Repository([photos], poll_seconds=0.01, report=report)
    monkeypatch.setattr(repository.models["photos"], "poll", broken)
    with repository:
        assert enough.wait(60)
    assert said[0] == "photos: KeyError: 'size'"


@pytest.mark.broad
@pytest.mark.parametrize("error", [BrokenPipeError, ValueError])  # of a closed pipe, of a closed file
def test_the_watcher_outlives_whoever_read_its_sentences(photos, monkeypatch, error):
    told, enough = [], Event()

    def report(sentence):
        told.append(sentence)
        if len(told) == 3:
            enough.set()
        raise error("nobody reads it")

    repository = Repository([photos], poll_seconds=0.01, report=report)
    monkeypatch.setattr(repository.models["photos"], "poll", lambda: ["said", "said"])
    with repository:
        assert enough.wait(60)
    assert set(told) == {"said"}


@pytest.mark.broad
def test_versions_that_come_and_go_while_the_first_one_loads(photos, monkeypatch):
    def loading(then):
        def load(*arguments):
            version = load_version(*arguments)
            then()
            return version

        return load

    monkeypatch.setattr(serve_repository, "load_version", loading(lambda: (photos / "2").mkdir()))
    model = Model(photos)
    assert list(model.versions) == [1]
    monkeypatch.setattr(serve_repository, "load_version", loading(lambda: shutil.rmtree(photos / "1")))
    (photos / "2").rmdir()
    assert list(Model(photos).versions) == [1]


@pytest.mark.broad
def test_a_version_that_is_put_right_is_never_unknown(photos):
    repository, seen = Repository([photos]), []

    class Failures(dict):
        def pop(self, *arguments):
            super().pop(*arguments)
            seen.append(status_of(repository, "photos", None)["model_version_status"])

    model = repository.models["photos"]
    model.versions, model.failures = {}, Failures({1: "broken"})
    model.poll()
    assert [row["state"] for row in seen[0]] == ["AVAILABLE"]


def listens(server) -> bool:
    try:
        socket.create_connection(("127.0.0.1", server.port), timeout=10).close()
    except ConnectionRefusedError:
        return False
    return True


@pytest.mark.broad
@pytest.mark.parametrize("name", quick_first(["SIGTERM", "SIGINT"], ["SIGTERM"]))
def test_a_stop_answers_what_is_in_flight_and_takes_nothing_new(photos, images, name):
    body = json.dumps({"inputs": images.tolist()}).encode()
    with started([photos]) as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        with closing(connection):
            connection.putrequest("POST", "/v1/models/photos:predict")
            connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(body[:1000])
            until(lambda: in_flight(server) == 1)
            head = b"POST /v1/models/photos:predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n"
            fresh = [socket.create_connection(("127.0.0.1", server.port), timeout=60) for _ in range(FRESH)]
            for client in fresh:
                client.sendall(head % len(body) + body)
            server.process.send_signal(getattr(signal, name))
            until(lambda: not listens(server))
            assert server.process.poll() is None
            connection.send(body[1000:])
            response = connection.getresponse()
            assert response.status == 200
            found = [json.loads(response.read())]
        for client in fresh:
            with client:
                data = b"".join(iter(lambda client=client: client.recv(65536), b""))
            head, _, answer = data.partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200")
            found.append(json.loads(answer))
        expected = logits(photos / "1", images)
        assert all(np.allclose(answer["outputs"]["logits"], expected, atol=1e-5) for answer in found)
        assert server.process.wait(60) == 0
        server_said = server.said
    assert server_said[-1] == "stopped\n"


STOPPED_EARLY = """
import signal, sys, uvicorn
from keras_vit.serve import serve

def run_late(self, sockets, run=uvicorn.Server.run):
    signal.raise_signal(signal.SIGTERM)
    run(self, sockets)

uvicorn.Server.run = run_late
serve(sys.argv[1:], port=0)
"""


@pytest.mark.broad
def test_a_stop_before_uvicorn_listens_to_signals_is_not_lost(exports):
    command = [sys.executable, "-c", STOPPED_EARLY, str(exports / "grey")]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "KERAS_BACKEND": "tensorflow"}
    patience = START_SECONDS + STOP_SECONDS  # bounds a failure
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=patience)
    assert done.returncode == 0
    assert done.stdout.endswith("stopped\n")


@pytest.mark.broad
def test_what_cannot_be_served_is_said_in_one_sentence(exports, tmp_path):
    with pytest.raises(ValueError, match=r"^model expected a folder of exported versions .* received '.*nothing'\.$"):
        serve([tmp_path / "nothing"], port=0)
    with pytest.raises(ValueError, match=r"^models expected folders of different names, received two named 'grey'\.$"):
        serve([exports / "grey", exports / "grey"], port=0)
    with pytest.raises(ValueError, match=r"^max_batch_size expected a positive number, received 0\.$"):
        serve([exports / "grey"], port=0, batching=Batching(max_batch_size=0))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ValueError, match=rf"^port expected a free one at 127\.0\.0\.1, received {port} \("):
            serve([exports / "grey"], port=port)


@pytest.mark.broad
def test_json_prints_one_line_when_requests_are_answered(photos):
    command = [sys.executable, "-m", "keras_vit.cli", "serve", str(photos), "--port", "0", "--json"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "KERAS_BACKEND": "tensorflow"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, cwd=ROOT, env=environment, **pipes) as process:
        kill = Timer(START_SECONDS, process.kill)
        kill.start()
        try:
            found = json.loads(process.stdout.readline())
            assert found["models"] == [{"name": "photos", "versions": [1], "formats": ["saved_model"]}]
            port = int(found["address"].removeprefix("http://127.0.0.1:"))
            with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
                connection.request("GET", "/v2/health/ready")
                assert connection.getresponse().status == 200
            process.send_signal(signal.SIGTERM)
            out, err = process.communicate(timeout=STOP_SECONDS)
        finally:
            kill.cancel()
            process.kill()
    assert process.returncode == 0 and out == "" and err.splitlines()[-1] == "stopped"


@pytest.mark.broad
def test_quiet_leaves_the_log_of_errors():
    code = """if True:
        import logging, uvicorn
        from keras_vit.cli.output import Output
        from keras_vit.serve.server import log_settings
        with Output(quiet=True):
            uvicorn.Config(None, log_level="warning", log_config=log_settings())
            print("hidden")
            logging.getLogger("uvicorn.error").error("a worker failed")
    """
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=START_SECONDS)
    assert "a worker failed" in ran.stderr and "hidden" not in ran.stdout, ran
