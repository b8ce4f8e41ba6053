"""`keras-vit bench --resume`: an interrupted run goes on where it was."""

import contextlib
import io
import json
import shutil
import threading
from pathlib import Path

import pytest

from benchmarks.harness import matmul, plan, verb
from keras_vit import cli

FAKE = Path(__file__).with_name("fake_peer.py")
TINY = ["--models", "ViT_Ti16", "--depths", "1", "--image-size", "32", "--batches", "2,4", "--rounds", "2"]
TINY += ["--tasks", "forward", "--dtypes", "float32", "--backends", "tensorflow"]


@pytest.fixture(scope="module")
def begun(tmp_path_factory):
    """The folder of a run with one question answered, and one begun; what stands in for the peers stays."""
    if threading.current_thread() is not threading.main_thread():
        pytest.skip("signals reach the main thread alone")
    folder, said = tmp_path_factory.mktemp("begun"), io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(plan.ON_KERAS, "keras_vit", f"{FAKE}:good")
        patch.setattr(matmul, "LIBRARIES", ("numpy",))
        patch.setenv("FAKE_PEER_MARK", str(folder / "mark"))
        peers = ["--peers", f"{FAKE}:interrupting_once"]
        with contextlib.redirect_stderr(said):
            assert cli.main(["bench", *TINY, *peers, "--output", str(folder / "out")]) == verb.INTERRUPTED
        (file,) = (folder / "out").glob("*.json")
        assert f"; go on with: keras-vit bench --resume {file}\n" in said.getvalue()
        yield folder / "out"


@pytest.fixture
def interrupted(begun, tmp_path):
    """The JSON of a copy of it."""
    (file,) = Path(shutil.copytree(begun, tmp_path / "out")).glob("*.json")
    return file


@pytest.mark.broad
@pytest.mark.broad
def test_a_resumed_run_keeps_the_answered_questions_and_asks_the_others(interrupted):
    before = json.loads(interrupted.read_text())
    assert [question["complete"] for question in before["questions"]] == [True, False]
    assert cli.main(["bench", "--resume", str(interrupted)]) == 0
    after = json.loads(interrupted.read_text())
    assert sorted(path.suffix for path in interrupted.parent.iterdir()) == [".json", ".md"]
    assert after["complete"] and after["date"] == before["date"] and after["settings"] == before["settings"]
    assert after["questions"][0] == before["questions"][0]
    assert after["command"] == before["command"] and "--peers" in after["command"]  # and not `--resume`
    assert [(question["batch"], question["complete"]) for question in after["questions"]] == [(2, True), (4, True)]
    assert all(len(row["turns"]) == 2 for row in after["questions"][1]["rows"])  # of the whole, not of its rest
    assert len(after["matmul"]) == len(after["resumed"]) == 1
    page = interrupted.with_suffix(".md").read_text()
    assert "**Interrupted**" not in page and f"when it was resumed on {after['resumed'][0]['date']}" in page


MISTAKES = (
    ([], {"settings": None}, "resume expected the JSON of a run of keras-vit bench, received "),
    ([], {"complete": True}, "which ran to its end"),
    ([], {"machine": {"cpu": "abacus", "cpu_model": None}}, "received one of abacus, "),
    ([], {"machine": {"cpu": "abacus", "cpu_model": "family 0, model 1"}}, "one of abacus (family 0, model 1), "),
    ([], {"machine": {"cpu_model": "family 0, model 1"}}, "resume expected a run of this machine"),
    ([], {"machine": {"source": "0123"}}, "source of keras_vit 0123"),
    ([], {"peer_files": {str(FAKE): "0123"}}, f"the file of each peer as it was, received {str(FAKE)!r}, which has ch"),
    (["--batches", "2"], {}, "--resume expected no other option, received --batches"),
    (["--quick"], {}, "--resume expected no other option, received --quick"),
)


@pytest.mark.broad
def test_what_cannot_be_resumed_gets_one_sentence(interrupted, capsys):
    measured = json.loads(interrupted.read_text())
    page = interrupted.with_suffix(".md")

    def refused(arguments, sentence):
        before = interrupted.read_bytes(), page.read_bytes()
        capsys.readouterr()
        assert cli.main(["bench", *arguments]) == 2
        error = capsys.readouterr().err
        assert sentence in error and error.startswith("keras-vit bench: ") and error.strip().count("\n") == 0
        assert (interrupted.read_bytes(), page.read_bytes()) == before

    for arguments, change, sentence in MISTAKES:
        machine = {**measured["machine"], **change.get("machine", {})}
        interrupted.write_text(json.dumps({**measured, **change, "machine": machine}))
        refused(["--resume", str(interrupted), *arguments], sentence)
    for machine in (None, {}, {"cpu": "abacus"}):
        interrupted.write_text(json.dumps({**measured, "machine": machine}))
        refused(["--resume", str(interrupted)], "resume expected the JSON of a run of keras-vit bench, received ")
    for row in measured["questions"][0]["rows"]:
        row["seconds"] = sum(row.pop("turns"), [])
    interrupted.write_text(json.dumps(measured))
    refused(["--resume", str(interrupted)], "resume expected a run whose JSON keeps the turns apart, received ")
    refused(["--resume", str(page)], "expected the JSON of a run")
    refused(["--resume", "absent.json"], "received 'absent.json'")
