"""The results of a suite in Markdown, the paper's published rows beside them."""

from keras_vit.cost.published import Published, published
from keras_vit.evaluate.transfer import FEW_SHOT, IMAGENETS, PAPER, VTAB1K

GROUPS = ("natural", "specialized", "structured")


def suite_table(results: dict) -> str:
    """The table of what `run_suite` gave: accuracies in percent, a dash where there is none."""
    draw = {"vtab1k": _vtab, "paper": _paper, "fewshot": _few_shot, "real": _imagenets}[results["suite"]]
    lines = [*draw(results), ""]
    lines += [f"- {name}: not measured. {reason}" for name, reason in results["missing"].items()]
    return "\n".join(lines).rstrip() + "\n"


def _vtab(results) -> list[str]:
    """A line a task, group means and the mean, beside Table 9; our means say of how many tasks they are."""
    tasks, rows = results["tasks"], published(9)
    own = {name: found["accuracy"] for name, found in tasks.items()}
    lines = _begin(["task", "group", f"this model, {results['how']}", *(row.label for row in rows)])
    lines += [
        _row([task.title, task.group, _percent(own.get(task.name)), *(f"{row.scores[task.name]:.1f}" for row in rows)])
        for task in VTAB1K
    ]
    for group in (*GROUPS, "all"):
        names = [task.name for task in VTAB1K if group in (task.group, "all")]
        done = [own[name] for name in names if name in own]
        ours = _percent(_mean(done)) + (f" ({len(done)} of {len(names)} tasks)" if len(done) < len(names) else "")
        theirs = (_mean(row.scores[name] for name in names) for row in rows)
        lines.append(_row([f"**mean, {group}**", "", ours, *(f"{value:.1f}" for value in theirs)]))
    return [*lines, "", "Published: arXiv 2010.11929, Table 9; its group means are taken here, of its tasks."]


def _paper(results) -> list[str]:
    own = {name: found["accuracy"] for name, found in results["tasks"].items()}
    return _beside([task.name for task in PAPER], [task.title for task in PAPER], own, results)


def _imagenets(results) -> list[str]:
    tasks = results["tasks"]
    lines = _begin(["data set", "top-1", "top-5", "calibration error", "images", "classes"])
    for name, title, _, _, some in IMAGENETS:
        found = tasks.get(name, {})
        cells = [_percent(found.get(key)) for key in ("accuracy", "top5", "calibration")]
        classes = found.get("classes", "–") if some else 1000
        lines.append(_row([title, *cells, f"{found['examples']:,}" if found else "–", str(classes)]))
    own = {name: found["accuracy"] for name, found in tasks.items()}
    return [*lines, "", *_beside(["imagenet", "real"], ["ImageNet", "ImageNet ReaL"], own, results)]


def _beside(names, titles, own, results) -> list[str]:
    """Our row above those of the same model in Tables 2, 5 and 6, or above all of Table 2."""
    rows = [row for table in (2, 5, 6) for row in published(table) if row.model == results["paper_name"]]
    lines = _begin(["", *titles])
    lines.append(_row([f"this model, {results['how']}", *(_percent(own.get(name)) for name in names)]))
    lines += [_row([_named(row), *(_published(row, name) for name in names)]) for row in rows or published(2)]
    return [*lines, "", "Published: arXiv 2010.11929, Tables 2, 5 and 6, after fine-tuning at 384 to 518 pixels."]


def _few_shot(results) -> list[str]:
    shots = [str(count) for count in results["settings"]["shots"]]
    lines = _begin(["data set", *(f"{count} a class" for count in shots)])
    for name, *_ in FEW_SHOT:
        found = results["tasks"].get(name, {"shots": {}})["shots"]
        cells = (
            f"{_percent(x['accuracy'])} ± {100 * x['deviation']:.1f}" if (x := found.get(n)) else "–" for n in shots
        )
        lines.append(_row([name, *cells]))
    done = [found["shots"] for found in results["tasks"].values()]
    if done:
        cells = (_percent(_mean(found[count]["accuracy"] for found in done)) for count in shots)
        lines.append(_row([f"**mean of {len(done)} of {len(FEW_SHOT)}**", *cells]))
    note = "Mean and standard deviation over three draws. The paper has these numbers in its figures alone (3 and 4)"
    return [*lines, "", f"{note}, but for ViT-B/16 on ImageNet with 5 a class: 64.2 (Table 8)."]


def _spread(found: dict | None) -> str:
    return "–" if found is None else f"{_percent(found['accuracy'])} ± {100 * found['deviation']:.1f}"


def _named(row: Published) -> str:
    return f"{row.label}, Table {row.table}"


def _published(row: Published, name: str) -> str:
    if name not in row.scores:
        return "–"
    return f"{row.scores[name]:.2f}" + (f" ± {row.deviations[name]:.2f}" if name in row.deviations else "")


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.2f}"


def _mean(shares) -> float | None:
    shares = list(shares)
    return sum(shares) / len(shares) if shares else None


def _begin(cells) -> list[str]:
    return [_row(cells), "|" + "---|" * len(cells)]


def _row(cells) -> str:
    return f"| {' | '.join(map(str, cells))} |"
