"""Find exports on disk: version folders `NAME/1`, `NAME/2`, ... with one file per format."""

import os
from pathlib import Path

# format -> the file that shows its presence in a version folder, in order of preference
FILES = {
    "saved_model": "saved_model.pb",
    "tflite": "model.tflite",
    "tflite-fp16": "model-fp16.tflite",
    "tflite-int8-dynamic": "model-int8-dynamic.tflite",
    "onnx": "model.onnx",
    "openvino": "model.xml",
    "openvino-int8": "model-int8.xml",
    "tflite-int8": "model-int8.tflite",
    "tflite-int16x8": "model-int16x8.tflite",
}


def versions(output: str | os.PathLike) -> list[int]:
    """Return the version numbers in a folder, ascending."""
    folder = Path(output)
    return sorted(int(path.name) for path in folder.iterdir() if path.name.isdigit()) if folder.is_dir() else []


def version_folder(source: str | os.PathLike) -> Path | None:
    """Return the version folder at a path, or the newest one in it; None if there is no export."""
    path = Path(source)
    newest = [path / str(number) for number in versions(path)[-1:]]
    for folder in (path, *newest):
        if (folder / "manifest.json").is_file() and formats_in(folder):
            return folder
    return None


def formats_in(folder: Path) -> list[str]:
    """Return the formats in a version folder, in the order of `FILES`."""
    return [name for name, file in FILES.items() if (folder / file).is_file()]


def require_formats(names) -> None:
    """Raise a ValueError unless `names` are names of formats."""
    if isinstance(names, str) or not names or any(name not in FILES for name in names):
        raise ValueError(f"formats expected some of {tuple(FILES)}, received {names!r}.")
