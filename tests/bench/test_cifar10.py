"""The table and the picture of benchmarks/cifar10.py, of made-up runs."""

import json
import statistics
import types

import pytest

from benchmarks import cifar10


def write_run(runs, recipe, seed, accuracies, seconds):
    """A run's folder: three epochs of ten steps, tests after the second and the third."""
    folder = runs / f"{recipe}-{seed}"
    folder.mkdir(parents=True, exist_ok=True)
    rows = [(10 * epoch, "train", "seconds", epoch * seconds / 3) for epoch in (1, 2, 3)]
    rows += [(10 * epoch, "test", "accuracy", value) for epoch, value in zip((2, 3), accuracies, strict=True)]
    names = ("step", "split", "name", "value")
    lines = [json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in rows]
    (folder / "metrics.jsonl").write_text("".join(lines))
    (folder / "recipe.json").write_text(json.dumps({"name": recipe, "seed": seed}))
    summary = {"accuracy": accuracies[-1], "seconds": seconds, "images_per_second": 600.0, "epochs": 3, "replicas": 1}
    (folder / "summary.json").write_text(json.dumps(summary))


def folders(runs):
    """The options of a folder that holds both the runs and the record."""
    return ["--runs", str(runs), "--output", str(runs)]


@pytest.fixture
def runs(tmp_path):
    for seed, last in enumerate((0.8, 0.82, 0.84)):
        write_run(tmp_path, "plain", seed, (0.72, last), 1800 + 60 * seed)
    write_run(tmp_path, "slow", 0, (0.5, 0.7), 3600)
    (tmp_path / "plain-3").mkdir()  # begun, not finished
    return tmp_path


def test_a_table_of_mean_deviation_and_minutes_by_recipe(runs, capsys):
    arguments = ["--read", "--recipes", "slow,plain", "--seeds", "2,0,1,3", *folders(runs)]
    assert cifar10.main(arguments) is None and "wrote" in capsys.readouterr().out
    plain, slow = (runs / "cifar10.md").read_text().splitlines()[-2:]
    assert slow == "| `slow` | 3 | 1 | 70.00 | 70.00 | 60.0 | 600 | – |"
    spread = statistics.stdev((80, 82, 84))
    assert plain == f"| `plain` | 3 | 3 | 82.00 ± {spread:.2f} | 80.00, 82.00, 84.00 | 31.0 | 600 | 20.7 |"
    assert (runs / "cifar10.png").read_bytes().startswith(b"\x89PNG")


def test_runs_join_those_of_before_and_other_machines(runs, monkeypatch, tmp_path):
    drawn = []
    monkeypatch.setattr(cifar10, "draw", lambda some, path: drawn.append({(run.recipe, run.seed) for run in some}))

    def made(machine, recipes, seeds):
        arguments = ["--read", "--recipes", recipes, "--seeds", seeds, *folders(runs), "--machine", machine]
        assert cifar10.main(arguments) is None
        return (runs / "cifar10.md").read_text()

    made("one", "slow", "0")
    made("two", "plain", "0,1")
    write_run(tmp_path / "new", "plain", 1, (0.7, 0.9), 60)
    for name in ("summary.json", "metrics.jsonl"):  # trained anew
        (tmp_path / "new" / "plain-1" / name).replace(runs / "plain-1" / name)
    text = made("two", "plain", "1,2")
    places = [text.index(part) for part in ("## one", "| `slow` | 3 | 1 |", "## two", "| `plain` | 3 | 3 |")]
    assert places == sorted(places)
    assert "80.00, 90.00, 84.00" in text and drawn[-1] == {("slow", 0), *(("plain", seed) for seed in range(3))}
    found = [cifar10.Run(**fields) for fields in json.loads((runs / "cifar10.json").read_text())]
    assert [(run.machine, run.seed) for run in found] == [("one", 0), ("two", 0), ("two", 1), ("two", 2)]
    assert found[2].minutes[-1] == 1.0 and found[2].accuracies[-1] == 90.0


