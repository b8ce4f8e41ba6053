"""Write a model's weights in a published layout."""

import contextlib
import json
import os
import sys
import zipfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from keras_vit.preprocessing.image_spec import preprocessing_of
from keras_vit.weights.adapters import merge_note, readers, require_float
from keras_vit.weights.architecture import origin, pooling_of
from keras_vit.weights.archive import checksum
from keras_vit.weights.configs import write_config
from keras_vit.weights.files import CHECKSUMS, config_path
from keras_vit.weights.image_configs import processor_config
from keras_vit.weights.keras_file import write_checksums
from keras_vit.weights.keras_hub_write import write_preset
from keras_vit.weights.layouts import LAYOUTS, WRITABLE, find_place, format_name, spell
from keras_vit.weights.model_architecture import architecture_of_model
from keras_vit.weights.naflex import naflex_names
from keras_vit.weights.names_apart import apart_cell
from keras_vit.weights.names_options import parallel_names
from keras_vit.weights.timm_architectures import find_timm_architecture
from keras_vit.weights.timm_models import eva_names, is_beit, is_eva, relative_names
from keras_vit.weights.transformers_write import hub_arrays
from keras_vit.weights.transforms import SAME, heads_of
from keras_vit.weights.windows import is_sam, sam_names

if TYPE_CHECKING:  # some commands do not import Keras
    import keras

_SUFFIXES = {"npz": ".npz", "linen": ".npz", "timm": ".safetensors", "hf": ".safetensors"}
_KERAS_SUFFIXES = (".keras", ".weights.h5")


def save_weights(model: "keras.Model", path: str | os.PathLike, layout: str | None = None) -> None:
    """Write a model's weights. Each file is written atomically, and records checksums that `load_weights` compares.

    LoRA adapters are merged into the kernels of a published layout, with a printed note. `.keras` and `.weights.h5`
    files keep them.

    Args:
        model: a model of this package.
        path: path of the file: `.npz` for `npz` and `linen`; for `timm` and `hf` either `NAME.safetensors`, which gets
            a `NAME.config.json`, or a folder for the `model.safetensors` and `config.json` that these libraries load;
            `.keras` or `.weights.h5` for Keras's formats.
        layout: `npz` (the released files), `linen` (the current official code), `timm`, `hf` (transformers) or
            `keras_hub` (a preset folder). The default is `npz` for `.npz`, and Keras's formats for `.keras` and
            `.weights.h5`.

    Raises:
        ValueError: the model is quantized, the layout is unknown or does not support a part of the model, or the path
            has the wrong suffix for the layout.
    """
    path = Path(path)
    if layout is None and path.name.endswith(_KERAS_SUFFIXES):
        _write_atomically(path, model.save if path.suffix == ".keras" else lambda partial: _write_hdf5(partial, model))
        return
    layout = layout or ("npz" if path.suffix == ".npz" else None)
    if layout not in WRITABLE:
        raise ValueError(f"layout expected one of {WRITABLE}, received {layout!r}.")
    if layout == "keras_hub":
        _write_preset(model, path)
        return
    as_folder = _SUFFIXES[layout] == ".safetensors" and (path.is_dir() or not path.suffix)
    file = path / "model.safetensors" if as_folder else path
    if file.suffix != _SUFFIXES[layout]:
        raise ValueError(
            f"path expected to end in {_SUFFIXES[layout]!r} for layout {layout!r}, received {str(path)!r}."
        )
    from keras_vit.composed import flattened, require_direct_classifier  # imports Keras

    model = flattened(model)
    require_direct_classifier(model, f"layout {layout!r}")
    architecture = architecture_of_model(model)
    _require_place(architecture, layout)
    spec = preprocessing_of(model)
    config = None if _SUFFIXES[layout] == ".npz" else write_config(architecture, layout, spec)
    arrays = _arrays(model, architecture, layout)
    _print_differences(architecture, layout, config)
    _print_preprocessing(spec, layout, as_folder)
    if note := merge_note(model):
        print(f"layout {layout!r}: {note}.", file=sys.stderr)
    if config is None:
        _write_atomically(file, lambda partial: _write_npz(partial, arrays))
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    _write_atomically(file, lambda partial: _write_safetensors(partial, arrays))
    _write_atomically(config_path(file), lambda partial: _write_json(partial, config))
    if layout == "hf" and as_folder:
        size = architecture.full_size or spec.size or (224, 224)
        processor = processor_config(spec, architecture.channels, size)
        _write_atomically(file.with_name("preprocessor_config.json"), lambda partial: _write_json(partial, processor))


