import json

import numpy as np
import pytest
from matplotlib import colors
from matplotlib.image import imread

from keras_vit import analysis


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def row(step, split, name, value):
    return {"step": step, "split": split, "name": name, "value": value}


def a_run(steps=200):
    rng = np.random.default_rng(0)
    rows = []
    for step in range(1, steps + 1):
        rows.append(row(step, "train", "loss", 2.3 * np.exp(-step / 60) * rng.uniform(0.5, 1.5)))
        rows.append(row(step, "train", "accuracy", 1 - 0.9 * np.exp(-step / 60)))
        rows.append(row(step, "train", "learning_rate", 1e-3 * step / steps))
        if step % 50 == 0:
            rows.append(row(step, "test", "loss", 2.3 * np.exp(-step / 60) + 0.1))
            rows.append(row(step, "test", "accuracy", 0.974 - 1 / step))
    return rows


def texts(figure):
    return [text.get_text() for axes in figure.axes for text in axes.texts]


def titles(figure):
    return [axes.get_title(loc="left") for axes in figure.axes]


def test_the_training_picture_shows_every_curve_with_its_final_value(tmp_path):
    output = tmp_path / "new" / "training.png"
    figure = analysis.plot_training(write(tmp_path / "metrics.jsonl", a_run()), output)
    pixels = imread(output)
    assert pixels.shape[:2] == (855, 1575)
    assert pixels[..., :3].std() > 0.05
    assert figure.get_suptitle() == "Test accuracy 96.9 % after 200 steps"
    assert titles(figure) == ["loss, log scale", "accuracy, %", "learning rate"]
    assert [axes.get_xlabel() for axes in figure.axes] == ["training step"] * 3
    assert "test 96.9 %" in texts(figure) and "train 96.8 %" in texts(figure)
    assert "0.001" in texts(figure)
    assert [text.get_text() for text in figure.texts][1:] == [
        "thin: every record; thick: mean over a twentieth of the run"
    ]
    _, accuracy, rate = figure.axes
    np.testing.assert_allclose(accuracy.lines[1].get_ydata()[-1], 96.9)
    np.testing.assert_allclose(rate.lines[0].get_ydata(), 1e-3 * np.arange(1, 201) / 200)
    assert accuracy.lines[0].get_color() != accuracy.lines[1].get_color()


def test_the_headline_says_how_long_it_took(tmp_path):
    for seconds, said in ((90.4, "90 seconds"), (1624, "27 minutes")):
        rows = [row(step, "train", name, step * seconds / 2) for step in (1, 2) for name in ("loss", "seconds")]
        figure = analysis.plot_training(write(tmp_path / "metrics.jsonl", rows), tmp_path / "a.png")
        assert figure.get_suptitle() == f"Training, 2 steps, {said}" and titles(figure) == ["loss"]


def test_the_headline_says_at_which_step_the_last_accuracy_was_measured(tmp_path):
    rows = [*a_run(), row(210, "train", "loss", 0.1), row(210, "test", "accuracy", float("nan"))]
    figure = analysis.plot_training(write(tmp_path / "metrics.jsonl", rows), tmp_path / "a.png")
    assert figure.get_suptitle() == "Test accuracy 96.9 % at step 200, so far 210 steps"


def test_the_thick_line_is_the_running_mean_of_the_thin_one(tmp_path):
    figure = analysis.plot_training(write(tmp_path / "metrics.jsonl", a_run()), tmp_path / "a.png")
    thin, thick = figure.axes[0].lines[:2]
    assert thin.get_linewidth() < thick.get_linewidth()
    raw = thin.get_ydata()
    np.testing.assert_allclose(thick.get_ydata()[100], raw[95:106].mean())
    np.testing.assert_allclose(thick.get_ydata()[[0, -1]], [raw[:6].mean(), raw[-6:].mean()])
    np.testing.assert_array_equal(thick.get_xdata(), np.arange(1, 201))


def test_a_loss_over_decades_has_a_logarithmic_axis(tmp_path):
    rows = [row(step, "train", "loss", 10.0**-step) for step in range(4)]
    figure = analysis.plot_training(write(tmp_path / "metrics.jsonl", rows), tmp_path / "a.png")
    assert figure.axes[0].get_yscale() == "log"
    assert titles(figure) == ["loss, log scale"]
    assert figure.get_suptitle() == "Training, 3 steps"


def test_labels_of_curves_that_end_together_do_not_overlap(tmp_path):
    rows = [row(step, split, "loss", 1 / step) for step in (1, 2) for split in ("train", "test", "validation")]
    figure = analysis.plot_training(write(tmp_path / "metrics.jsonl", rows), tmp_path / "a.png")
    boxes = sorted((text.get_window_extent() for text in figure.axes[0].texts), key=lambda box: box.y0)
    assert len(boxes) == 3
    assert all(below.y1 <= above.y0 for below, above in zip(boxes, boxes[1:], strict=False))


def test_names_and_splits_of_any_kind_are_drawn(tmp_path):
    names = ["grad_norm", "images_per_second", "weight_decay", "accuracy_top5"]
    rows = [row(step, split, name, float(step)) for step in (1, 2, 3) for name in names for split in ("a", "b")]
    figure = analysis.plot_training(write(tmp_path / "metrics.jsonl", rows), tmp_path / "a.png")
    assert titles(figure) == ["grad norm", "images per second", "weight decay", "accuracy top5"]
    assert {len(axes.lines) for axes in figure.axes} == {2}
    assert len({colors.to_hex(line.get_color()) for line in figure.axes[0].lines}) == 2


def test_metrics_are_sorted_and_a_step_written_twice_counts_once(tmp_path):
    rows = [row(2, "train", "loss", 5), row(1, "train", "loss", 3), row(2, "train", "loss", 4)]
    rows.append(row(3, "train", "loss", float("nan")))
    curves = analysis.read_metrics(write(tmp_path / "metrics.jsonl", rows))
    steps, values = curves["loss"]["train"]
    assert steps.tolist() == [1, 2] and values.tolist() == [3, 4]


def test_an_incomplete_last_line_is_skipped(tmp_path):
    path = write(tmp_path / "metrics.jsonl", [row(1, "train", "loss", 3)])
    path.write_text(path.read_text() + '{"step": 2, "spl')
    assert analysis.read_metrics(path)["loss"]["train"][0].tolist() == [1]


@pytest.mark.parametrize(
    "line", ["hello", "[1]", '{"step": 1}', '{"step": 1, "split": "a", "name": "b", "value": null}']
)
def test_a_line_of_another_form_raises_an_error(tmp_path, line):
    path = tmp_path / "metrics.jsonl"
    path.write_text(json.dumps(row(1, "train", "loss", 3)) + "\n" + line + "\n")
    with pytest.raises(ValueError, match="metrics_path expected step, split, name and value .* in line 2 of"):
        analysis.plot_training(path, tmp_path / "a.png")


def test_a_missing_or_empty_file_raises_an_error(tmp_path):
    with pytest.raises(FileNotFoundError, match="found no file at"):
        analysis.plot_training(tmp_path / "none.jsonl", tmp_path / "a.png")
    (tmp_path / "empty.jsonl").write_text("\n")
    with pytest.raises(ValueError, match="expected lines of metrics, found none in"):
        analysis.plot_training(tmp_path / "empty.jsonl", tmp_path / "a.png")
    assert not (tmp_path / "a.png").exists()
