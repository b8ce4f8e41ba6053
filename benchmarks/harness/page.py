"""The Markdown page of a run's JSON."""

from benchmarks.harness.machine import in_words
from benchmarks.harness.results import fastest_pair, ratio


def page(result: dict) -> str:
    """The Markdown beside a run's JSON."""
    return "\n".join([f"# Benchmark of {result['date']}", "", *_header(result), "", "## Overview", "",
                      overview(result), *(question_table(question) for question in result["questions"]),
                      *growth(result["questions"])])  # fmt: skip


def overview(result: dict) -> str:
    """One line a question: the fastest of ours beside the fastest peer."""
    lines = ["| | ours | fastest peer | ours / it | share of the matmul rate | memory, GB, ours / it |",
             "|---|---:|---|---:|---:|---:|"]  # fmt: skip
    for question in result["questions"]:
        ours, peer = fastest_pair(question["rows"])
        times, share = ratio(ours, peer), ours and ours["share_of_matmul"]
        cells = [
            question["title"],
            f"{_speed(ours, question)} ({ours['name'].removeprefix('keras_vit ')})" if ours else "–",
            f"{_speed(peer, question)} ({peer['name']})" if peer else "–",
            times_in_words(*times) if times else "–",
            f"{share:.0%}" if share else "–",
            " / ".join(_gigabytes(row) if row else "–" for row in (ours, peer)),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def question_table(question: dict) -> str:
    """All contestants of a question."""
    unit, reach = ("ms", 1000.0) if question["batch"] == 1 else ("images/s", None)
    rate = question["matmul_flops_per_second"]
    about = f"{question['flops_per_image'] / 1e9:.4g} GFLOP an image"
    about += f"; the machine multiplies at {rate / 1e12:.3g} TFLOP/s" if rate else ""
    lines = [f"## {question['title']}", "", f"{about}.", "",
             f"| | {unit}, median | min – max | first / it | share of the matmul rate | peak memory, GB "
             "| first call, s | import and build, s |", "|---|---:|---:|---:|---:|---:|---:|---:|"]  # fmt: skip
    for row in question["rows"]:
        speed = row["images_per_second"]
        order = ("median", "max", "min") if reach else ("median", "min", "max")
        middle, low, high = (reach / speed[name] if reach else speed[name] for name in order)
        times, share = row["first_over_it"], row["share_of_matmul"]
        cells = [row["name"], f"{middle:.4g}", f"{low:.4g} – {high:.4g}"]
        cells += [times_in_words(times, row["first_over_it_range"], row["together_with_first"]) if times else "–"]
        cells += [f"{share:.0%}" if share else "–", _gigabytes(row)]
        cells += [f"{row['first_call_seconds']:.1f}", f"{row['prepare_seconds']:.1f}"]
        lines.append(f"| {' | '.join(cells)} |")
    lines += [""] + [f"- Left out: {name}: {reason}." for name, reason in question["left_out"].items()]
    return "\n".join(lines).rstrip("\n") + "\n"


_TOGETHER = "On the GPU processes start many at once: their first calls are timed while others compile."
_TENSOR_FLOAT = "On the GPU products in float32 are made in TensorFloat-32, by all libraries."


def _header(result) -> list[str]:
    """The hardware, and what has to be said of the figures, as a list."""
    cores = result["machine"]["cores"]
    on_gpu = {question["precision"] for question in result["questions"] if question["device"] == "gpu"}
    rounds = sorted({part["rounds"] for part in result["settings"]})
    loads = [("before the run", result["machine"]["load"])]
    loads += [(f"when it was resumed on {part['date']}", part["load"]) for part in result["resumed"]]
    command = result.get("command")  # a run of before has none
    lines = [
        *([f"Made by `{command}`."] if command else []),
        *result["notes"],
        f"Each contestant has a process of its own; at most {result['most_processes']} were alive at once, and they "
        f"took {' or '.join(map(str, rounds))} turns each, one at a time. Memory is the process's peak, on a GPU the "
        "device's.",
        "`first / it`, and `ours / it`: how many times as fast the first is, the median of the rounds and their range, "
        "each round by the median call of the turns that both took in it; what shared no round is compared by way of "
        "the first row. `apart`: nor was there a round with that row, for want of memory; each turn of one is divided "
        "by each of the other, and, since the machine's speed drifts, multiplied by the matmul's rate beside the one "
        "over that beside the other, where both are known and no row comes out above 100 % of it.",
        "`mixed_bfloat16`: float32 weights, products in bfloat16 (torch: autocast); `bfloat16`: the weights are stored "
        "in it.",
        *([_TOGETHER] if on_gpu else []),
        *([_TENSOR_FLOAT] if "float32" in on_gpu else []),
        "The matmul rate is the fastest library's, of two square matrices, measured in turn with the contestants; a "
        "row's share of it is the median of the rounds, and counts the model's operations as published: ours on the "
        "class token leaves some of its last block's out, a twelfth of B/16's.",
    ]
    for when, load in loads if loads[0][1] is not None else ():
        busy = ": other work ran on the machine; read the ratios, not the figures" if load > 0.5 * cores else ""
        lines.append(f"Load average {when}: {load:.2f} on {cores} cores{busy}.")
    for rate in result["matmul"]:
        all_of = ", ".join(f"{name} {value / 1e12:.3g}" for name, value in rate["flops_per_second"].items())
        device = rate["device"].upper()
        lines.append(f"Square matmul on the {device} in {rate['precision']}, TFLOP/s: {all_of or 'none'}.")
    if not result["complete"]:
        lines.append("**Interrupted**: what follows is what had been measured by then.")
    return [f"{in_words(result['machine'])}.", "", *(f"- {line}" for line in lines)]


def growth(questions: list[dict]) -> list[str]:
    """A table for each axis (image size, batch, depth) along which there are questions that are alike in all else."""
    found = []
    for axis, label in (("image_size", "image size, px"), ("batch", "batch"), ("depth", "encoder blocks")):
        rest = [name for name in ("model", "task", "precision", "image_size", "batch", "depth") if name != axis]
        for key in dict.fromkeys(tuple(question[name] for name in rest) for question in questions):
            line = [question for question in questions if tuple(question[name] for name in rest) == key]
            line = sorted(line, key=lambda question: question[axis] or question["blocks"] or 0)
            if len(line) > 1:
                found.append(_growth_table(line, axis, label))
    return found


def _growth_table(line, axis, label) -> str:
    values = [question[axis] or question["blocks"] for question in line]
    first = line[0]
    about = [first["model"], first["task"], first["precision"]]
    about += [f"{first[name]} px" if name == "image_size" else f"{name} {first[name]}"
              for name in ("image_size", "batch") if name != axis]  # fmt: skip
    flops = [f"{question['flops_per_image'] / 1e9:.4g}" for question in line]
    title = f"## Growth with {label}: {', '.join(about)}"
    lines = [title, "", f"| images/s | {' | '.join(map(str, values))} |", f"|---|{'---:|' * len(values)}"]
    lines.append(f"| GFLOP an image | {' | '.join(flops)} |")
    for name in dict.fromkeys(row["name"] for question in line for row in question["rows"]):
        cells = []
        for question in line:
            own = [row for row in question["rows"] if row["name"] == name]
            cells.append(f"{own[0]['images_per_second']['median']:.4g}" if own else "–")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def times_in_words(times, limits, together) -> str:
    """A ratio, its range where it has one, and whether it is of rows that shared no round."""
    low, high = limits
    more = [f"{low:.2f} – {high:.2f}"] if low < high else []
    more += [] if together else ["apart"]
    return f"{times:.2f}" + (f" ({'; '.join(more)})" if more else "")


def _speed(row, question) -> str:
    speed = row["images_per_second"]["median"]
    return f"{1000 / speed:.4g} ms" if question["batch"] == 1 else f"{speed:.4g} images/s"


def _gigabytes(row) -> str:
    return f"{row['peak_bytes'] / 1e9:.2f}"
