"""Markdown of a contest between functions."""

import statistics


def table(title: str, seconds: dict[str, list[float]], ours: str, figure, unit: str) -> str:
    """Median, minimum and maximum of a figure of each contestant, and ours as a multiple of its median.

    Args:
        title: of the table.
        seconds: of each call, by contestant.
        ours: the contestant that the others are compared with.
        figure: seconds -> what is shown.
        unit: of it.
    """
    lines = [f"### {title}", "", f"| | {unit}, median | min – max | ours / it |", "|---|---:|---:|---:|"]
    for name, values in seconds.items():
        found = sorted(figure(value) for value in values)
        times = figure(statistics.median(seconds[ours])) / figure(statistics.median(values)) if ours in seconds else 0
        last = f"{times:.2f}" if times else "–"
        lines.append(f"| {name} | {statistics.median(found):.4g} | {found[0]:.4g} – {found[-1]:.4g} | {last} |")
    return "\n".join(lines) + "\n"
