"""Search the published checkpoints."""

import difflib
import os
import re
from collections.abc import Collection, Iterable, Sequence

from keras_vit.weights.catalogue import find_released
from keras_vit.weights.published import PublishedCheckpoint, from_released, published_checkpoints
from keras_vit.weights.timm_checkpoints import FAMILIES

_SORTS = ("accuracy", "parameters", "resolution", "tag")


def find(
    model: str | Collection[str] | None = None,
    resolution: int | None = None,
    under: int | None = None,
    dataset: str | None = "imagenet2012",
    sort: str = "accuracy",
    index: str | os.PathLike | None = None,
    parameters_of=None,
    *,
    words: Sequence[str] = (),
    family: str | None = None,
    licence: str | None = None,
    loads: bool = False,
    hub: bool = False,
) -> list[PublishedCheckpoint]:
    """Return the published checkpoints that match, best first.

    Args:
        model: a name of a model, such as `B_16`, `ViT_B16` or `vit_base_patch16`, or several names.
        resolution: side of the images in pixels.
        under: upper limit of the number of parameters.
        dataset: data set of the classifier; None for all.
        sort: `accuracy`, `parameters`, `resolution` or `tag`.
        index: path of augreg's index.csv, which adds files and accuracies; None searches the published rows only.
        parameters_of: a function of a builder's name that returns its number of parameters.
        words: parts of the tag.
        family: a family of `FAMILIES`, `vit`, `msn` or `data2vec`.
        licence: the licence, as timm or the publisher states it.
        loads: whether to leave out the checkpoints that `from_pretrained` refuses.
        hub: whether to search the models on the Hugging Face hub, too: timm's tags and transformers' models.

    Raises:
        FileNotFoundError: `index` does not exist.
        ValueError: `sort`, a word, a family or a licence is unknown, or the index is not augreg's table.
    """
    if sort not in _SORTS:
        raise ValueError(f"sort expected one of {_SORTS}, received {sort!r}.")
    rows = published_checkpoints(index, parameters_of, hub)
    _require_known(rows, words, family, licence)
    models = {model} if isinstance(model, str) else set(model or ())
    wanted = [
        row
        for row in rows
        if (model is None or models & row.names)
        and (resolution is None or row.resolution == resolution)
        and (under is None or (row.parameters is not None and row.parameters < under))
        and (dataset is None or row.dataset == dataset)
        and all(word.lower() in row.tag.lower() for word in words)
        and (family is None or row.family == family)
        and (licence is None or row.licence == licence)
        and not (loads and row.refusal)
    ]
    return _ordered(wanted, sort)


def find_one(name: str, index: str | os.PathLike | None = None, parameters_of=None) -> PublishedCheckpoint:
    """Return the checkpoint of a tag, an official name, a name on the hub or a URL.

    Args:
        name: the name; `hf://` in front of a name on the hub may be left out.
        index: as in `find`.
        parameters_of: as in `find`.

    Raises:
        FileNotFoundError: `index` does not exist.
        ValueError: no checkpoint has this name; the message holds the three nearest.
    """
    rows = published_checkpoints(index, parameters_of, hub=True)
    for row in rows:
        if name in (row.tag, row.url, row.hub, (row.hub or "").removeprefix("hf://") or None):
            return row
    try:
        return from_released(find_released(name), parameters_of)
    except ValueError:
        nearest = nearest_names(name, [row.tag for row in rows])
        raise ValueError(
            f"weights expected the name of a published checkpoint, received {name!r}; the nearest are {nearest}."
        ) from None


def nearest_names(name: str, names: Iterable[str]) -> str:
    """Return the three most similar names, separated by commas."""
    return ", ".join(difflib.get_close_matches(name.lower(), names, n=3, cutoff=0))


def _require_known(rows, words, family, licence) -> None:
    """Raise a ValueError for a word that no tag contains, and for an unknown family or licence."""
    tags = [row.tag.lower() for row in rows]
    parts = {part for tag in tags for part in re.split(r"[^a-z0-9]+", tag) if not part.isdigit()}
    for word in words:
        if not any(word.lower() in tag for tag in tags):
            raise ValueError(
                f"word expected a part of a published tag, received {word!r}; the nearest are "
                f"{nearest_names(word, sorted(parts | set(FAMILIES)))}."
            )
    for name, value in (("family", family), ("licence", licence)):
        known = {getattr(row, name) for row in rows} - {None}
        if value is not None and value not in known:
            raise ValueError(
                f"{name} expected one of {', '.join(sorted(known))}, received {value!r}; the nearest are "
                f"{nearest_names(value, sorted(known))}."
            )


def _ordered(rows: list[PublishedCheckpoint], sort: str) -> list[PublishedCheckpoint]:
    """Return rows best first; those without a value last, and equal ones by tag."""
    largest_first = sort in ("accuracy", "resolution")
    missing = float("-inf") if largest_first else float("inf")

    def key(row):
        value = getattr(row, sort)
        return value if isinstance(value, str) else missing if value is None else value

    return sorted(sorted(rows, key=lambda row: row.tag), key=key, reverse=largest_first)