def _write_preset(model, folder: Path) -> None:
    """Write a model as a preset folder of keras-hub."""
    from keras_vit.composed import flattened, require_direct_classifier  # imports Keras

    if folder.suffix or folder.is_file():
        raise ValueError(f"path expected a folder for layout 'keras_hub', received {str(folder)!r}.")
    model = flattened(model)
    require_direct_classifier(model, "layout 'keras_hub'")
    require_float(model, "layout 'keras_hub'", "save the model before `quantize`, or quantized as .keras")
    architecture = architecture_of_model(model)
    if architecture.family != "vit":
        raise ValueError(f"layout 'keras_hub' expected a ViT, received a model of family {architecture.family!r}.")
    write_preset(folder, architecture, readers(model), preprocessing_of(model), _write_atomically)
    if note := merge_note(model):
        print(f"layout 'keras_hub': {note}.", file=sys.stderr)


def _require_place(architecture, layout: str) -> None:
    """Raise a ValueError if a layout has no place for the model's positions or patch embedding."""
    positions, fixed = architecture.positions, LAYOUTS[layout].fixed_positions
    others = ("rope", "relative_bias")
    in_attention = layout in ("timm", "hf") and positions == "none" and any(map(architecture.options.get, others))
    factorized = layout == "timm" and positions == "factorized"
    if positions != "learned" and not (fixed and positions == "sincos2d") and not in_attention and not factorized:
        raise ValueError(f"layout {layout!r} expected learned positions, received {positions!r}.")
    if architecture.positions_at != "stem":
        raise ValueError(f"layout {layout!r} expected positions only after the stem, received "
                         f"positions_at={architecture.positions_at!r}.")  # fmt: skip
    if layout == "timm":
        return
    if layout != "hf" and not architecture.options.get("patch_bias", True):
        raise ValueError(f"layout {layout!r} expected a patch embedding with a bias, received one without.")
    plain = _PLAIN_BIT if architecture.family == "bit" else _TIMM_ONLY
    if layout != "hf":  # whose configs check the others
        plain = plain if architecture.family == "bit" else {**plain, **_TORCH_ONLY}
    parts = [name for name, usual in plain.items() if architecture.options.get(name, usual) != usual]
    if parts:
        kind = "BiT" if architecture.family == "bit" else "plain ViT"
        raise ValueError(f"layout {layout!r} expected a {kind}, received one with {', '.join(parts)}; timm's layout "
                         "has them.")  # fmt: skip


_PLAIN_BIT = {"norm": "group", "standardized": True, "basic": False, "deep_stem": False}
# Fields of a row that only timm's layout has a place for, with the only value that the others support.
_TIMM_ONLY = {
    "conv_stem": None, "block": "pre_norm", "attention_out_bias": True, "qk_norm": False, "heads_per_key": 1,
    "differential_attention": False, "window": 0, "neck": None,
}  # fmt: skip
# Likewise the fields that the official layouts have no place for.
_TORCH_ONLY = {
    "gated_mlp": False,
    "mlp_inner_norm": False,
    "attention_inner_norm": False,
    "dense_bias": True,
    "norm": "layer",
    "patch_norm": False,
    "final_norm": True,
    "distillation_token": 0,
    "pool_prefix": True,
    "qkv_bias": "qkv",
    "rope": None,
    "pooling_heads": 0,
    "pooling_mlp_dim": 0,
    "relative_bias": None,
}


def _arrays(model, architecture, layout):
    """Map names in the layout to (reader, transform, part, heads), in the model's order. Read no data."""
    require_float(model, f"layout {layout!r}", "save the model before `quantize`, or quantized as .keras")
    arrays, unsupported = {}, []
    for path, read in readers(model).items():
        place = find_place(architecture.family, "keras", path)
        cell = place and (apart_cell(place.row, layout, architecture.options) or place.row.cells.get(layout))
        if cell is None or path.startswith(LAYOUTS[layout].never_written):
            unsupported.append(path)
            continue
        layer = model.get_layer(path.split("/")[0])
        heads = heads_of(layer)
        if layout != "timm" and getattr(layer, "stored_prefix", None) == 0:
            read = partial(_with_prefix, read, layer.prefix_tokens)
        for part, name in enumerate(cell.names):
            arrays[format_name(name, dict(place.indices))] = (read, cell.transform, part, heads)
    if unsupported:
        raise ValueError(f"layout {layout!r} has no place for {', '.join(unsupported)}.")
    if layout == "hf" and architecture.family == "vit":
        return _with_thirds(hub_arrays(arrays, architecture))
    arrays = {spelt: arrays[name] for name, spelt in spell(layout, list(arrays)).items()}
    arrays = _with_stacks(arrays)
    if layout == "timm" and architecture.options.get("deep_stem"):
        return {name.replace("stem.conv.", "stem.conv1."): array for name, array in arrays.items()}
    if layout == "timm" and architecture.options.get("conv_stem"):
        stem = f"patch_embed.backbone.{len(architecture.options['conv_stem']['sizes'])}.conv."
        return {name.replace("patch_embed.proj.", stem): array for name, array in arrays.items()}
    if layout == "timm" and is_sam(architecture):
        return sam_names(arrays, architecture)
    if layout == "timm" and (is_eva(architecture) or is_beit(architecture)):
        return eva_names(arrays)
    if layout == "timm" and architecture.options.get("block") == "parallel":
        return parallel_names(arrays, _array)
    if layout == "timm" and architecture.positions == "factorized":
        return naflex_names(arrays)
    return relative_names(arrays) if layout == "timm" else arrays


