"""Write the results of a suite as a Markdown table, next to the paper's results."""

from keras_vit.cost.published import Published, published
from keras_vit.evaluate.transfer import FEW_SHOT, IMAGENETS, PAPER, VTAB1K

GROUPS = ("natural", "specialized", "structured")


def suite_table(results: dict) -> str:
    """Return the table of the results of `run_suite`: accuracies in percent, a dash for a missing one."""
    draw = {"vtab1k": _vtab, "paper": _paper, "fewshot": _few_shot, "real": _imagenets}[results["suite"]]
    lines = [*draw(results), ""]
    lines += [f"- {name}: not measured. {reason}" for name, reason in results["missing"].items()]
    return "\n".join(lines).rstrip() + "\n"


def _vtab(results) -> list[str]:
    """Return a line per task, group means and the mean, next to Table 9. Partial means state their task count."""
    rows = published(9)
    accuracies = _accuracies(results)
    lines = _begin(["task", "group", f"this model, {results['how']}", *(row.label for row in rows)])
    lines += [
        _row(
            [
                task.title,
                task.group,
                _percent(accuracies.get(task.name)),
                *(f"{row.scores[task.name]:.1f}" for row in rows),
            ]
        )
        for task in VTAB1K
    ]
    for group in (*GROUPS, "all"):
        names = [task.name for task in VTAB1K if group in (task.group, "all")]
        done = [accuracies[name] for name in names if name in accuracies]
        ours = _percent(_mean(done)) + (f" ({len(done)} of {len(names)} tasks)" if len(done) < len(names) else "")
        theirs = (_mean(row.scores[name] for name in names) for row in rows)
        lines.append(_row([f"**mean, {group}**", "", ours, *(f"{value:.1f}" for value in theirs)]))
    return [*lines, "", "Published: arXiv 2010.11929, Table 9. Its group means are computed here from its tasks."]


def _paper(results) -> list[str]:
    return _compared([task.name for task in PAPER], [task.title for task in PAPER], results)


def _imagenets(results) -> list[str]:
    tasks = results["tasks"]
    lines = _begin(["data set", "top-1", "top-5", "calibration error", "images", "classes"])
    for name, title, _, _, subset in IMAGENETS:
        scores = tasks.get(name, {})
        cells = [_percent(scores.get(key)) for key in ("accuracy", "top5", "calibration")]
        classes = scores.get("classes", "–") if subset else 1000
        lines.append(_row([title, *cells, f"{scores['examples']:,}" if scores else "–", str(classes)]))
    return [*lines, "", *_compared(["imagenet", "real"], ["ImageNet", "ImageNet ReaL"], results)]


def _accuracies(results) -> dict[str, float]:
    return {name: scores["accuracy"] for name, scores in results["tasks"].items()}


def _compared(names, titles, results) -> list[str]:
    """Return our row, then the same model's rows of Tables 2, 5 and 6, or all of Table 2."""
    accuracies = _accuracies(results)
    rows = [row for table in (2, 5, 6) for row in published(table) if row.model == results["paper_name"]]
    lines = _begin(["", *titles])
    lines.append(_row([f"this model, {results['how']}", *(_percent(accuracies.get(name)) for name in names)]))
    lines += [_row([_named(row), *(_published(row, name) for name in names)]) for row in rows or published(2)]
    return [*lines, "", "Published: arXiv 2010.11929, Tables 2, 5 and 6, after fine-tuning at 384 to 518 pixels."]


def _few_shot(results) -> list[str]:
    shots = [str(count) for count in results["settings"]["shots"]]
    lines = _begin(["data set", *(f"{count} per class" for count in shots)])
    for name, *_ in FEW_SHOT:
        scores = results["tasks"].get(name, {"shots": {}})["shots"]
        cells = (
            f"{_percent(x['accuracy'])} ± {100 * x['deviation']:.1f}" if (x := scores.get(n)) else "–" for n in shots
        )
        lines.append(_row([name, *cells]))
    done = [scores["shots"] for scores in results["tasks"].values()]
    if done:
        cells = (_percent(_mean(scores[count]["accuracy"] for scores in done)) for count in shots)
        lines.append(_row([f"**mean of {len(done)} of {len(FEW_SHOT)}**", *cells]))
    note = "Mean and standard deviation over three samples. The paper plots these accuracies (Figures 3 and 4)."
    return [*lines, "", f"{note} It states one: 64.2 for ViT-B/16 on ImageNet with 5 per class (Table 8)."]


def _named(row: Published) -> str:
    return f"{row.label}, Table {row.table}"


def _published(row: Published, name: str) -> str:
    if name not in row.scores:
        return "–"
    return f"{row.scores[name]:.2f}" + (f" ± {row.deviations[name]:.2f}" if name in row.deviations else "")


def _percent(fraction: float | None) -> str:
    return "–" if fraction is None else f"{100 * fraction:.2f}"


def _mean(values) -> float | None:
    values = list(values)
    return sum(values) / len(values) if values else None


def _begin(cells) -> list[str]:
    return [_row(cells), "|" + "---|" * len(cells)]


def _row(cells) -> str:
    return f"| {' | '.join(map(str, cells))} |"
