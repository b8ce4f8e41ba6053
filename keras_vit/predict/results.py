"""Format the results of `predict` as text, CSV, JSON or Parquet. Files are written atomically."""

import csv
import json
import os
from pathlib import Path

GROUP_SIZE = 4096  # rows per Parquet row group


def as_text(result: dict) -> str:
    """Return a result as one line of text."""
    if result["error"]:
        return f"{result['image']}: error: {result['error']}"
    best = ", ".join(
        f"{entry['target']} {entry['value']:.4g}" if "target" in entry else f"{entry['label']} {entry['score']:.1%}"
        for entry in result["predictions"]
    )
    return f"{result['image']}: {best or 'no label'}"


def as_json(result: dict) -> str:
    """Return a result as one line of JSON."""
    return json.dumps(result, ensure_ascii=False)


class ResultsFile:
    """Write a file of results as `NAME.partial`, and rename it when all results are written.

    If the `with` block ends with an exception, `NAME.partial` holds the results so far and is readable. An older file
    NAME is not changed. Without any result, `NAME.partial` is deleted.

    Args:
        path: ends in `.csv`, `.json` (one array), `.jsonl` (one object per line) or `.parquet`.
        top: classes per image; CSV and Parquet have columns `label_1`, `score_1`, ... for each. Or the names of the
            targets of a regression, which have a column each.

    Raises:
        ValueError: the path ends otherwise, its folder does not exist, or pyarrow is missing for `.parquet`.
    """

    def __init__(self, path: str | os.PathLike, top: int | tuple[str, ...]):
        self.path, self.top, self.count = Path(path), top, 0
        self.partial = self.path.with_name(f"{self.path.name}.partial")
        self._writer_class = writer_class(path)

    def __enter__(self):
        self._writer = self._writer_class(self.partial, self.top)
        return self

    def write(self, result: dict) -> None:
        """Add one result."""
        self._writer.write(result)
        self.count += 1

    def __exit__(self, kind, *_):
        try:
            self._writer.close()
        finally:
            if kind is not None and not self.count:
                self.partial.unlink(missing_ok=True)
        if kind is None:
            os.replace(self.partial, self.path)


def writer_class(path: str | os.PathLike):
    """Return the class that writes a file of this name. Raise an error as `ResultsFile` does."""
    path = Path(path)
    if path.suffix not in WRITERS:
        raise ValueError(f"output expected a file ending in {', '.join(WRITERS)}, received {str(path)!r}.")
    if not path.absolute().parent.is_dir():
        raise ValueError(f"output expected a file in a folder that exists, received {str(path)!r}.")
    if path.is_dir():
        raise ValueError(f"output expected a file, received the folder {str(path)!r}.")
    if path.suffix == ".parquet":
        try:
            import pyarrow.parquet  # noqa: F401
        except ImportError:
            raise ValueError(
                "output expected pyarrow for .parquet, found none: pip install 'keras-vit-zoo[parquet]'."
            ) from None
    return WRITERS[path.suffix]


class _TextFile:
    """Base of the writers of text files."""

    def __init__(self, path: Path, top: int | tuple[str, ...]):
        self.file, self.top = path.open("w", encoding="utf-8", newline=""), top

    def close(self) -> None:
        self.file.close()


class Csv(_TextFile):
    """Write a table with a header."""

    def __init__(self, path: Path, top: int | tuple[str, ...]):
        super().__init__(path, top)
        self._writer = csv.DictWriter(self.file, _columns({"image": "", "predictions": (), "error": ""}, top))
        self._writer.writeheader()

    def write(self, result: dict) -> None:
        self._writer.writerow(_columns(result, self.top))


class JsonLines(_TextFile):
    """Write one object per line."""

    def write(self, result: dict) -> None:
        self.file.write(as_json(result) + "\n")


class JsonArray(_TextFile):
    """Write one array, with one object per line."""

    _separator = "[\n"

    def write(self, result: dict) -> None:
        self.file.write(self._separator + as_json(result))
        self._separator = ",\n"

    def close(self) -> None:
        with self.file:
            self.file.write("[]\n" if self._separator == "[\n" else "\n]\n")


class Parquet:
    """Write the columns of `Csv`, with float32 scores."""

    def __init__(self, path: Path, top: int | tuple[str, ...]):
        import pyarrow
        from pyarrow import parquet

        columns = _columns({"image": "", "predictions": (), "error": ""}, top)
        values = [name for name in columns if name.startswith("score_")] if isinstance(top, int) else top
        types = {name: pyarrow.float32() if name in values else pyarrow.string() for name in columns}
        self._schema, self.top, self._rows = pyarrow.schema(types), top, []
        self._table, self._file = pyarrow.Table.from_pylist, parquet.ParquetWriter(path, self._schema)

    def write(self, result: dict) -> None:
        self._rows.append(_columns(result, self.top))
        if len(self._rows) == GROUP_SIZE:
            self._write_group()

    def _write_group(self) -> None:
        self._file.write_table(self._table(self._rows, self._schema))
        self._rows = []

    def close(self) -> None:
        with self._file:
            if self._rows:
                self._write_group()


WRITERS = {".csv": Csv, ".json": JsonArray, ".jsonl": JsonLines, ".parquet": Parquet}


def _columns(result: dict, top: int | tuple[str, ...]) -> dict:
    """Return a result as columns: image, label_1, score_1, ..., error. Missing predictions are None.

    With the names of targets, each is a column.
    """
    if not isinstance(top, int):
        values = {entry["target"]: entry["value"] for entry in result["predictions"]}
        return {"image": result["image"], **{name: values.get(name) for name in top}, "error": result["error"]}
    missing = [{"label": None, "score": None}] * (top - len(result["predictions"]))
    predictions = enumerate([*result["predictions"], *missing], 1)
    columns = {f"{name}_{i}": value for i, entry in predictions for name, value in entry.items()}
    return {"image": result["image"], **columns, "error": result["error"]}
