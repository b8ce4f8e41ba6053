"""The command line from end to end: train the digits recipe, then evaluate, export, analyze and predict."""

import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from support import ROOT, first_quick, needs_tensorflow

from keras_vit import Variant, build, cli, list_models, load_model
from keras_vit.cli.images import images_to_compare
from keras_vit.train.recipe.file import load_recipe

pytest.importorskip("sklearn", reason="extra `recipes` is not installed")
pytest.importorskip("matplotlib", reason="extra `analysis` is not installed")
pytestmark = needs_tensorflow
DIGITS = str(ROOT / "recipes/digits.py")
TRAIN = ["train", DIGITS, "--set", "epochs=20", "--workdir"]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Train a quarter of the epochs of `make demo`, and return the workdir."""
    workdir = tmp_path_factory.mktemp("runs") / "digits"
    assert cli.main([*TRAIN, str(workdir)]) == 0
    return workdir


@pytest.fixture(scope="module")
def exported(run):
    pytest.importorskip("ai_edge_litert", reason="extra `formats` is not installed")
    output = run.parent / "exports/digits"
    assert cli.main(["export", str(run), "--output", str(output)]) == 0
    return output


@pytest.fixture(scope="module")
def pictures(run):
    assert cli.main(["analyze", str(run), "--output", str(run / "pictures")]) == 0
    return run / "pictures"


def test_training_learns_and_writes_its_files(run):
    summary = json.loads((run / "summary.json").read_text())
    assert summary["accuracy"] >= 0.955  # as logistic regression
    assert summary["seconds"] > 0 and summary["test_examples"] == 359
    assert summary["labels"] == [str(digit) for digit in range(10)]
    assert json.loads((run / "recipe.json").read_text())["name"] == "digits"
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert all(set(line) == {"step", "split", "name", "value"} for line in lines)
    last = [line for line in lines if (line["split"], line["name"]) == ("test", "accuracy")][-1]
    assert last["value"] == pytest.approx(summary["accuracy"])
    assert (run / "model.keras").is_file() and any((run / "checkpoints").iterdir())


def test_training_again_reports_and_another_recipe_raises_an_error(run, capsys):
    before = (run / "model.keras").stat().st_mtime_ns
    assert cli.main([*TRAIN, str(run)]) == 0
    assert "test accuracy" in capsys.readouterr().out
    assert (run / "model.keras").stat().st_mtime_ns == before
    assert cli.main([*TRAIN, str(run), "--set", "optimizer.learning_rate=1.0"]) == 2
    error = capsys.readouterr().err
    assert re.fullmatch(r"keras-vit train: workdir expected .*\n", error), error


def next_command(said, verb):
    """Return the words of the next command, which the last line of the standard error states, and which parses."""
    last = said.err.splitlines()[-1]
    assert last.startswith(f"next: keras-vit {verb} "), said.err
    words = shlex.split(last)[2:]
    assert cli.command_parser().parse_args(words).verb == verb
    return words


@pytest.mark.broad
def test_each_verb_states_the_next_command(run, capsys):
    assert cli.main([*TRAIN, str(run)]) == 0
    evaluate = next_command(capsys.readouterr(), "evaluate")
    assert evaluate == ["evaluate", str(run)]
    assert cli.main(evaluate) == 0
    assert next_command(capsys.readouterr(), "export") == ["export", str(run), "--output", "saved_models/digits"]
    assert cli.main(["evaluate", str(run / "model.keras"), "--recipe", DIGITS]) == 0
    assert next_command(capsys.readouterr(), "export")[-2:] == ["--recipe", DIGITS]
    assert cli.main(["train", DIGITS, "--dry-run", "--set", "epochs=2"]) == 0
    assert next_command(capsys.readouterr(), "train")[1:4] == [DIGITS, "--workdir", "runs/digits"]


@pytest.mark.parametrize("verb", first_quick(["evaluate", "train", "export", "analyze"]))
def test_the_standard_output_has_one_object_with_json_and_nothing_with_quiet(verb, run, tmp_path, capfd):
    commands = {
        "train": ([*TRAIN, str(run)], "accuracy"),
        "evaluate": (["evaluate", str(run)], "accuracy"),
        "export": (["export", str(run), "--output", str(tmp_path / "e"), "--formats", "saved_model"], "rows"),
        "analyze": (["analyze", str(run), "--output", str(tmp_path / "a"), "--parts", "layers"], "page"),
    }
    command, name = commands[verb]
    capfd.readouterr()
    assert cli.main([*command, "--json", "--quiet"]) == 0
    said = capfd.readouterr()
    assert name in json.loads(said.out) and said.out.count("\n") == 1 and said.err == ""
    assert cli.main([*command[:1], str(tmp_path / "absent"), *command[2:], "--quiet", "--json"]) == 2
    said = capfd.readouterr()
    assert said.out == "" and said.err.startswith(f"keras-vit {verb}: ") and said.err.count("\n") == 1


@pytest.mark.broad
def test_evaluate_agrees_with_training(run, capsys):
    assert cli.main(["evaluate", str(run)]) == 0
    accuracy = json.loads((run / "summary.json").read_text())["accuracy"]
    assert f"accuracy {accuracy:.2%}" in capsys.readouterr().out
    assert cli.main(["evaluate", str(run / "model.keras"), "--recipe", DIGITS]) == 0
    assert f"accuracy {accuracy:.2%}" in (plain := capsys.readouterr().out)
    assert cli.main(["evaluate", str(run), "--flip"]) == 0
    assert capsys.readouterr().out != plain  # a mirrored digit is a different image


@pytest.mark.broad
def test_export_writes_a_version_and_prints_the_comparison(exported, capsys):
    files = {str(path.relative_to(exported)) for path in exported.rglob("*") if path.is_file()}
    assert {"1/saved_model.pb", "1/model.tflite", "1/manifest.json", "1/model_card.md"} <= files
    formats = ["--formats", "saved_model,tflite"]
    assert cli.main(["export", str(exported.parent.parent / "digits"), "--output", str(exported), *formats]) == 0
    table = capsys.readouterr().out
    assert (exported / "2").is_dir() and "tflite" in table and "saved_model" in table and "100" in table


@pytest.mark.broad
def test_analyze_draws_the_run(pictures):
    assert (pictures / "index.html").read_text().count("data:image/png;base64,") == len(list(pictures.glob("*.png")))
    for name in ("training.png", "predictions.png", "attention.png", "figure7.png", "plane.png"):
        with Image.open(pictures / name) as picture:
            assert min(picture.size) > 300 and np.asarray(picture.convert("L")).std() > 5
    assert len(list((pictures / "examples").iterdir())) == 10


def test_predict_on_a_run_and_on_its_export(run, exported, pictures, capsys):
    examples = sorted(str(path) for path in (pictures / "examples").iterdir())
    answers = []
    for model in (run, exported):
        assert cli.main(["predict", str(model), *examples, "--top", "2", "--json"]) == 0
        answers.append([json.loads(line) for line in capsys.readouterr().out.splitlines()])
    right = [row["predictions"][0]["label"] == Path(row["image"]).stem.split("_")[1] for row in answers[0]]
    assert sum(right) >= 8
    for ours, export in zip(*answers, strict=True):
        assert [p["label"] for p in ours["predictions"]] == [p["label"] for p in export["predictions"]]
        assert ours["predictions"][0]["score"] == pytest.approx(export["predictions"][0]["score"], abs=1e-4)
    assert cli.main(["predict", str(run), examples[0]]) == 0
    assert re.match(r".*: \d \d+\.\d%, \d ", capsys.readouterr().out)


def test_analyze_uses_at_most_a_thousand_test_images_by_default(run, tmp_path, monkeypatch, capsys):
    def opened(model, data, data_dir, limit, left_out, *_):
        raise ValueError(f"limit {limit}")

    monkeypatch.setattr("keras_vit.cli.images.load_split", opened)
    assert cli.main(["analyze", str(run), "--output", str(tmp_path)]) == 2
    assert capsys.readouterr().err.endswith("keras-vit analyze: limit 1000\n")


@pytest.mark.broad
def test_analyze_takes_files(run, pictures, tmp_path):
    example = next(iter((pictures / "examples").iterdir()))
    assert cli.main(["analyze", str(run), str(example), "--output", str(tmp_path)]) == 0
    assert (tmp_path / "attention.png").is_file() and (tmp_path / "analysis.json").is_file()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["train", "absent.py", "--workdir", "{tmp}"], "recipe expected a Python file that defines `recipe`"),
        (["train", DIGITS, "--workdir", "{tmp}/x", "--set", "epoch=3"], "epoch"),
        (["train", DIGITS, "--workdir", "{tmp}/x", "--set", "model.dropout_rate=1"], "dropout_rate expected a rate"),
        (["train", DIGITS, "--workdir", "{tmp}/x", "--strategy", "two"], "strategy expected one of"),
        (["evaluate", "{run}/model.keras"], "--recipe expected a recipe with test data"),
        (["evaluate", "{run}", "--flip", "--suite", "real"], "--flip expected a recipe's test data, received --suite"),
        (["evaluate", "ViT_Ti16", "--recipe", DIGITS], "model expected trained weights, received the name 'ViT_Ti16'"),
        (["predict", "{run}", "{tmp}"], "images expected image files ("),
        (["predict", "{run}", "{run}/pictures/examples/", "--top", "0"], "top expected a positive int"),
        (["evaluate", "{tmp}/absent", "--recipe", DIGITS], "/absent', and as a name it is unknown: "),
        (["predict", "ViT_B61", DIGITS], "the nearest are ViT_B16, "),
        (["predict", "ViT_B16", DIGITS], "model expected trained weights, received the name 'ViT_B16'"),
        (["predict", "{tmp}", DIGITS], "model expected a folder with model.keras, or an export"),
        (["export", "{run}", "--output", "{tmp}/e", "--formats", "onnxx"], "formats expected some of"),
        (["export", "{run}", "--output", "{tmp}/e", "--limit", "0"], "limit expected a positive int, received 0."),
        (["export", "{run}", "--output", "{tmp}/e", "--images", "{tmp}", "--limit", "0"], "limit expected a positive"),
        (["analyze", "{run}", "--output", "{tmp}/a", "--limit", "-1"], "limit expected a positive int, received -1."),
        (["analyze", "{run}/model.keras", "--output", "{tmp}/a"], "images expected image files, received none"),
        (["analyze", "ViT_Ti16", "{tmp}/a.jpg", "--output", "{tmp}/a"], "model expected trained weights, received the"),
        (["analyze", "{run}", "--output", "{tmp}/a", "--parts", "heads"], "parts expected some of ('attention', "),
    ],
)
def test_wrong_arguments_print_one_sentence_and_return_2(arguments, sentence, run, tmp_path, capsys):
    arguments = [argument.format(tmp=tmp_path, run=run) for argument in arguments]
    assert cli.main(arguments) == 2
    error = capsys.readouterr().err
    assert sentence in error and error.startswith(f"keras-vit {arguments[0]}: ")
    assert error.strip().count("\n") == 0 and "Traceback" not in error
    assert not (tmp_path / "x").exists() and not (tmp_path / "e").exists()


@pytest.mark.broad
def test_analyze_raises_an_error_for_data_with_other_classes(run, tmp_path, capsys):
    row = Variant("tiny", width=8, depth=1, mlp_dim=8, num_heads=2, patch_size=4, image_size=8)
    other = build(row, input_shape=(8, 8, 1), classes=10, labels=[str(digit) for digit in reversed(range(10))])
    other.save(tmp_path / "other.keras")
    command = ["analyze", str(tmp_path / "other.keras"), "--recipe", DIGITS, "--output", str(tmp_path / "a")]
    assert cli.main(command) == 2
    assert "data expected the model's 10 classes (9, 8, " in capsys.readouterr().err
    assert not (tmp_path / "a").exists()
    assert images_to_compare(other, None, load_recipe(DIGITS).data, None, 4)[1] is None
    assert len(images_to_compare(load_model(run), None, load_recipe(DIGITS).data, None, 4)[1]) == 4


def test_ctrl_c_ends_a_verb_with_a_line_and_130(monkeypatch, capsys):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("keras_vit.models.variants.list_models", interrupted)
    assert cli.main(["list"]) == 130
    assert capsys.readouterr().err == "keras-vit list: interrupted\n"


def test_list_shows_the_rows(capsys):
    assert cli.main(["list", "ViT_B*"]) == 0
    names = [name for name in list_models() if name.startswith("ViT_B")]
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["name", *names]


OUTPUT, TABLE = {"--json", "--quiet"}, {"--numbers", "--probabilities", "--order"}
FLAGS = {
    "finetune": {"--workdir", "--model", "--image-size", "--splits", "--plan", "--formats", "--adapt", "--rank"}
    | TABLE
    | {"--log"}
    | OUTPUT,
    "new": {"--data", "--data-dir", "--model"} | TABLE | OUTPUT,
    "train": {"--workdir", "--data-dir", "--strategy", "--set", "--tpu", "--profile", "--dry-run", "--live-plot"}
    | {"--from", "--log"}
    | OUTPUT,
    "find-rate": {"--data-dir", "--steps", "--lowest", "--highest", "--head", "--plot", "--strategy", "--set"} | OUTPUT,
    "sweep": {"--over", "--search", "--trials", "--folds", "--seeds", "--workdir", "--data-dir", "--strategy", "--set"}
    | OUTPUT,
    "cross-validate": {"--folds", "--seeds", "--workdir", "--data-dir", "--strategy", "--set"} | OUTPUT,
    "evaluate": {"--recipe", "--data-dir", "--flip", "--suite", "--output", "--probe", "--tasks", "--shots", "--rates"}
    | {"--resize", "--set", "--data", "--validation", "--save-calibrated", "--train-images", "--seed"}
    | OUTPUT,
    "compare": {"--data", "--output"} | OUTPUT,
    "check": OUTPUT,
    "predict": {"--top", "--output", "--labels"} | OUTPUT,
    "export": {"--output", "--calibration", "--formats", "--limit", "--recipe", "--data-dir", "--dtype", "--images"}
    | {"--dynamic-batch", "--results", "--adapters", "--fold-normalization"}
    | OUTPUT,
    "analyze": {"--output", "--parts", "--limit", "--recipe", "--data-dir"} | OUTPUT,
    "list": {"--markdown"} | OUTPUT,
    "doctor": {"--import-extras"} | OUTPUT,
    "completion": OUTPUT,
    "bench": {"--preset", "--quick", "--models", "--tasks", "--dtypes", "--batches", "--backends", "--peers"}
    | {"--image-size", "--depths", "--rounds", "--device", "--resume", "--output"}
    | OUTPUT,
    "summary": {"--image-size", "--batch", "--optimizer", "--precision", "--epochs", "--images", "--peak"}
    | {"--utilisation", "--plot", "--accuracy"}
    | OUTPUT,
}


@pytest.mark.parametrize("verb", FLAGS)
def test_every_verb_has_help_and_its_flags(verb, capsys):
    with pytest.raises(SystemExit) as done:
        cli.main([verb, "--help"])
    text = capsys.readouterr().out
    assert done.value.code == 0 and f"example: keras-vit {verb}" in text.replace("\n", " ")
    assert set(re.findall(r"(?<![\w-])--[a-z-]+", text.split("example:")[0])) - {"--help"} == FLAGS[verb]
