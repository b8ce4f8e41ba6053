"""Contestants in processes of their own, taking turns.

Each contestant is a function that prepares its work and returns a function to time. It runs in a fresh process; the
processes take turns round by round, one at a time, so that a machine whose speed drifts drifts for all of them.
A turn is one call, or several back to back where the question is a steady latency: after the others' turns the first
call finds cold caches and sleeping threads.
"""

import json
import os
import platform
import re
import statistics
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path


def compare(script: str, contestants: list[str], rounds: int, calls: int = 1) -> dict[str, list[float]]:
    """Seconds of every call of each contestant of a benchmark script; a contestant that cannot start is left out."""
    workers, seconds = {}, {}
    for name in contestants:
        command = [sys.executable, script, "--worker", name]
        worker = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        if worker.stdout.readline().strip() != "ready":
            print(f"left out {name}: {worker.stderr.read().strip().splitlines()[-1]}", file=sys.stderr)
            continue
        workers[name], seconds[name] = worker, []
    for _ in range(rounds):
        for name, worker in workers.items():
            worker.stdin.write(f"{calls}\n")
            worker.stdin.flush()
            seconds[name] += json.loads(worker.stdout.readline())
    for worker in workers.values():
        worker.stdin.close()
        worker.wait()
    return seconds


def work(prepare) -> None:
    """The other side of `compare`: prepare, warm up, then time as many calls as each line that comes in says."""
    out, sys.stdout = sys.stdout, sys.stderr  # what libraries print must not mix with the answers
    call = prepare()
    for _ in range(3):
        call()
    print("ready", file=out, flush=True)
    for line in sys.stdin:
        seconds = []
        for _ in range(int(line)):
            begun = time.perf_counter()
            call()
            seconds.append(time.perf_counter() - begun)
        print(json.dumps(seconds), file=out, flush=True)


def table(title: str, seconds: dict[str, list[float]], ours: str, figure, unit: str) -> str:
    """Markdown: median, minimum and maximum of a figure of each contestant, and ours as a multiple of its median."""
    lines = [f"### {title}", "", f"| | {unit}, median | min – max | ours / it |", "|---|---:|---:|---:|"]
    for name, values in seconds.items():
        found = sorted(figure(value) for value in values)
        ratio = figure(statistics.median(seconds[ours])) / figure(statistics.median(values))
        lines.append(f"| {name} | {statistics.median(found):.4g} | {found[0]:.4g} – {found[-1]:.4g} | {ratio:.2f} |")
    return "\n".join(lines) + "\n"


def machine() -> str:
    """The hardware and the versions, for a table's header."""
    from importlib.metadata import PackageNotFoundError, version

    cpu = platform.processor() or "unknown"
    info = Path("/proc/cpuinfo")
    flags = info.read_text() if info.is_file() else ""
    for line in flags.splitlines():
        if line.startswith("model name"):
            cpu = line.partition(":")[2].strip()
            break
    bf16 = "AMX" if "amx_bf16" in flags else "AVX-512 bf16" if "avx512_bf16" in flags else "no bf16 instructions"
    found = []
    for name in ("tensorflow", "keras", "keras-hub", "torch", "timm"):
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            found.append(f"no {name}")
    return f"{cpu}, {os.cpu_count()} cores, {bf16}; Python {platform.python_version()}; {', '.join(found)}"


_DECLARED = []


def declare_vision_operators() -> None:
    """Name torchvision's compiled operators where they do not load, so that timm and transformers can be imported."""
    import torch

    spec = find_spec("torchvision")
    if _DECLARED or spec is None or hasattr(torch.ops.torchvision, "nms"):
        return
    source = Path(spec.submodule_search_locations[0], "_meta_registrations.py").read_text()
    named = re.findall(r'register_meta\("(\w+)"\)', source) + re.findall(r"torchvision::(\w+)", source)
    library = torch.library.Library("torchvision", "DEF")
    for name in sorted(set(named)):
        library.define(f"{name}(Tensor x) -> Tensor")
    _DECLARED.append(library)  # the names last as long as it does
