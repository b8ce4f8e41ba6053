"""Download models from the Hugging Face hub into its own cache, by the package huggingface_hub.

That package resumes broken transfers, checks sizes, and reads `HF_ENDPOINT`, `HF_HOME`, `HF_TOKEN` and
`HF_HUB_OFFLINE`.
"""

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from keras_vit.weights.open_clip import OPEN_CLIP_CONFIG, OPEN_CLIP_WEIGHTS

HUB = "hf://"
HUB_EXTRA = "pip install 'keras-vit-zoo[hub]'"
_PRESET = "model.weights.h5"  # of keras-hub
_WEIGHTS = ("model.safetensors", "model.safetensors.index.json", "pytorch_model.bin", "model.keras", _PRESET)
_WEIGHTS += OPEN_CLIP_WEIGHTS
_CONFIGS = ("config.json", "preprocessor_config.json", "processor_config.json", "image_converter.json")
# Further files beside some files of weights.
_BESIDE = {_PRESET: ("task.json", "task.weights.h5"), **dict.fromkeys(OPEN_CLIP_WEIGHTS, (OPEN_CLIP_CONFIG,))}


def is_hub(source: str | os.PathLike) -> bool:
    """Return whether a source names a model on the Hugging Face hub."""
    return isinstance(source, str) and source.startswith(HUB)


def parse_hub(source: str) -> tuple[str, str | None, str | None]:
    """Return repository, file and revision of `hf://ORG/NAME`, `hf://ORG/NAME/FILE` or `hf://ORG/NAME@REVISION`.

    Raises:
        ValueError: the source has another form.
    """
    name, at, revision = source.removeprefix(HUB).partition("@")
    parts = name.split("/")
    if len(parts) < 2 or not all(parts) or ".." in parts or (at and not revision):
        raise ValueError(f"source expected hf://ORG/NAME[/FILE][@REVISION], received {source!r}.")
    return "/".join(parts[:2]), "/".join(parts[2:]) or None, revision or None


def locate_on_hub(source: str) -> Path:
    """Return the path of a file of weights in the hub's cache. Download it and the configs in its folder first.

    All files come from one commit. The SHA-256 that the hub states for a large file names the file in the cache.

    Raises:
        FileNotFoundError: the model or the file does not exist, is not accessible, or cannot be downloaded.
        ImportError: huggingface_hub is not installed.
        ValueError: `source` is no such name.
    """
    repository, file, revision = parse_hub(source)
    model = _HubModel(source, repository, revision)
    for name in (file,) if file else _WEIGHTS:
        weights = model.fetch(name)
        if weights is not None:
            break
    else:
        expected = f"the file {file!r}" if file else f"one of {', '.join(_WEIGHTS)}"
        where = "in the cache, and the hub cannot be reached" if model.cache_only else "there"
        raise FileNotFoundError(f"source expected {expected} in {source!r}, found none {where}.")
    model.revision, folder = _commit_of(weights, name) or revision, PurePosixPath(name).parent
    for config in (*_CONFIGS, *_BESIDE.get(weights.name, ())):
        model.fetch(str(folder / config))
    for shard in _shards(weights):
        if model.fetch(str(folder / shard)) is None:
            raise FileNotFoundError(f"source expected {shard!r}, which its index names, in {source!r}, found none.")
    return weights


def stated_sha256(path: Path) -> str | None:
    """Return the SHA-256 that the hub states for a file in its cache; None for small files and other files."""
    name = path.resolve().name
    return name if path.is_symlink() and re.fullmatch(r"[0-9a-f]{64}", name) else None


@dataclass
class _HubModel:
    """A model on the hub.

    Args:
        source: the name in error messages.
        repository: `ORG/NAME`.
        revision: branch, tag or commit; None for `main`.
        cache_only: whether the hub could not be reached. Each attempt takes half a minute, so there is one.
    """

    source: str
    repository: str
    revision: str | None
    cache_only: bool = False

    def fetch(self, file: str) -> Path | None:
        """Return the path of a file in the cache, downloaded if necessary; None if the model has no such file."""
        try:
            from huggingface_hub import errors, hf_hub_download
        except ImportError:
            raise ImportError(
                f"source expected the package huggingface_hub for {self.source!r}: {HUB_EXTRA}."
            ) from None
        options = {"revision": self.revision, "local_files_only": self.cache_only}
        try:
            return Path(hf_hub_download(self.repository, file, **options))
        except errors.LocalEntryNotFoundError:  # neither in the cache nor within reach
            self.cache_only = True
            return None
        except errors.EntryNotFoundError:
            return None
        except errors.HFValidationError:
            raise ValueError(f"source expected hf://ORG/NAME[/FILE][@REVISION], received {self.source!r}.") from None
        except errors.RevisionNotFoundError:
            message = f"source expected a revision of {self.repository!r}, received {self.revision!r}."
            raise FileNotFoundError(message) from None
        except errors.RepositoryNotFoundError as error:  # also for models that need a licence or a login
            answer = getattr(error.response, "status_code", "an error")
            raise FileNotFoundError(
                f"source expected a model that you may read, received {answer} for {self.source!r}: check the name, "
                "accept its licence on the hub, and set HF_TOKEN."
            ) from None
        except OSError as error:  # also of HTTP; a second call resumes the transfer
            reason = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
            raise FileNotFoundError(
                f"{file!r} of {self.source!r} could not be downloaded ({reason}); try again."
            ) from None


def _commit_of(path: Path, name: str) -> str | None:
    """Return the commit of a file in the cache, whose path is `.../snapshots/COMMIT/NAME`."""
    root = path.parents[len(PurePosixPath(name).parts) - 1]
    return root.name if root.parent.name == "snapshots" else None


def _shards(path: Path) -> list[str]:
    """Return the names of the files of an index, which `weights.files` checks when it opens the index."""
    if path.suffix != ".json":
        return []
    try:
        names = json.loads(path.read_text(encoding="utf-8"))["weight_map"].values()
        return sorted({name for name in names if Path(name).name == name})
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError):
        return []
