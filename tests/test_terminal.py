"""The command `keras-vit`: quick to answer, and its own lines alone on the terminal."""

import json
import os
import subprocess
import sys
import warnings

import numpy as np
import pytest
from PIL import Image
from support import ROOT, first_quick, needs_tensorflow, randomise

import keras_vit
from keras_vit import cli, terminal
from keras_vit.cli import summary as summary_verb
from keras_vit.cost import budget, published
from keras_vit.export import export
from keras_vit.predict import predict

TINY = keras_vit.Variant("tiny", width=16, depth=1, mlp_dim=24, num_heads=2, patch_size=4, image_size=8)
# A process that cannot import Keras, nor what it runs on; its arguments are those of the command.
WITHOUT_KERAS = """
import sys
class Refused:
    def find_spec(self, name, path=None, target=None):
        if name in ("keras", "tensorflow", "jax", "torch"):
            raise RuntimeError(f"{name} was imported")
sys.meta_path.insert(0, Refused())
sys.argv[0] = "keras-vit"
from keras_vit.cli import main
def said(*arguments):
    try:
        code = main(list(arguments))
    except SystemExit as done:
        code = done.code
    print(code, flush=True)
"""


def run_command(code, *arguments, **environment):
    """Run code in a fresh interpreter: (lines of the standard output, the standard error)."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    command = [sys.executable, "-c", code, *map(str, arguments)]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.splitlines(), done.stderr


VERBS = ("train", "evaluate", "predict", "export", "serve", "analyze", "list", "summary", "weights", "bench", "check")
VERBS += ("doctor", "new", "completion")


def test_help_and_mistakes_are_answered_without_keras(tmp_path):
    mistakes = {
        "predict absent.tflite x.jpg": "predict: nothing lies at 'absent.tflite', and as a name it is unknown",
        "evaluate ViT_B16": "evaluate: model expected trained weights, received the name 'ViT_B16'",
        "evaluate setup.py": "evaluate: --recipe expected a recipe with test data",
        "export absent --output out": "export: nothing lies at 'absent'",
        "export setup.py --output out --formats onnxx": "export: formats expected some of ('saved_model', 'tflite', ",
        "analyze setup.py --output out": "analyze: images expected image files, received none",
        "train absent.py --workdir out": "train: recipe expected a Python file",
        "train recipes/digits.py --workdir out --set epoch=3": "train: set expected the path of a recipe's field",
        "train recipes/digits.py": "train: --workdir expected the folder of the run",
        "weights convert absent.npz out.npz": "weights: source expected a file of weights, found nothing",
        "bench --models ViT_B61": "bench: ",
        "new setup.py": "new: RECIPE.py expected a new file, received 'setup.py', which exists",
        "new absent.py --model ViT_B61": "new: name expected a model of list_models()",
        "summary ViT_B16 --accuracy pet=90": "summary: error: argument --accuracy: expected DATA=PERCENT",
    }
    code = WITHOUT_KERAS + f"for verb in {VERBS}: said(verb, '--help')\n"
    code += f"for mistake in {list(mistakes)}: said(*mistake.split())\nsaid('list', 'ViT_B8')"
    lines, errors = run_command(code)
    codes = [line for line in lines if line in ("0", "2")]
    assert codes == ["0"] * len(VERBS) + ["2"] * len(mistakes) + ["0"]
    assert sum("example: keras-vit " in line for line in lines) == len(VERBS)
    assert all(f"keras-vit {sentence}" in errors for sentence in mistakes.values()), errors
    assert "Traceback" not in errors and "ViT_B8 " in lines[-2]


@pytest.mark.parametrize(
    ("argv", "orig_argv", "expected"),
    [
        (["/usr/bin/keras-vit", "list"], ["python", "/usr/bin/keras-vit", "list"], True),
        (["-m", "list"], ["python", "-m", "keras_vit.cli", "list"], True),
        (["-m"], ["python", "-m", "pytest", "keras_vit"], False),
        (["train.py", "-m", "keras_vit.cli"], ["python", "train.py", "-m", "keras_vit.cli"], False),
        (["keras-vit.py"], ["python", "keras-vit.py"], False),
        ([""], ["python"], False),
        ([], [], False),
    ],
)
def test_the_command_is_told_by_the_processs_arguments(argv, orig_argv, expected, monkeypatch):
    monkeypatch.setattr(sys, "argv", argv)
    monkeypatch.setattr(sys, "orig_argv", orig_argv)
    assert terminal._is_command() == expected


@pytest.mark.broad
def test_python_dash_m_is_the_command_and_a_public_name_still_imports_all(tmp_path):
    code = "import subprocess, sys\nprint(subprocess.run([sys.executable, '-m', 'keras_vit.cli', 'list', 'ViT_B8']))"
    lines, errors = run_command(code, KERAS_BACKEND="absent")  # Keras would refuse to be imported
    assert lines[1].startswith("ViT_B8 ") and "returncode=0" in lines[2]
    assert errors == "next: keras-vit summary ViT_B8\n"
    code = "import sys; sys.argv[0] = 'keras-vit'\nimport keras_vit\nprint('keras' in sys.modules)\n"
    code += "from keras_vit.models.builders import build\n"  # with whatever it asks the package for
    code += "print(keras_vit.ViT_B8.__name__, keras_vit.layers.EncoderBlock.__name__)\n"
    code += "try: keras_vit.ViT_B61\nexcept AttributeError as error: print(error)"
    lines, _ = run_command(code)
    assert lines == ["False", "ViT_B8 EncoderBlock", "module 'keras_vit' has no attribute 'ViT_B61'"]


def test_the_constants_of_the_summary_verb_equal_those_of_cost():
    assert summary_verb.JFT_IMAGES == budget.JFT_IMAGES
    assert tuple(published(6)[0].scores) == summary_verb.DATASETS


@needs_tensorflow
@pytest.mark.parametrize(
    ("name", "package"), first_quick([("tflite", "ai_edge_litert"), ("onnx", "tf2onnx"), ("openvino", "openvino")])
)
def test_predict_needs_no_keras_for_an_export(name, package, tmp_path):
    """Nor does it say anything else than its answers, which are the model's."""
    pytest.importorskip(package, reason="extra `formats` is not installed")
    model = randomise(keras_vit.build(TINY, classes=3, labels=("ant", "bee", "cat")))
    pictures = [tmp_path / "a.png", tmp_path / "b.jpg"]
    for picture, size in zip(pictures, [(37, 23, 3), (5, 9, 3)], strict=True):
        Image.fromarray(np.random.default_rng(0).integers(0, 256, size, "uint8")).save(picture)
    folder = export(model, tmp_path / "out", formats=(name,)).path
    code = WITHOUT_KERAS + "said('predict', *sys.argv[1:], '--json')"
    lines, errors = run_command(code, folder, *pictures)
    assert not errors and lines.pop() == "0"
    for found, expected in zip(map(json.loads, lines), predict(model, pictures), strict=True):
        for ours, models in zip(found["predictions"], expected["predictions"], strict=True):
            assert ours["label"] == models["label"] and abs(ours["score"] - models["score"]) < 1e-5


