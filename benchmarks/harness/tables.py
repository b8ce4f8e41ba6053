"""Markdown of a contest between functions."""

import statistics


def table(
    title: str,
    seconds: dict[str, list[float]],
    ours: str,
    figure,
    unit: str,
    more: dict[str, dict[str, str]] | None = None,
) -> str:
    """A figure of each contestant's median, shortest and longest call, and ours as a multiple of its median.

    Args:
        title: of the table.
        seconds: of each call, by contestant.
        ours: the contestant that the others are compared with.
        figure: seconds -> what is shown.
        unit: of it.
        more: columns behind these: {title: {contestant: what is shown}}.
    """
    more = more or {}
    lines = [f"### {title}", "", f"| | {' | '.join([f'{unit}, median', 'min – max', 'ours / it', *more])} |",
             f"|---{'|---:' * (3 + len(more))}|"]  # fmt: skip
    for name, values in seconds.items():
        found = sorted(figure(value) for value in values)
        median = figure(statistics.median(values))
        times = figure(statistics.median(seconds[ours])) / median if ours in seconds else 0
        cells = [
            f"{median:.4g}",
            f"{found[0]:.4g} – {found[-1]:.4g}",
            f"{times:.2f}" if times else "–",
        ]
        cells += [column.get(name, "–") for column in more.values()]
        lines.append(f"| {' | '.join([name, *cells])} |")
    return "\n".join(lines) + "\n"
