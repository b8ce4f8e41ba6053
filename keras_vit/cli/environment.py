"""Facts about the machine and the installed packages, for `keras-vit doctor`. No package is imported here."""

import importlib.metadata
import importlib.util
import os
import platform
import shutil
from dataclasses import dataclass, replace
from pathlib import Path

from packaging.requirements import Requirement

DISTRIBUTION = "keras-vit-zoo"
BACKENDS = ("jax", "torch")  # packages without bounds, which Keras can use instead of TensorFlow
DEVELOPMENT = ("dev", "parity", "docs")  # extras that no verb needs
OK, MISSING, OUTSIDE, BROKEN = "ok", "missing", "outside the tested versions", "broken"
# Each package of the extras of setup.py, and what needs it.
NEEDED_BY = {
    "tensorflow-datasets": "train, evaluate: tfds: and vtab: data",
    "importlib-resources": "train, evaluate: tfds: and vtab: data",
    "keras-cv": "train: Augment(mosaic=...)",
    "tensorboard": "showing a run's events",
    "scikit-learn": "train: digits data; analyze; evaluate --probe",
    "matplotlib": "analyze; summary --plot; train: Evaluate(pictures=...)",
    "starlette": "serve",
    "uvicorn": "serve",
    "httptools": "serve",
    "uvloop": "serve",
    "prometheus-client": "serve",
    "ai-edge-litert": "export and predict: tflite formats",
    "nncf": "export: openvino-int8",
    "onnx": "export: onnx",
    "onnxruntime": "export and predict: onnx",
    "openvino": "export and predict: openvino formats",
    "huggingface-hub": "weights: hf://ORG/NAME",
    "tf2onnx": "export: onnx",
    "pyarrow": "predict --output FILE.parquet",
    "pillow-heif": "HEIC images",
    "optuna": "sweep",
    "mlflow-skinny": "train --log mlflow",
    "wandb": "train --log wandb",
    "shtab": "completion",
}
_MODULES = {"pillow": "PIL", "scikit-learn": "sklearn"}  # where the module is not named like its package
_INSTRUCTIONS = {"AVX2": "avx2", "AVX-512": "avx512f", "AVX-512 bf16": "avx512_bf16", "AMX": "amx_bf16"}


@dataclass(frozen=True)
class Package:
    """A package that setup.py names, and its state.

    Args:
        name: name of the package.
        extra: extra of setup.py that installs it; empty for the core.
        expected: versions of setup.py, such as `>=2.21,<2.22`; empty for any.
        version: the installed version; None if it is not installed.
        state: `ok`, `missing`, `outside the tested versions` or `broken`.
        reason: why it is broken; empty otherwise.
        needed_by: the verbs and formats that need it; empty for the core, which all need.
    """

    name: str
    extra: str
    expected: str
    version: str | None
    state: str
    reason: str = ""
    needed_by: str = ""

    @property
    def module(self) -> str:
        """The module to import."""
        return _MODULES.get(self.name, self.name.replace("-", "_"))


def packages() -> list[Package] | None:
    """Return the packages of setup.py by extra; None if the package is not installed, but only on Python's path."""
    try:
        texts = importlib.metadata.requires(DISTRIBUTION) or []
    except importlib.metadata.PackageNotFoundError:
        return None
    found = []
    for requirement in map(Requirement, texts):
        for extra in ("", *_extras()):
            core = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
            if core != (extra == ""):
                continue
            if core or requirement.marker.evaluate({"extra": extra}):
                found.append(_package(requirement, extra))
    return found


def _extras() -> list[str]:
    names = importlib.metadata.metadata(DISTRIBUTION).get_all("Provides-Extra") or []
    return [name for name in names if name not in DEVELOPMENT]


def _package(requirement: Requirement, extra: str) -> Package:
    name = requirement.name.lower().replace("_", "-")
    version, expected = installed_version(name), str(requirement.specifier)
    package = Package(name, extra, expected, version, OK, "", NEEDED_BY.get(name, "") if extra else "")
    if version is None:
        return _with(package, MISSING)
    if not _has_module(package.module):
        return _with(package, BROKEN, f"no module {package.module!r} in spite of the installed version")
    return package if requirement.specifier.contains(version, prereleases=True) else _with(package, OUTSIDE)


def _has_module(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False


def _with(package: Package, state: str, reason: str = "") -> Package:
    return replace(package, state=state, reason=reason)


def broken(package: Package, reason: str) -> Package:
    """Return a package whose import failed."""
    return _with(package, BROKEN, reason)


def installed_version(name: str) -> str | None:
    """Return the version of an installed package; None if it is not installed, or its metadata is damaged."""
    try:
        return importlib.metadata.version(name)
    except (importlib.metadata.PackageNotFoundError, KeyError, OSError, UnicodeDecodeError):
        return None


def machine() -> dict:
    """Return facts about the machine: system, processor, its instructions, cores and bytes of memory."""
    text = _read("/proc/cpuinfo")
    flags = set(text.split())
    names = [line.partition(":")[2].strip() for line in text.splitlines() if line.startswith("model name")]
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "processor": names[0] if names else platform.processor() or None,
        "instructions": {name: flag in flags for name, flag in _INSTRUCTIONS.items()} if "avx" in flags else None,
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory": _memory(),
    }


def _memory() -> dict[str, int | None]:
    """Return bytes of memory, of this process's control group if it has a limit; None if unknown."""
    lines = (line.split() for line in _read("/proc/meminfo").splitlines())
    sizes = {words[0].rstrip(":"): int(words[1]) * 1024 for words in lines if len(words) == 3}
    total, available = sizes.get("MemTotal"), sizes.get("MemAvailable")
    limit, used = (_read(f"/sys/fs/cgroup/memory.{name}").strip() for name in ("max", "current"))
    if limit.isdigit() and used.isdigit() and total is not None and available is not None and int(limit) < total:
        total, available = int(limit), min(available, max(int(limit) - int(used), 0))
    return {"total": total, "available": available}


def disk(folder: Path) -> dict:
    """Return a folder's path, its bytes (0 if it does not exist) and the free bytes of its disk."""
    sizes = [path.stat().st_size for path in folder.rglob("*") if path.is_file()] if folder.is_dir() else []
    place = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    return {"folder": str(folder), "files": len(sizes), "bytes": sum(sizes), "free": shutil.disk_usage(place).free}


def _read(path: str) -> str:
    try:
        return Path(path).read_text(errors="replace")
    except OSError:
        return ""
