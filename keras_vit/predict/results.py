"""Format the results of `predict` as text, CSV, JSON or Parquet. Files are written atomically."""

import csv
import json
import os
from pathlib import Path

GROUP = 4096  # rows per Parquet row group


def as_line(row: dict) -> str:
    """Return a result as a line of text."""
    if row["error"]:
        return f"{row['image']}: error: {row['error']}"
    best = ", ".join(f"{found['label']} {found['score']:.1%}" for found in row["predictions"])
    return f"{row['image']}: {best}"


def as_json(row: dict) -> str:
    """Return a result as one line of JSON."""
    return json.dumps(row, ensure_ascii=False)


class Results:
    """Write a file of results as `NAME.partial`, and rename it when all results are written.

    If the `with` block ends with an exception, `NAME.partial` holds the results so far and is readable. An older file
    NAME is not changed. Without any result, `NAME.partial` is deleted.

    Args:
        path: ends in `.csv`, `.json` (one array), `.jsonl` (one object per line) or `.parquet`.
        top: classes per image; CSV and Parquet have columns `label_1`, `score_1`, ... for each.

    Raises:
        ValueError: the path ends otherwise, its folder does not exist, or pyarrow is missing for `.parquet`.
    """

    def __init__(self, path: str | os.PathLike, top: int):
        self.path, self.top, self.rows = Path(path), top, 0
        self.partial = self.path.with_name(f"{self.path.name}.partial")
        self._make = writer_of(path)

    def __enter__(self):
        self._writer = self._make(self.partial, self.top)
        return self

    def write(self, row: dict) -> None:
        """Add one result."""
        self._writer.write(row)
        self.rows += 1

    def __exit__(self, kind, *_):
        try:
            self._writer.close()
        finally:
            if kind is not None and not self.rows:
                self.partial.unlink(missing_ok=True)
        if kind is None:
            os.replace(self.partial, self.path)


def writer_of(path: str | os.PathLike):
    """Return the class that writes a file of this name; raise as `Results` does."""
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
                "output expected pyarrow for .parquet, which `pip install keras-vit-zoo[parquet]` brings."
            ) from None
    return WRITERS[path.suffix]


class _Text:
    """Base of the writers of text files."""

    def __init__(self, path: Path, top: int):
        self.file, self.top = path.open("w", encoding="utf-8", newline=""), top

    def close(self) -> None:
        self.file.close()


class Csv(_Text):
    """Write a table with a header."""

    def __init__(self, path: Path, top: int):
        super().__init__(path, top)
        self._rows = csv.DictWriter(self.file, _flat({"image": "", "predictions": (), "error": ""}, top))
        self._rows.writeheader()

    def write(self, row: dict) -> None:
        self._rows.writerow(_flat(row, self.top))


class JsonLines(_Text):
    """Write one object per line."""

    def write(self, row: dict) -> None:
        self.file.write(as_json(row) + "\n")


class JsonArray(_Text):
    """Write one array, with one object per line."""

    _before = "[\n"

    def write(self, row: dict) -> None:
        self.file.write(self._before + as_json(row))
        self._before = ",\n"

    def close(self) -> None:
        with self.file:
            self.file.write("[]\n" if self._before == "[\n" else "\n]\n")


class Parquet:
    """Write the columns of `Csv`, with float32 scores."""

    def __init__(self, path: Path, top: int):
        import pyarrow
        from pyarrow import parquet

        columns = _flat({"image": "", "predictions": (), "error": ""}, top)
        types = {name: pyarrow.float32() if name.startswith("score_") else pyarrow.string() for name in columns}
        self._schema, self.top, self._rows = pyarrow.schema(types), top, []
        self._table, self._file = pyarrow.Table.from_pylist, parquet.ParquetWriter(path, self._schema)

    def write(self, row: dict) -> None:
        self._rows.append(_flat(row, self.top))
        if len(self._rows) == GROUP:
            self._put()

    def _put(self) -> None:
        self._file.write_table(self._table(self._rows, self._schema))
        self._rows = []

    def close(self) -> None:
        with self._file:
            if self._rows:
                self._put()


WRITERS = {".csv": Csv, ".json": JsonArray, ".jsonl": JsonLines, ".parquet": Parquet}


def _flat(row: dict, top: int) -> dict:
    """Return a result as columns: image, label_1, score_1, ..., error. Missing predictions are None."""
    found = [*row["predictions"], *[{"label": None, "score": None}] * (top - len(row["predictions"]))]
    columns = {f"{name}_{i}": value for i, entry in enumerate(found, 1) for name, value in entry.items()}
    return {"image": row["image"], **columns, "error": row["error"]}
