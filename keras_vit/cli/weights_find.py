"""The verbs `find` and `info` of `keras-vit weights`."""

from keras_vit.cli.output import Result
from keras_vit.cli.table import table_lines, terminal_width
from keras_vit.models.variants import find_variant
from keras_vit.models.variants.lookup import names_of
from keras_vit.weights.catalogue import INDEX_PATH
from keras_vit.weights.download import home
from keras_vit.weights.find import find, find_one
from keras_vit.weights.published import PublishedCheckpoint

_TITLES = ("tag", "parameters", "size", "pixels", "outputs", "top-1")
_FIELDS = ("tag", "model", "parameters", "size", "resolution", "outputs", "dataset", "accuracy", "source")
_PREPROCESSING = ("size", "resize_mode", "interpolation", "crop_fraction", "mean", "std")


def find_verb(options) -> Result:
    """List the checkpoints that match the options, with the sources of their accuracies below."""
    dataset = options.dataset or ("all" if options.words or options.family else "imagenet2012")
    rows = find(
        _models(options.model),
        options.res,
        options.under,
        None if dataset == "all" else dataset,
        options.sort,
        _index(options),
        _parameters_of,
        words=options.words,
        family=options.family,
        licence=options.licence,
        loads=options.loads,
        hub=True,
    )
    if not rows:
        raise ValueError("find expected options that match a published checkpoint, found none.")
    shown = rows[: options.limit]
    sources = list(dict.fromkeys(row.source for row in shown if row.accuracy is not None))
    cells = [_TITLES, *(_cells(row, sources) for row in shown)]
    lines = table_lines(cells, right=(1, 2, 3, 4), width=terminal_width(), names=_TITLES)
    if len(rows) > options.limit:
        lines.append(f"... and {len(rows) - options.limit} more; --limit prints them")
    lines += [f"[{number}] {source}" for number, source in enumerate(sources, 1)]
    lines += ["size: float32, computed from the parameters", "keras-vit weights info TAG shows all fields"]
    first = next((row for row in shown if not row.refusal), None)
    following = ("weights", "download", first.tag) if first else ()
    return Result({"found": len(rows), "weights": [_as_json(row) for row in shown]}, "\n".join(lines), following)


def info_verb(options) -> Result:
    """Show all fields of one checkpoint."""
    row = find_one(options.name, _index(options), _parameters_of)
    data = _as_json(row)
    text = {
        "tag": row.tag,
        "model": _model_of(row),
        "family": row.family,
        "parameters": row.parameters and f"{row.parameters:,}",
        "size": row.size and f"{row.size:,} bytes in float32, computed from the parameters",
        "outputs": _outputs(row) + (f", {row.dataset}" if row.dataset else ""),
        "images": str(row.spec) if row.spec else "read from the file's config on loading",
        "accuracy": row.accuracy is not None and f"{row.accuracy:.3%} top-1, {row.source}",
        "licence": row.licence,
        "hub": row.hub,
        "url": row.url,
        "sha256": row.sha256 and row.sha256 + (" (its first digits)" if len(row.sha256) < 64 else ""),
        "note": row.note,
        "loads": "no, " + row.refusal if row.refusal else "yes",
    }
    optional = ("hub", "url", "note")
    lines = [f"{name:<11} {value or 'not published'}" for name, value in text.items() if value or name not in optional]
    return Result(data, "\n".join(lines), () if row.refusal else ("weights", "download", row.tag))


def _models(name: str | None) -> set[str] | None:
    """Return all names of a model: in this package, in its paper and in timm."""
    if name is None:
        return None
    try:
        return {name, *names_of(find_variant(name)[0])}
    except ValueError:  # a model without a builder
        return {name}


def _index(options):
    cached = home() / INDEX_PATH
    return options.index or (cached if cached.is_file() else None)


def _parameters_of(builder: str) -> int:
    return find_variant(builder)[0].parameters.classes_1000


def _model_of(row: PublishedCheckpoint) -> str:
    """Return the name of the builder, and timm's name if the row has that one."""
    try:
        builder = find_variant(row.model)[0].name
    except ValueError:  # the model is built from its file only
        return row.model
    return builder if builder == row.model else f"{builder}, in timm {row.model}"


def _outputs(row: PublishedCheckpoint) -> str:
    return "any" if row.outputs is None else str(row.outputs or "none")


def _cells(row: PublishedCheckpoint, sources: list) -> tuple[str, ...]:
    if row.refusal:
        top = f"refused, {row.refusal}"
    else:
        top = "" if row.accuracy is None else f"{row.accuracy:.2%} [{sources.index(row.source) + 1}]"
    return (
        row.tag,
        f"{row.parameters / 1e6:.1f}M" if row.parameters else "?",
        f"{row.size / 1e6:.0f} MB" if row.size else "?",
        str(row.resolution or "any"),
        _outputs(row),
        top,
    )


def _as_json(row: PublishedCheckpoint) -> dict:
    """Return all fields of a row as JSON values."""
    spec = row.spec and {name: getattr(row.spec, name) for name in _PREPROCESSING}
    facts = {"loads": row.refusal is None, "refusal": row.refusal}
    facts |= {"family": row.family, "licence": row.licence, "preprocessing": spec}
    facts |= {"hub": row.hub, "url": row.url, "sha256": row.sha256, "note": row.note or None}
    return {name: getattr(row, name) for name in _FIELDS} | facts
