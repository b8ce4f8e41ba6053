"""Puts the overview of a run of `keras-vit bench` into README.md, between its two markers.

    python benchmarks/readme.py [benchmarks/results/bench-DATE.json]

Without a name the newest run of the preset `targets` to its end. tests/test_readme.py holds that the two agree.
"""

import argparse
import json
import re
import sys
from pathlib import Path

from benchmarks.harness.arguments import json_with
from benchmarks.harness.machine import in_words
from benchmarks.harness.page import overview

ROOT = Path(__file__).parent.parent
NO_GPU = "This run asked nothing of a GPU: what others measured on one stands in [goals.md](benchmarks/goals.md)."
RATIOS = "`ours / it`: the median of the rounds, and their range."
APART = (
    "`apart`: measured one after the other, since both did not fit into memory at once; the ratio is corrected by the "
    "machine's speed at matrix products beside each."
)
MARKED = re.compile(r"(?<=<!-- benchmark -->\n).*?(?=\n<!-- /benchmark -->)", re.DOTALL)


def block(result: dict, name: str) -> str:
    """What stands between the markers.

    Args:
        result: of the JSON.
        name: of the files, without their ending.
    """
    words = in_words(result["machine"]).partition(";")[0]
    rounds = " or ".join(sorted({str(part["rounds"]) for part in result["settings"]}))
    page = f"[{result['date']}](benchmarks/results/{name}.md), all contestants and versions there; {rounds} turns each."
    table = overview(result).rstrip()
    on_gpu = any(question["device"] == "gpu" for question in result["questions"])
    said = [f"{words}; {page}", *result["notes"], *([] if on_gpu else [NO_GPU]), RATIOS]
    said += [APART] if "apart)" in table else []
    return f"{' '.join(said)}\n\n{table}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("result", nargs="?", type=json_with("date", "machine", "settings", "notes", "questions"))
    named = parser.parse_args().result
    files = sorted((ROOT / "benchmarks/results").glob("bench-*.json"), reverse=True)
    runs = ((file, json.loads(file.read_text(encoding="utf-8"))) for file in files)
    targets = ((file, run) for file, run in runs if run["complete"] and run["preset"] == "targets")
    file, result = named or next(targets, (None, None))
    if result is None:
        return "benchmarks/readme.py expected a finished run of `keras-vit bench` in benchmarks/results, found none"
    readme = ROOT / "README.md"
    text = readme.read_text(encoding="utf-8")
    readme.write_text(MARKED.sub(lambda _: block(result, file.stem), text), encoding="utf-8")
    print(f"README.md shows {file.name}")
    return None


if __name__ == "__main__":
    sys.exit(main())
