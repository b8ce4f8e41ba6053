"""Complete the config of a downloaded file by the catalogue's row of its tag, its name on the hub, or its URL."""

import os
from dataclasses import dataclass
from pathlib import Path

from keras_vit.preprocessing.image_spec import ImageSpec
from keras_vit.weights.hub import is_hub, parse_hub
from keras_vit.weights.image_configs import timm_config
from keras_vit.weights.released import RELEASED
from keras_vit.weights.timm_checkpoints import TimmCheckpoint, find_timm_checkpoint, find_timm_hub, timm_checkpoints
from keras_vit.weights.transformers_checkpoints import TransformersCheckpoint, find_transformers_checkpoint

_MODEL_KEYS = ("architecture", "model_type", "model_args", "keras_vit")  # keys by which a config states a model


@dataclass(frozen=True)
class Completed:
    """A file's config, completed by the catalogue.

    Args:
        config: the config.
        spec: preprocessing of the row, for a file whose configs state none.
        notes: sentences about what the row added.
    """

    config: dict
    spec: ImageSpec | None = None
    notes: tuple[str, ...] = ()


def row_of_source(source: str | os.PathLike) -> TimmCheckpoint | TransformersCheckpoint | None:
    """Return the row of a tag, of `hf://ORG/NAME` or of a URL; None for paths, or if the catalogue has none."""
    if not isinstance(source, str) or Path(source).exists():
        return None
    if is_hub(source):
        repository = parse_hub(source)[0]
        return find_timm_hub(repository) or find_transformers_checkpoint(repository)
    if "://" in source:
        return next((row for row in timm_checkpoints() if row.url == source), None)
    return find_timm_checkpoint(source)


def is_published(source: str | os.PathLike) -> bool:
    """Return whether `from_pretrained` downloads a source that is no tag of `list_weights()`.

    Such a source is a name on the hub, another tag of the catalogue, or a URL of the catalogue.
    """
    row = row_of_source(source)
    if is_hub(source) or row is None:
        return is_hub(source)
    return "://" in str(source) or source not in {known.tag for known in RELEASED}


def complete_config(source: str | os.PathLike, config: dict) -> Completed:
    """Return the config of a source's file, with the architecture and the preprocessing of its row where it has none.

    The config on the hub of a tag that shares the files of another architecture names that architecture. The tag's own
    replaces it.
    """
    row = row_of_source(source)
    if row is None:
        return Completed(config)
    if isinstance(row, TransformersCheckpoint):
        return Completed(config, row.spec)
    stated = config.get("architecture")
    if row.shares_repository and source == row.tag and stated != row.architecture:
        kept = {key: value for key, value in config.items() if key not in ("model_args", "pretrained_cfg")}
        pretrained = timm_config(row.spec, 3, row.spec.size) | {"num_classes": row.classes}
        whole = {**kept, "architecture": row.architecture, "pretrained_cfg": pretrained}
        note = f"its config names {stated!r}; the tag {row.tag!r} means {row.architecture!r}"
        return Completed(whole, row.spec, (note,) if stated else ())
    if any(config.get(key) for key in _MODEL_KEYS):
        return Completed(config, row.spec)
    note = f"its config names no model; the catalogue's row of {row.tag!r} does: architecture={row.architecture!r}"
    return Completed({**config, "architecture": row.architecture}, row.spec, (note,))
