"""Write the overview of a run of `keras-vit bench`, and the tables of call_tables.py, into docs/performance.md.

    python -m benchmarks.performance_page [benchmarks/results/bench-DATE.json]

Without a name the overview is that of the newest complete run of the preset `targets`. tests/test_docs.py compares
the page with the runs.
"""

import argparse
import json
import re
import sys
from pathlib import Path

from benchmarks import call_tables, goals
from benchmarks.harness.arguments import json_with
from benchmarks.harness.machine import in_words
from benchmarks.harness.page import overview

ROOT = Path(__file__).parent.parent
NO_GPU = "No GPU was measured in this run; [goals.md](../benchmarks/goals.md) has the newest results on one."
RATIOS = "`ours / it` is the median over the rounds, with the lowest and the highest round."
APART = (
    "`apart`: both did not fit into memory together, so one was measured after the other. That ratio is corrected by "
    "the machine's matmul rate at each time."
)
TABLES = {"ways": call_tables.ways_table, "models": call_tables.models_table, "gpu": call_tables.gpu_table}


def marked(name: str) -> re.Pattern:
    """Return the pattern of the text between the markers of a name."""
    return re.compile(rf"(?<=<!-- {name} -->\n).*?(?=<!-- /{name} -->)", re.DOTALL)


def block(result: dict, name: str) -> str:
    """Return the Markdown between the markers.

    Args:
        result: the run's JSON.
        name: of the run's files, without a suffix.
    """
    words = in_words(result["machine"]).partition(";")[0]
    rounds = " or ".join(sorted({str(part["rounds"]) for part in result["settings"]}))
    page = f"run of [{result['date']}](../benchmarks/results/{name}.md), {rounds} rounds."
    table = overview(result).rstrip()
    on_gpu = any(question["device"] == "gpu" for question in result["questions"])
    said = [f"{words}; {page}", *result["notes"], *([] if on_gpu else [NO_GPU]), RATIOS]
    said += [APART] if "apart)" in table else []
    return f"{' '.join(said)}\n\n{table}"


def main(arguments: list[str] | None = None, root: Path = ROOT):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("result", nargs="?", type=json_with("date", "machine", "settings", "notes", "questions"))
    named = parser.parse_args(arguments).result
    files = sorted((root / "benchmarks/results").glob("bench-*.json"), reverse=True)
    runs = ((file, json.loads(file.read_text(encoding="utf-8"))) for file in files)
    targets = ((file, run) for file, run in runs if run["complete"] and run["preset"] == "targets")
    file, result = named or next(targets, (None, None))
    if result is None:
        return "performance_page.py expected a finished run of `keras-vit bench` in benchmarks/results, found none"
    page = root / "docs/performance.md"
    text = page.read_text(encoding="utf-8")
    text = marked("benchmark").sub(lambda _: f"{block(result, file.stem)}\n", text)
    runs = goals.read(root / "benchmarks/results")
    for name, table in TABLES.items():
        text = marked(name).sub(lambda _, table=table: f"{table(runs)}\n", text)
    page.write_text(text, encoding="utf-8")
    print(f"docs/performance.md shows {file.name}")
    return None


if __name__ == "__main__":
    sys.exit(main())
