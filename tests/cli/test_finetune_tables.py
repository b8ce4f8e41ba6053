"""`keras-vit finetune TABLE.csv` for several labels and for numbers: train, evaluate, report, export, compare."""

import json

import numpy as np
import pytest
from PIL import Image
from support import needs_tensorflow

import keras_vit
from keras_vit import cli

pytestmark = [needs_tensorflow, pytest.mark.broad]
metrics = pytest.importorskip("sklearn.metrics", reason="scikit-learn is the other implementation")
LABELS = ("left", "right", "top")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Pictures whose halves are bright or not, tables about them, and a small model."""
    folder, rng = tmp_path_factory.mktemp("tables"), np.random.default_rng(0)
    row = keras_vit.Variant("tiny", width=16, depth=1, mlp_dim=32, num_heads=2, patch_size=4, image_size=16)
    keras_vit.build(row, classes=2).save(folder / "tiny.keras")
    several, numbers = ["path,labels"], ["path,left,top"]
    for i in range(60):
        hot = rng.uniform(size=3) < [0.5, 0.4, 0.3]
        pixels = rng.integers(0, 130, (16, 16, 3))
        pixels[:, :8] += 60 * hot[0]
        pixels[:, 8:] += 60 * hot[1]
        pixels[:5] += 60 * hot[2]
        Image.fromarray(pixels.astype("uint8")).save(folder / f"{i:02d}.png")
        several.append(f"{i:02d}.png,{';'.join(name for name, on in zip(LABELS, hot, strict=True) if on)}")
        numbers.append(f"{i:02d}.png,{pixels[:, :8].mean():.2f},{10 * pixels[:5].mean():.2f}")
    (folder / "several.csv").write_text("\n".join(several) + "\n")
    (folder / "numbers.csv").write_text("\n".join(numbers) + "\n")
    return folder


def run(capsys, *arguments):
    capsys.readouterr()
    assert cli.main([*map(str, arguments), "--json"]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def finetuned(place, name, workdir, capsys):
    command = ("finetune", place / f"{name}.csv", "--workdir", workdir)
    (planned,) = [line for line in run(capsys, *command, "--model", place / "tiny.keras", "--plan") if "epochs" in line]
    recipe = (workdir / "recipe.py").read_text()
    (workdir / "recipe.py").write_text(recipe.replace(f"epochs={planned['epochs']}", "epochs=2"))
    return planned, run(capsys, *command, "--formats", "saved_model")[-1]


def test_several_labels_in_one_command(place, tmp_path, capsys):
    workdir = tmp_path / "run"
    planned, result = finetuned(place, "several", workdir, capsys)
    assert planned["targets"] == "several" and {"mean_average_precision", "f1", "micro_f1"} <= set(result)
    report = json.loads((workdir / "report" / "analysis.json").read_text())["several"]
    assert [row["label"] for row in report["labels"]] == list(LABELS)
    known = [row["average_precision"] for row in report["labels"] if row["images"]]
    assert np.mean(known) == pytest.approx(result["mean_average_precision"], abs=1e-4)
    page = (workdir / "report" / "index.html").read_text()
    assert "Labels and mistakes" in page and (workdir / "report" / "labels.png").is_file()
    manifest = json.loads((workdir / "export" / "1" / "manifest.json").read_text())
    assert len(manifest["thresholds"]) == 3
    for data in ("split", workdir / "splits.csv"):
        (found,) = run(capsys, "evaluate", workdir, "--data", data, "--output", tmp_path / "evaluation")
        assert found["mean_average_precision"]["value"] == pytest.approx(result["mean_average_precision"], abs=1e-4)
        assert found["f1"]["value"] == pytest.approx(result["f1"], abs=1e-4) and found["images"] == 9
    assert (tmp_path / "evaluation" / "report.html").read_text().count("<img") > 1
    again = tmp_path / "export"
    run(capsys, "export", workdir, "--output", again, "--formats", "saved_model", "--results",
        tmp_path / "evaluation" / "results.json")  # fmt: skip
    assert "| mean average precision |" in (again / "1" / "model_card.md").read_text()
    (same,) = run(capsys, "compare", workdir, again, "--data", workdir / "splits.csv")
    assert same["agreement"] == 1.0 and same["change"]["value"] == pytest.approx(0, abs=1e-4)


def test_numbers_in_one_command_without_an_option(place, tmp_path, capsys):
    workdir = tmp_path / "run"
    planned, result = finetuned(place, "numbers", workdir, capsys)
    assert planned["targets"] == "numbers" and {"mae_left", "rmse_top", "r2"} <= set(result)
    report = json.loads((workdir / "report" / "analysis.json").read_text())["values"]
    assert report["targets"][0]["mae"] == pytest.approx(result["mae_left"], rel=1e-3)
    (found,) = run(capsys, "evaluate", workdir, "--data", "split", "--output", tmp_path / "evaluation")
    assert found["targets"][1]["mae"]["value"] == pytest.approx(result["mae_top"], rel=1e-3)
    (same,) = run(capsys, "compare", workdir, workdir / "export", "--data", workdir / "splits.csv")
    assert [row["change"]["value"] for row in same["targets"]] == pytest.approx([0, 0], abs=1e-3)