def test_the_picture_has_a_panel_a_machine(runs):
    found = [cifar10.read_run(runs / name, [], machine) for name, machine in (("slow-0", "one"), ("plain-0", "two"))]
    one, two = cifar10.draw(found, runs / "a.png").axes
    assert (one.get_title("left"), two.get_title("left")) == ("one", "two")
    assert one.lines[0].get_color() != two.lines[0].get_color()
    assert list(two.lines[0].get_ydata()) == [72, 80]
    later = cifar10.Run("two", "late", 0, found[1].summary, (100.0,), (90.0,))
    assert all(axes.get_xlim()[1] > 100 for axes in cifar10.draw([*found, later], runs / "b.png").axes)


def test_the_picture_has_a_line_a_run_and_a_colour_a_recipe(runs):
    found = [cifar10.read_run(runs / name, [], "this") for name in ("plain-1", "plain-0", "slow-0")]
    assert cifar10.read_run(runs / "plain-3", [], "this") is None
    (axes,) = cifar10.draw(found, runs / "a.png").axes
    zero, one, slow, student = axes.lines
    assert zero.get_color() == one.get_color() != slow.get_color()
    assert list(zero.get_xdata()) == pytest.approx([20, 30]) and list(zero.get_ydata()) == [72, 80]
    assert student.get_xydata().tolist() == [[33, 71]]
    assert [text.get_text() for text in axes.get_legend().get_texts()][:2] == ["plain", "slow"]


def test_a_machine_has_the_runs_that_it_trained_and_no_others(runs, monkeypatch):
    monkeypatch.setattr(cifar10, "draw", lambda *_: None)
    monkeypatch.setattr(cifar10, "train", lambda recipe, seed, *_: write_run(runs, recipe, seed, (0.5, 0.6), 60))

    def machines(here, *arguments):
        monkeypatch.setattr(cifar10, "in_words", lambda: f"{here}; its system")
        assert cifar10.main([*folders(runs), "--recipes", "plain", *arguments]) is None
        found = cifar10.recorded(runs / "cifar10.json")
        return {run.seed: run.machine for run in sorted(found, key=lambda run: run.seed)}

    known = {0: "told", 1: "told"}
    assert machines("here", "--read", "--seeds", "0,1", "--machine", "told") == known
    known |= {2: "unknown machine"}
    assert machines("here", "--read", "--seeds", "0,1,2") == known  # those of before keep theirs
    known |= {2: "told later"}
    assert machines("here", "--read", "--seeds", "0,1,2", "--machine", "told later") == known
    for seed in (5, 6):  # begun, nobody knows where
        (runs / f"plain-{seed}").mkdir()
        (runs / f"plain-{seed}/recipe.json").touch()
    cifar10.note_machine(runs / "plain-5", "here")
    known |= {4: "there", 5: "unknown machine, then here, then there", 6: "unknown machine, then there"}
    assert machines("there", "--data-dir", "there", "--seeds", "0,1,2,4,5,6") == known
    assert machines("elsewhere", "--read", "--seeds", "0,1,2,4,5,6") == known


def test_only_what_is_not_finished_is_trained(runs, monkeypatch):
    trained = []
    run = types.SimpleNamespace(run=lambda command, **_: trained.append(command))
    monkeypatch.setattr(cifar10, "subprocess", run)
    arguments = ["--recipes", "plain", "--seeds", "0,3", *folders(runs), "--data-dir", "there"]
    assert cifar10.main(arguments) is None
    (command,) = trained
    assert command[3:5] == ["train", "recipes/plain.py"] and command[6] == str(runs / "plain-3") and "seed=3" in command
    settings = ["--set", "epochs=3", "--set", "precision=float32"]
    assert "expected finished runs" in cifar10.main([*arguments, *settings])
    name = "plain with epochs=3, precision=float32"
    for command, seed in zip(trained[1:], (0, 3), strict=True):
        assert command[6] == str(runs / f"{name}-{seed}") and command[-3:] == [*name[11:].split(", "), f"name={name}"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [([], "expected --data-dir, the folder of TFDS's datasets, or --read"), (["--read"], "expected finished runs in")],
)
def test_mistakes_get_one_sentence(tmp_path, arguments, sentence):
    assert sentence in cifar10.main([*arguments, *folders(tmp_path)]) and not list(tmp_path.iterdir())
