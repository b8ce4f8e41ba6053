"""Describe where the weights of a model come from."""

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Origin:
    """The origin of a model's weights. Unknown values are None.

    Args:
        weights: name of the file, or the model's name with its weights tag.
        sha256: SHA-256 of the file.
        trained_on: description of the training data.
        accuracy: accuracy on the test split after training, in [0, 1].
        images: number of test images.
        resize: size in pixels of the shorter side of the test images before the centre crop; None without a crop.
        errors: name -> value of the metrics of a regression on the test split after training; None for classes.
    """

    weights: str | None = None
    sha256: str | None = None
    trained_on: str | None = None
    accuracy: float | None = None
    images: int | None = None
    resize: int | None = None
    errors: dict[str, float] | None = None


def origin_of(source: str | os.PathLike) -> Origin:
    """Return the origin of a workdir, a `.keras` file or a model's name."""
    path = Path(source)
    file = path / "model.keras" if path.is_dir() else path
    if not file.is_file():
        return Origin(weights=str(source))
    recipe, summary = (_read(path / name) if path.is_dir() else {} for name in ("recipe.json", "summary.json"))
    trained_on = recipe.get("data", {}).get("source")
    if trained_on and summary:
        trained_on = f"{summary['train_examples']:,} images of `{trained_on}`, by the recipe `{summary['recipe']}`"
    return Origin(
        weights=f"{path.resolve().name}/model.keras" if path.is_dir() else path.name,
        sha256=digest(file),
        trained_on=trained_on,
        accuracy=summary.get("accuracy"),
        images=summary.get("test_examples"),
        resize=recipe.get("data", {}).get("resize"),
        errors={name: summary[name] for name in summary if name.startswith(("mae", "rmse", "r2"))} or None,
    )


def digest(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _read(path: Path) -> dict:
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
