"""The hardware and the versions, for a result's header."""

import hashlib
import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

PACKAGES = ("tensorflow", "keras", "jax", "jaxlib", "torch", "timm", "transformers", "keras-hub", "openvino", "nncf",
            "numpy")  # fmt: skip
_INSTRUCTIONS = (("amx_bf16", "AMX"), ("avx512_bf16", "AVX-512 bf16"), ("avx512f", "AVX-512"), ("avx2", "AVX2"))
WITHOUT_BFLOAT16 = ("AVX2",)  # of these: torch's products in bfloat16 take many times as long as in float32


def machine() -> dict:
    """What the figures depend on: processor, cores, memory, GPUs, load, system, versions, TensorFlow's switch.

    `cpu_model` tells processors apart that a virtual machine gives one name; `source` one state of this package from
    another: the first of a hash of all its files.
    """
    info = _read("/proc/cpuinfo")
    names = [line.partition(":")[2].strip() for line in info.splitlines() if line.startswith("model name")]
    flags = info.split()
    return {
        "cpu": names[0] if names else platform.processor() or "unknown processor",
        "cpu_model": _model(info),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "instructions": next((name for flag, name in _INSTRUCTIONS if flag in flags), None),
        "memory_bytes": _memory("MemTotal"),
        "gpus": gpus(),
        "load": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "versions": {name: _version(name) for name in PACKAGES},
        "source": _source(),
        "onednn": os.environ.get("TF_ENABLE_ONEDNN_OPTS"),
    }


def processor_in_words(found: dict) -> str:
    """What `machine` says of the processor: its name and numbers, its cores, its instructions."""
    numbers = f" ({found['cpu_model']})" if found.get("cpu_model") else ""  # a run of before has none
    parts = found["cpu"] + numbers, f"{found['cores']} cores", found["instructions"]
    return ", ".join(part for part in parts if part)


def in_words(found: dict | None = None) -> str:
    """All of it in one line."""
    found = machine() if found is None else found
    parts = [processor_in_words(found)]
    parts += [f"{found['memory_bytes'] / 2**30:.0f} GiB of memory" if found["memory_bytes"] else None]
    parts += [", ".join(gpu["name"] for gpu in found["gpus"]) or "no GPU"]
    versions = [f"{name} {number}" if number else f"no {name}" for name, number in found["versions"].items()]
    hardware = ", ".join(part for part in parts if part)
    versions += [f"source of keras_vit {found['source']}"] if found.get("source") else []
    switch = f"; TF_ENABLE_ONEDNN_OPTS={found['onednn']}" if found.get("onednn") else ""
    return f"{hardware}; {found['system']}; Python {found['python']}, {', '.join(versions)}{switch}"


def gpus() -> list[dict]:
    """NVIDIA's GPUs of this machine: name and memory in bytes. Asks the driver, and takes no memory of theirs."""
    query = ["nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(query, capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return []
    rows = [line.rpartition(",") for line in done.stdout.splitlines() if "," in line] if done.returncode == 0 else []
    return [
        {"name": name.strip(), "memory_bytes": int(size) * 2**20} for name, _, size in rows if size.strip().isdigit()
    ]


def free_memory() -> int | None:
    """Bytes that processes can still take without swapping; None where the system does not say."""
    return _memory("MemAvailable")


def _model(info) -> str | None:
    """The first processor's family and model by their numbers, of /proc/cpuinfo's lines; None where it has none."""
    fields = [[part.strip() for part in line.partition(":")[::2]] for line in info.splitlines()]
    found = {name: value for name, value in reversed(fields) if name in ("cpu family", "model")}
    return f"family {found['cpu family']}, model {found['model']}" if len(found) == 2 else None


def _memory(name) -> int | None:
    lines = [line for line in _read("/proc/meminfo").splitlines() if line.startswith(f"{name}:")]
    return 1024 * int(lines[0].split()[1]) if lines else None


def _read(path) -> str:
    return Path(path).read_text() if Path(path).is_file() else ""


def _source() -> str:
    digest = hashlib.sha256()
    for folder in (Path(find_spec("keras_vit").origin).parent, Path(__file__).parent):
        for file in sorted(folder.rglob("*.py")):
            digest.update(file.relative_to(folder).as_posix().encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()[:12]


def _version(name) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
