"""Write `weights/timm_checkpoints.csv` and `weights/timm_arrays.csv`: `python -m codegen.timm_checkpoints RESULTS`.

The first has a row for each published checkpoint of timm's Vision Transformers: its preprocessing, size, licence and
accuracy. The second lists the arrays of each kind of model, of which the package derives whether it loads the
checkpoints. Models whose arrays have the same names and numbers of axes are one kind.

RESULTS is the file `results/results-imagenet.csv` of timm's repository, which is not in timm's package. timm is needed
here only.
"""

import csv
import re
import sys
from pathlib import Path

from benchmarks.harness.torch_peers import declare_vision_operators

WEIGHTS = Path(__file__).parents[1] / "keras_vit" / "weights"
MODULES = ("beit", "deit", "eva", "hybrid", "naflexvit", "relpos", "resnetv2", "sam", "vision_transformer")
_MODULE_NAMES = {name: f"vision_transformer_{name}" for name in ("hybrid", "relpos", "sam")}
_DEEPER = re.compile(r"(^|\.)(blocks|layers)\.([1-9]\d*)\.|stages\.\d+\.blocks\.([2-9]|\d\d+)\.")
CHECKPOINT_FIELDS = (
    *(
        "tag",
        "kind",
        "image_size",
        "classes",
        "parameters",
        "resize_mode",
        "interpolation",
        "crop_fraction",
        "mean",
        "std",
    ),
    *("licence", "notes", "hub", "url", "top1"),
)


def main(results: str) -> None:
    """Write both files, with the accuracies of timm's table of results."""
    accuracies = accuracies_of(Path(results))
    declare_vision_operators()
    import timm

    names = [_MODULE_NAMES.get(name, name) for name in MODULES]
    tags = sorted({tag for module in names for tag in timm.list_models(module=module, pretrained=True)})
    configs = {tag: timm.get_pretrained_cfg(tag) for tag in tags}
    kinds, rows, parameters = {}, [], {}
    for architecture in dict.fromkeys(tag.partition(".")[0] for tag in tags):
        arrays = arrays_of(timm, architecture)
        signature = tuple((name, len(shape), _is_packed(name, arrays)) for name, shape in sorted(arrays.items()))
        first, _ = kinds.setdefault(signature, (architecture, arrays))
        for tag in (tag for tag in tags if tag.partition(".")[0] == architecture):
            key = (architecture, configs[tag].num_classes)
            if key not in parameters:
                parameters[key] = count_parameters(timm, *key)
            top1 = accuracy_of(tag, configs[tag], accuracies)
            rows.append((*row_of(tag, first, configs[tag], parameters[key]), top1))
    _write(WEIGHTS / "timm_checkpoints.csv", CHECKPOINT_FIELDS, sorted(rows))
    _write(WEIGHTS / "timm_arrays.csv", ("kind", "arrays"), [(kind, _text(arrays)) for kind, arrays in kinds.values()])


def accuracies_of(path: Path) -> dict[tuple[str, int, float], str]:
    """Return the top-1 accuracies in per cent by tag, image size and crop fraction."""
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return {(row["model"], int(row["img_size"]), float(row["crop_pct"])): row["top1"] for row in rows}


def accuracy_of(tag: str, config, accuracies) -> str:
    """Return the accuracy of a classifier of ImageNet-1k at its own image size and crop; empty without one."""
    if config.num_classes != 1000:
        return ""
    return accuracies.get((tag, max(config.input_size[1:]), config.crop_pct), "")


def arrays_of(timm, architecture: str) -> dict[str, tuple[int, ...]]:
    """Return the names and shapes of a model's arrays: those of the first block, and of two units per ResNet stage."""
    import torch

    with torch.device("meta"):
        state = timm.create_model(architecture).state_dict()
    return {name: tuple(value.shape) for name, value in state.items() if not _DEEPER.search(name)}


def count_parameters(timm, architecture: str, classes: int) -> int:
    """Return the number of parameters of a model."""
    import torch

    with torch.device("meta"):
        return sum(value.numel() for value in timm.create_model(architecture, num_classes=classes).parameters())


def row_of(tag: str, kind: str, config, parameters: int) -> tuple:
    """Return a row of `timm_checkpoints.csv`."""
    numbers = [" ".join(f"{x:g}" if f"{x:g}" == str(x) else str(x) for x in dict.fromkeys(v)) if len(set(v)) == 1
               else " ".join(map(str, v)) for v in (config.mean, config.std)]  # fmt: skip
    size = "x".join(map(str, dict.fromkeys(config.input_size[1:])))
    notes = " ".join(config.notes or ())
    resizing = config.crop_mode, config.interpolation, f"{config.crop_pct:g}"
    return (
        tag,
        kind,
        size,
        config.num_classes,
        parameters,
        *resizing,
        *numbers,
        config.license or "",
        notes,
        hub_of(tag, config),
        url_of(config),
    )


def hub_of(tag: str, config) -> str:
    """Return the name on the hub: empty for `timm/TAG`, `-` without one."""
    name = config.hf_hub_id or "-"
    return "" if name == f"timm/{tag}" else name


def url_of(config) -> str:
    """Return the URL of the publisher's file; empty if there is none, or a page in its place."""
    url = config.url or ""
    return url if url.endswith((".pth", ".pth.tar", ".pt", ".npz", ".bin", ".safetensors")) else ""


def _is_packed(name: str, arrays) -> bool:
    second = arrays.get(name.replace(".fc1.", ".fc2."), ())
    return ".mlp.fc1.weight" in name and len(second) == 2 and arrays[name][0] == 2 * second[1]


def _text(arrays) -> str:
    return " ".join(f"{name}:{'x'.join(map(str, shape))}" for name, shape in sorted(arrays.items()))


def _write(path: Path, fields, rows) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerows([fields, *rows])


if __name__ == "__main__":
    main(*sys.argv[1:])