@pytest.mark.filterwarnings("always:two files")
def test_warnings_are_sentences_in_the_command_alone(capsys, monkeypatch):
    def warn(options):
        warnings.warn("two files\nare left out.", stacklevel=1)

    before = warnings.showwarning
    monkeypatch.setattr("keras_vit.cli.list.run", warn)
    assert cli.main(["list"]) == 0
    assert capsys.readouterr().err == "keras-vit: two files are left out.\n"
    assert warnings.showwarning is before and not any(isinstance(f, terminal._SilentImport) for f in sys.meta_path)


@pytest.mark.parametrize(
    ("error", "shown"),
    [(None, ""), (RuntimeError("no driver"), "a line of C++\n"), (ValueError("a mistake"), "")],
    ids=["it works", "it fails", "it says why"],
)
def test_what_libraries_write_is_shown_where_they_fail_alone(error, shown, capfd):
    with pytest.raises(type(error)) if error else warnings.catch_warnings(), terminal.hide_stderr(expected=ValueError):
        os.write(2, b"a line of C++\n")
        print("our own line", file=sys.stderr)
        if error:
            raise error
    assert capfd.readouterr().err == "our own line\n" + shown


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("asked", first_quick(["1", None, "0"]))  # 1: set by TensorFlow in the parent process
def test_an_import_of_keras_is_silent_unless_it_fails_or_the_user_asks(fails, asked, tmp_path, monkeypatch):
    """By a package that is called Keras, writes as TensorFlow's C++ does, and may not start."""
    (tmp_path / "keras").mkdir()
    text = "import os; os.write(2, b'cpu_feature_guard.cc\\n')\n" + "raise ImportError('no AVX')\n" * fails
    (tmp_path / "keras/__init__.py").write_text(text + "print(os.environ['TF_CPP_MIN_LOG_LEVEL'])\n")
    monkeypatch.delenv("TF_CPP_MIN_LOG_LEVEL")
    code = WITHOUT_KERAS.replace("sys.meta_path.insert(0, Refused())", f"sys.path.insert(0, {str(tmp_path)!r})")
    code += "import keras_vit.cli.list\n"
    code += "keras_vit.cli.list.run = lambda options: __import__('keras') and None\nsaid('list')\n"
    lines, errors = run_command(code, **({"TF_CPP_MIN_LOG_LEVEL": asked} if asked else {}))
    said = "cpu_feature_guard.cc\n" if fails or asked == "0" else ""
    assert errors == said + ("keras-vit list: no AVX\n" if fails else "")
    assert lines == ([] if fails else ["0" if asked == "0" else "3"]) + ["2" if fails else "0"]


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (OSError(28, "No space left on device"), "the system refused to read or write: No space left on device."),
        (PermissionError(13, "Permission denied", "a.csv"), "the system refused to read or write 'a.csv': Permission "
         "denied."),
        (RuntimeError("{{node SaveV2}} /tmp/x; No space left on device [Op:SaveV2]"), "the system refused to read or "
         "write: No space left on device."),
        (OSError("checkpoint of step 3 expected a disk."), "checkpoint of step 3 expected a disk."),
        (ValueError("images expected a folder: Permission denied."), "images expected a folder: Permission denied."),
        (RuntimeError("a fault of ours"), None),
    ],
)  # fmt: skip
def test_a_disk_that_refuses_is_a_sentence_and_a_fault_of_ours_is_none(error, sentence, monkeypatch, capsys):
    def fail(_):
        raise error

    monkeypatch.setattr("keras_vit.cli.list.run", fail)
    if sentence is None:
        with pytest.raises(RuntimeError):
            cli.main(["list"])
        return
    assert cli.main(["list"]) == 2 and capsys.readouterr().err == f"keras-vit list: {sentence}\n"