def _with_stacks(arrays: dict) -> dict:
    """Replace the entries `name[:,0]`, `name[:,1]` and so on by the array that stacks them on axis 1."""
    stacks: dict[str, list] = {}
    for name in [name for name in arrays if "[:," in name]:
        stacks.setdefault(name.partition("[")[0], []).append(arrays.pop(name))
    stack = lambda entries: np.stack([_array(*entry) for entry in entries], axis=1)  # noqa: E731
    return arrays | {name: (partial(stack, entries), SAME, 0, 1) for name, entries in stacks.items()}


def _with_thirds(arrays: dict) -> dict:
    """Replace the entries `name[|0]`, `name[|1]` and `name[|2]` by the array that joins them on the first axis."""
    parts: dict[str, list] = {}
    for name in [name for name in arrays if "[|" in name]:
        parts.setdefault(name.partition("[")[0], []).append((name, arrays.pop(name)))
    join = lambda entries: np.concatenate([_array(*entry) for _, entry in sorted(entries, key=_first)])  # noqa: E731
    return arrays | {name: (partial(join, entries), SAME, 0, 1) for name, entries in parts.items()}


def _first(pair: tuple):
    return pair[0]


def _with_prefix(read, prefix_tokens: int) -> np.ndarray:
    """Return a position embedding (1, h * w, D) with zeros for the tokens in front of the patches."""
    return np.pad(read(), ((0, 0), (prefix_tokens, 0), (0, 0)))


def _array(read, transform, part, heads) -> np.ndarray:
    return np.ascontiguousarray(transform.write(read(), heads)[part])


def _write_npz(path, arrays):
    """Write arrays as `np.savez` does, with one array in memory at a time."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, parts in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, _array(*parts), allow_pickle=False)


def _write_hdf5(path, model):
    model.save_weights(path)
    write_checksums(path)


def _write_safetensors(path, arrays):
    from safetensors.numpy import save_file

    arrays = {name: _array(*parts) for name, parts in arrays.items()}
    checksums = {name: checksum(array) for name, array in arrays.items()}
    save_file(arrays, path, metadata={"format": "pt", CHECKSUMS: json.dumps(checksums)})


def _write_json(path, config):
    path.write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


def _write_atomically(path: Path, write) -> None:
    """Write a temporary file with `write`, then rename it to `path`."""
    partial = path.with_name(f".partial-{os.getpid()}-{path.name}")
    try:
        write(partial)
        partial.replace(path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            partial.unlink()


def _print_preprocessing(spec, layout, as_folder):
    """Print how the model's images are prepared if the file does not state it."""
    if not spec.is_plain_scaling and not (layout == "timm" or (layout == "hf" and as_folder)):
        print(f"layout {layout!r}: its readers scale images to [-1, 1], the model's are {spec}.", file=sys.stderr)
    if layout == "timm" and spec.resize_mode == "corner":
        print("layout 'timm': its readers pad images on both ends, the model's are padded at the bottom and the right.",
              file=sys.stderr)  # fmt: skip


_IN_CONFIG = {"timm": ("activation", "pooling"), "hf": ("activation", "layer_norm_epsilon")}


def _print_differences(model, layout, config):
    """Print fields of the model that the file cannot state, and that its readers therefore assume differently."""
    parts = (model.options.get(name, False) for name in ("pre_norm", "gated_mlp"))
    usual = origin(LAYOUTS[layout], model.family, model.units is not None, *parts)
    if layout == "timm" and (known := find_timm_architecture(config)):
        usual["layer_norm_epsilon"] = known.layer_norm_epsilon
    if model.family == "vit":
        usual["pooling"] = pooling_of(model.pooling == "map", model.class_token, model.norm_after_pooling)
    for name, theirs in usual.items():
        value = getattr(model, name)
        if value != theirs and name not in _IN_CONFIG.get(layout, ()):
            print(f"layout {layout!r}: its readers assume {name}={theirs!r}, the model has {value!r}.", file=sys.stderr)
