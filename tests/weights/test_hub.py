"""`hf://ORG/NAME`, from a server that answers as the Hugging Face hub does."""

import hashlib
import http.server
import json
import os
import subprocess
import sys
import threading

import numpy as np
import pytest
from support import ROOT, max_difference, randomise

import keras_vit
from keras_vit.cli import main
from keras_vit.weights.hub import locate_on_hub, parse_hub, stated_sha256

constants = pytest.importorskip("huggingface_hub.constants", reason="huggingface_hub is not installed")
TINY = keras_vit.Variant("tiny", 16, 1, 24, 2, patch_size=4, image_size=8)
COMMIT, OLDER = "a" * 40, "b" * 40
NAME = "org/tiny"


class Hub(http.server.ThreadingHTTPServer):
    """Gives the files of one model. Weights are redirected to another path, as large files are."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, bytes] = {}
        self.stop_after: int | None = None  # bytes of a transfer, once
        self.claimed_size: int | None = None
        self.token: str | None = None
        self.requests: list[tuple[str, str | None]] = []  # path and range of each GET


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_HEAD(self):
        self._answer(body=False)

    def do_GET(self):
        self.server.requests.append((self.path, self.headers.get("Range")))
        self._answer(body=True)

    def _answer(self, body):
        server = self.server
        if self.path.startswith("/cdn/"):
            self._give(server.files[self.path.removeprefix("/cdn/")], body, {})
            return
        name, _, rest = self.path.strip("/").partition("/resolve/")
        revision, _, file = rest.partition("/")
        if server.token and self.headers.get("Authorization") != f"Bearer {server.token}":
            self._refuse(401, "GatedRepo")
        elif name != NAME:
            self._refuse(404, "RepoNotFound")
        elif revision not in ("main", COMMIT, OLDER):
            self._refuse(404, "RevisionNotFound")
        elif file not in server.files:
            self._refuse(404, "EntryNotFound")
        else:
            data = server.files[file]
            headers = {"X-Repo-Commit": OLDER if revision == OLDER else COMMIT}
            if file.endswith(".json"):
                self._give(data, body, headers | {"ETag": f'"{hashlib.sha1(data).hexdigest()}"'})
            else:
                size = server.claimed_size or len(data)
                sha256 = hashlib.sha256(data).hexdigest()
                headers |= {
                    "X-Linked-Etag": f'"{sha256}"',
                    "X-Linked-Size": str(size),
                    "Location": f"http://localhost:{server.server_port}/cdn/{file}",
                }
                self._head(302, headers | {"Content-Length": "0"})

    def _give(self, data, body, headers):
        wanted = self.headers.get("Range")
        start = int(wanted.removeprefix("bytes=").partition("-")[0]) if wanted else 0
        total = len(data)
        data = data[start:]
        headers = headers | {"Content-Length": str(len(data)), "Accept-Ranges": "bytes"}
        if wanted:
            headers["Content-Range"] = f"bytes {start}-{total - 1}/{total}"
        self._head(206 if wanted else 200, headers)
        if body and self.server.stop_after is not None:
            data, self.server.stop_after = data[: self.server.stop_after], None
            self.close_connection = True
        if body:
            self.wfile.write(data)

    def _refuse(self, status, code):
        self._head(status, {"X-Error-Code": code, "X-Error-Message": code, "Content-Length": "0"})

    def _head(self, status, headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def model():
    return randomise(keras_vit.build(TINY, classes=3, activation="gelu", layer_norm_epsilon=1e-6))


@pytest.fixture
def server(model, tmp_path, monkeypatch):
    server = Hub()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    keras_vit.save_weights(model, tmp_path / "files", layout="hf")
    server.files = {path.name: path.read_bytes() for path in (tmp_path / "files").iterdir()}
    monkeypatch.setattr(constants, "ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    template = constants.ENDPOINT + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1,localhost")
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def same(a, b):
    images = np.random.default_rng(0).uniform(-1, 1, (2, 8, 8, 3)).astype("float32")
    return max_difference(a(images), b(images)) < 1e-5


def test_a_model_is_downloaded_once_with_its_configs(server, model, capsys):
    received = keras_vit.from_pretrained(f"hf://{NAME}", classifier_activation="softmax")
    assert same(received, model) and "assumed" not in capsys.readouterr().err  # the config was there
    assert same(keras_vit.load_model(f"hf://{NAME}"), keras_vit.from_pretrained(f"hf://{NAME}"))
    assert [path for path, _ in server.requests].count("/cdn/model.safetensors") == 1
    assert main(["weights", "show", f"hf://{NAME}"]) in (0, None)
    assert main(["weights", "download", f"hf://{NAME}"]) in (0, None)
    assert capsys.readouterr().out.splitlines()[-1].endswith("model.safetensors")
    assert main(["weights", "download", f"hf://{NAME}", "--to", "elsewhere"]) == 2


def test_a_preset_of_keras_hub_comes_with_its_task(server, model, tmp_path):
    keras_vit.save_weights(model, tmp_path / "preset", layout="keras_hub")
    server.files = {path.name: path.read_bytes() for path in (tmp_path / "preset").iterdir()}
    received = keras_vit.from_pretrained(f"hf://{NAME}", classifier_activation="softmax")
    assert same(received, model) and received.preprocessing.size == (8, 8)


def test_the_preprocessing_comes_with_the_weights(server):
    config = json.loads(server.files["preprocessor_config.json"])
    server.files["preprocessor_config.json"] = json.dumps(config | {"image_mean": [0.1] * 3}).encode()
    assert keras_vit.from_pretrained(f"hf://{NAME}").preprocessing.mean == (0.1,) * 3


def test_a_tag_with_a_thin_config_is_completed_by_the_catalogue(server, tmp_path, monkeypatch):
    monkeypatch.setitem(globals(), "NAME", "timm/deit_tiny_patch16_224.fb_in1k")  # which the server has now
    row = keras_vit.Variant("tiny", 24, 1, 24, 3, patch_size=4, image_size=8)  # heads as the tag's
    model = randomise(keras_vit.build(row, classes=3, activation="gelu", layer_norm_epsilon=1e-6))
    keras_vit.save_weights(model, tmp_path / "timm", layout="timm")
    server.files = {"model.safetensors": (tmp_path / "timm/model.safetensors").read_bytes(), "config.json": b"{}"}
    received = keras_vit.from_pretrained(f"hf://{NAME}", classifier_activation="softmax")
    assert same(received, model) and received.preprocessing.mean == (0.485, 0.456, 0.406)
    assert same(keras_vit.load_model("deit_tiny_patch16_224.fb_in1k"), keras_vit.from_pretrained(f"hf://{NAME}"))


def test_a_file_and_a_revision(server, model):
    server.files = {f"onnx/{name}": data for name, data in server.files.items()}
    path = locate_on_hub(f"hf://{NAME}/onnx/model.safetensors@{OLDER}")
    assert path.parts[-3:] == (OLDER, "onnx", "model.safetensors") and (path.parent / "config.json").is_file()
    assert same(keras_vit.from_pretrained(path, classifier_activation="softmax"), model)
    with pytest.raises(FileNotFoundError, match="source expected one of model.safetensors, .* in 'hf://org/tiny'"):
        locate_on_hub(f"hf://{NAME}")
    with pytest.raises(FileNotFoundError, match="source expected a revision of 'org/tiny', received 'v9'"):
        locate_on_hub(f"hf://{NAME}@v9")
    with pytest.raises(FileNotFoundError, match="source expected the file 'b.npz' in"):
        locate_on_hub(f"hf://{NAME}/b.npz")


def test_shards_follow_their_index(server, model):
    from safetensors.numpy import load, save

    arrays = load(server.files.pop("model.safetensors"))
    names = sorted(arrays)
    shards = {"a.safetensors": names[::2], "b.safetensors": names[1::2]}
    server.files |= {shard: save({name: arrays[name] for name in part}) for shard, part in shards.items()}
    index = {"weight_map": {name: shard for shard, part in shards.items() for name in part}}
    server.files["model.safetensors.index.json"] = json.dumps(index).encode()
    assert same(keras_vit.from_pretrained(f"hf://{NAME}", classifier_activation="softmax"), model)
    del server.files["b.safetensors"]
    with pytest.raises(FileNotFoundError, match="expected 'b.safetensors', which its index names, in 'hf://org/tiny@b"):
        locate_on_hub(f"hf://{NAME}@{OLDER}")


def test_a_broken_transfer_resumes(server, monkeypatch):
    monkeypatch.setattr("huggingface_hub.file_download.time.sleep", lambda _: None)
    monkeypatch.setattr(constants, "DOWNLOAD_CHUNK_SIZE", 100)
    server.stop_after = 1000
    path = locate_on_hub(f"hf://{NAME}")
    assert path.read_bytes() == server.files["model.safetensors"]
    ranges = [wanted for request, wanted in server.requests if request == "/cdn/model.safetensors"]
    assert len(ranges) == 2 and ranges[1].startswith("bytes=1000-")


def test_a_file_of_another_size_is_refused(server):
    server.claimed_size = 12
    with pytest.raises(FileNotFoundError, match="'model.safetensors' of 'hf://org/tiny' could not be downloaded"):
        locate_on_hub(f"hf://{NAME}")


def test_a_changed_file_is_refused(server):
    path = locate_on_hub(f"hf://{NAME}")
    assert stated_sha256(path) == hashlib.sha256(server.files["model.safetensors"]).hexdigest()
    assert stated_sha256(path.with_name("config.json")) is None
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.resolve().write_bytes(data)
    with pytest.raises(ValueError, match="'hf://org/tiny' expected SHA-256 .*, as the hub states, received"):
        keras_vit.from_pretrained(f"hf://{NAME}")


def test_a_model_behind_a_login(server, monkeypatch):
    server.token = "secret"
    with pytest.raises(FileNotFoundError, match="received 401 for 'hf://org/tiny': .* set HF_TOKEN") as error:
        locate_on_hub(f"hf://{NAME}")
    assert "\n" not in str(error.value)
    monkeypatch.setenv("HF_TOKEN", "secret")
    assert locate_on_hub(f"hf://{NAME}").is_file()


def test_an_unknown_model(server):
    with pytest.raises(FileNotFoundError, match="source expected a model that you may read, received 404 for"):
        locate_on_hub("hf://org/other")


def test_without_a_network_the_cache_answers(server, model, monkeypatch):
    path = locate_on_hub(f"hf://{NAME}")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    requests = len(server.requests)
    assert locate_on_hub(f"hf://{NAME}") == path and len(server.requests) == requests
    with pytest.raises(FileNotFoundError, match="found none in the cache, and the hub cannot be reached"):
        locate_on_hub("hf://org/other")


def test_the_environment_is_respected(server, tmp_path):
    """In a process of its own, because the library reads the variables when it is imported."""
    command = [sys.executable, "-m", "keras_vit.cli", "weights", "download", f"hf://{NAME}"]
    environment = os.environ | {
        "HF_ENDPOINT": constants.ENDPOINT, "HF_HOME": str(tmp_path / "home"), "PYTHONPATH": str(ROOT)
    }  # fmt: skip
    for offline in ("0", "1"):
        run = subprocess.run(command, env=environment | {"HF_HUB_OFFLINE": offline}, capture_output=True, text=True)
        assert run.stdout.startswith(str(tmp_path / "home" / "hub")), run.stderr
    assert [path for path, _ in server.requests].count("/cdn/model.safetensors") == 1


@pytest.mark.parametrize("name", ["hf://org", "hf://org/", "hf://org/tiny@", "hf://org/../x", "hf://-a/b"])
def test_names_of_another_form(name):
    with pytest.raises(ValueError, match=r"source expected hf://ORG/NAME\[/FILE\]\[@REVISION\], received") as error:
        locate_on_hub(name)
    assert "\n" not in str(error.value)


def test_names():
    assert parse_hub("hf://timm/vit_base_patch16_224.augreg_in21k") == (
        "timm/vit_base_patch16_224.augreg_in21k", None, None
    )  # fmt: skip
    assert parse_hub("hf://a/b/c/d.bin@refs/pr/1") == ("a/b", "c/d.bin", "refs/pr/1")


def test_the_package_is_named_where_it_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(
        ImportError, match=r"expected the package huggingface_hub for 'hf://a/b': pip install .*\[hub\]"
    ):
        locate_on_hub("hf://a/b")
