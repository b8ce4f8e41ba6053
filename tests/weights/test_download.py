"""Fetching published files, from a server of our own."""

import hashlib
import http.server
import os
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from support import GOLDENS, ROOT, golden, max_difference

import keras_vit
from keras_vit.cli import main
from keras_vit.weights import download as module
from keras_vit.weights.catalogue import find_released
from keras_vit.weights.download import download, home
from keras_vit.weights.released import SERVER

TAG = "vit_base_patch16_224.sam_in1k"
PATH = "/vit_models/sam/ViT-B_16.npz"
CONTENT = (GOLDENS / "g1.weights.npz").read_bytes()


class Server(http.server.ThreadingHTTPServer):
    """Gives CONTENT at PATH, in the ways a test asks for."""

    daemon_threads = True
    stop_after: int | None = None  # bytes of a transfer, once
    ranges = True
    etag = '"one"'
    content = CONTENT
    path = PATH

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.requests: list[str | None] = []
        self.paths: list[str] = []


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        server, wanted = self.server, self.headers.get("Range")
        server.requests.append(wanted)
        server.paths.append(self.path)
        if self.path != server.path:
            self.send_error(404)
            return
        resumed = wanted and server.ranges and self.headers.get("If-Range") == server.etag
        start = int(wanted.removeprefix("bytes=").rstrip("-")) if resumed else 0
        body = server.content[start:]
        self.send_response(206 if resumed else 200)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("ETag", server.etag)
        self.end_headers()
        if server.stop_after is not None:
            body, server.stop_after = body[: server.stop_after], None
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def server(tmp_path, monkeypatch):
    server = Server()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    monkeypatch.setenv("KERAS_VIT_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("KERAS_VIT_WEIGHTS_URL", f"http://127.0.0.1:{server.server_port}")
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def left(folder):
    return sorted(path.name for path in folder.iterdir() if not path.name.endswith(".lock"))


def test_a_whole_file_is_fetched_once_and_its_hash_recorded(server):
    path = download(TAG)
    assert path == home() / "vit_models/sam/ViT-B_16.npz" and path.read_bytes() == CONTENT
    assert download(TAG) == path and server.requests == [None]
    assert left(path.parent) == ["ViT-B_16.npz", "ViT-B_16.npz.sha256"]
    assert (path.parent / "ViT-B_16.npz.sha256").read_text().split() == [
        hashlib.sha256(CONTENT).hexdigest(),
        "ViT-B_16.npz",
    ]


def test_a_tag_is_a_source_everywhere(server):
    expected = golden("g1")
    for name in (TAG, "sam/ViT-B_16"):
        model = keras_vit.from_pretrained(name)
        assert max_difference(model(expected["images"]), expected["logits"]) < 2e-5
    report = keras_vit.load_weights(model, TAG)
    assert report.source.endswith("ViT-B_16.npz") and len(server.requests) == 1


def test_a_broken_transfer_goes_on_where_it_stopped(server):
    server.stop_after = 100_000
    assert download(TAG).read_bytes() == CONTENT
    assert server.requests == [None, "bytes=100000-"]


def test_a_later_run_goes_on_too(server, monkeypatch):
    monkeypatch.setattr(module, "_ATTEMPTS", 1)
    server.stop_after = 100_000
    with pytest.raises(FileNotFoundError, match=r"the transfer ended after 100,000 of 285,590 bytes"):
        download(TAG)
    assert not (home() / PATH[1:]).exists()
    assert download(TAG).read_bytes() == CONTENT
    assert server.requests == [None, "bytes=100000-"]


@pytest.mark.parametrize("change", [{"ranges": False}, {"etag": '"two"'}])
def test_a_file_that_changed_meanwhile_is_fetched_anew(server, monkeypatch, change):
    monkeypatch.setattr(module, "_ATTEMPTS", 1)
    server.stop_after = 100_000
    with pytest.raises(FileNotFoundError):
        download(TAG)
    for name, value in change.items():
        setattr(server, name, value)
    server.content = (GOLDENS / "g2.weights.npz").read_bytes()
    assert download(TAG).read_bytes() == server.content


def test_what_cannot_be_fetched_says_where_to_put_it(server, capsys):
    tag = "vit_base_patch32_224.sam_in1k"
    place = home() / "vit_models/sam/ViT-B_32.npz"
    with pytest.raises(FileNotFoundError, match="HTTP Error 404") as error:
        download(tag)
    assert str(error.value).endswith(
        f"put https://storage.googleapis.com/vit_models/sam/ViT-B_32.npz at {str(place)!r}."
    )
    assert len(server.requests) == 1  # asking again would give the same
    assert main(["weights", "download", tag]) == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1


def test_without_a_network(tmp_path, monkeypatch):
    monkeypatch.setenv("KERAS_VIT_HOME", str(tmp_path))
    monkeypatch.setenv("KERAS_VIT_WEIGHTS_URL", "http://127.0.0.1:9")
    with pytest.raises(
        FileNotFoundError, match=r"could not be downloaded \(.*refused.*put https://.* at .*ViT-B_16.npz"
    ):
        keras_vit.create_model(TAG)


def test_the_next_mirror_is_asked(server, monkeypatch):
    monkeypatch.setenv("KERAS_VIT_WEIGHTS_URL", f"http://127.0.0.1:9 http://127.0.0.1:{server.server_port}/")
    assert download(TAG).read_bytes() == CONTENT


def test_a_mirror_of_other_files_is_passed_over(server, monkeypatch, tmp_path):
    wrong = tmp_path / "mirror" / PATH[1:]
    wrong.parent.mkdir(parents=True)
    wrong.write_bytes(b"another file")
    mirrors = f"{(tmp_path / 'mirror').as_uri()} http://127.0.0.1:{server.server_port}"
    monkeypatch.setenv("KERAS_VIT_WEIGHTS_URL", mirrors)
    assert download(TAG).read_bytes() == CONTENT


def test_empty_mirrors_are_none(monkeypatch):
    for said in ("", " "):
        monkeypatch.setenv("KERAS_VIT_WEIGHTS_URL", said)
        assert module._urls(find_released(TAG)) == [SERVER + PATH]


def test_a_wrong_hash_or_size_is_not_kept(server):
    row = find_released(TAG)
    for published, sentence in (
        (replace(row, sha256="0" * 64), f"expected SHA-256 {'0' * 64}, received {hashlib.sha256(CONTENT).hexdigest()}"),
        (replace(row, size=17), "expected 17 bytes, received 285,590"),
    ):
        with pytest.raises(ValueError, match=sentence):
            download(published)
        assert left(home() / "vit_models/sam") == []
    right = replace(row, sha256=hashlib.sha256(CONTENT).hexdigest(), size=len(CONTENT))
    assert download(right).read_bytes() == CONTENT


def test_a_recorded_hash_holds_from_then_on(server):
    path = download(TAG)
    path.unlink()
    server.content = CONTENT + b"!"
    with pytest.raises(ValueError, match=r"expected SHA-256 [0-9a-f]{64}, as recorded in '.*ViT-B_16.npz.sha256', rec"):
        download(TAG)
    assert not path.exists()


def test_the_hash_of_a_file_in_the_cache_is_checked_at_every_load(server):
    path, model = download(TAG), keras_vit.from_pretrained(TAG)
    before, times = path.read_bytes(), path.stat()
    path.write_bytes(before[:-1] + bytes([before[-1] ^ 1]))  # in the archive's end, where no member's checksum is
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    sentence = (
        rf"expected SHA-256 [0-9a-f]{{64}}, received [0-9a-f]{{64}} of {str(path)!r}, which was changed or damaged"
    )
    for load in (keras_vit.from_pretrained, lambda tag: keras_vit.load_weights(model, tag)):
        with pytest.raises(ValueError, match=sentence):
            load(TAG)
    path.write_bytes(before)
    keras_vit.load_weights(model, TAG)
    published = replace(find_released(TAG), sha256="0" * 64)
    with pytest.raises(ValueError, match=f"expected SHA-256 {'0' * 64}, received"):
        download(published)
    (path.parent / f"{path.name}.sha256").unlink()  # as of a file that was put there by hand
    keras_vit.load_weights(model, TAG)


def test_a_file_at_a_url_is_checked_by_the_digits_in_its_name(server, capsys):
    url = "https://dl.fbaipublicfiles.com/deit/deit_tiny_patch16_224-a1311bcf.pth"
    released = find_released(url)
    assert released.url == url and released.sha256 == "a1311bcf"
    server.path = "/" + released.place
    with pytest.raises(ValueError, match=r"expected SHA-256 a1311bcf, received [0-9a-f]{64} from http://127.0.0.1"):
        download(url)
    digits = hashlib.sha256(server.content).hexdigest()[:8]
    server.stop_after = 1000  # the transfer resumes
    path = download(replace(released, sha256=digits))
    assert path == home() / "dl.fbaipublicfiles.com/deit/deit_tiny_patch16_224-a1311bcf.pth"
    assert server.requests[-1] == "bytes=1000-"
    path.write_bytes(server.content + b"!")
    with pytest.raises(ValueError, match=f"expected SHA-256 {digits}"):
        download(replace(released, sha256=digits))
    assert main(["weights", "download", "https://x.org/y.pth"]) == 2
    assert "expected the URL of a file in the catalogue" in capsys.readouterr().err


def test_a_page_in_place_of_the_file_is_not_kept(server):
    server.content = b"<html>Please log in.</html>"
    with pytest.raises(ValueError, match=r"expected a whole .npz file, received something else from http://127.0.0.1"):
        download(TAG)
    assert left(home() / "vit_models/sam") == []  # no hash either
    server.content = CONTENT
    assert download(TAG).read_bytes() == CONTENT


def test_a_page_in_place_of_the_index_is_not_kept(server):
    server.path, server.content = "/vit_models/augreg/index.csv", b"\n<!DOCTYPE html>"
    with pytest.raises(ValueError, match=r"expected a whole .csv file, received something else from http://127.0.0.1"):
        download("augreg/index")


@pytest.mark.broad
def test_two_processes_get_one_file(server):
    code = f"from keras_vit.weights.download import download; print(download({TAG!r}))"
    processes = [
        subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, text=True) for _ in range(2)
    ]
    printed = {process.communicate()[0].strip() for process in processes}
    assert [process.returncode for process in processes] == [0, 0]
    assert printed == {str(home() / PATH[1:])} and len(server.requests) == 1


def test_plus_signs_are_quoted_and_folders_chosen(server, tmp_path, capsys):
    row = find_released("imagenet21k+imagenet2012/ViT-B_16")
    assert row.url.endswith("/vit_models/imagenet21k%2Bimagenet2012/ViT-B_16.npz")
    assert main(["weights", "download", TAG, "--to", str(tmp_path / "here")]) == 0
    assert capsys.readouterr().out.strip() == str(tmp_path / "here" / PATH[1:])
    assert (tmp_path / "here" / PATH[1:]).read_bytes() == CONTENT
    with pytest.raises(FileNotFoundError, match="HTTP Error 404"):  # another file of the same name
        download("imagenet21k/ViT-B_16", tmp_path / "here")


def test_the_cache_is_kerass_own_by_default(monkeypatch):
    monkeypatch.delenv("KERAS_VIT_HOME", raising=False)
    monkeypatch.setenv("KERAS_HOME", "/somewhere")
    assert home() == Path("/somewhere/keras_vit")
    monkeypatch.delenv("KERAS_HOME")
    assert home() == Path("~/.keras/keras_vit").expanduser()
