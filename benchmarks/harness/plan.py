"""Settings -> questions: the contestants that take turns, what they compute, and how their processes are started."""

import itertools
import json
import os
import sys
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from benchmarks.harness import matmul
from benchmarks.harness.settings import SERVED, Settings, shown
from keras_vit.models.variants import BiTVariant, ConvNet, find_variant

HERE = Path(__file__).parent
OURS = "keras_vit"
ON_KERAS = {
    OURS: "ours.py:prepare",
    "keras-hub": "keras_hub_peer.py:prepare",
    "keras_vit-recompute": "ours.py:recompute",
    "keras_vit-lora": "ours.py:lora",
    "keras_vit-probe": "ours.py:probe",
    "keras_vit-cores": "ours.py:cores",
    "keras_vit-compiled": "ours.py:compiled",
    "keras_vit-xla": "ours.py:xla",
    "keras_vit-frozen": "ours.py:frozen",
    "keras_vit-predict": "ours.py:predict",
    "keras_vit-saved_model": "ours.py:saved_model",
    "keras_vit-saved_model-frozen": "ours.py:saved_model_frozen",
    "keras_vit-openvino": "ours.py:openvino",
    "keras_vit-openvino-int8": "ours.py:openvino_int8",
}
ALL_OURS = tuple(library for library in ON_KERAS if library.startswith(OURS))
# They give up speed for memory, or exactness for speed, or train few weights, and run only where they are named.
BY_NAME = ("keras_vit-recompute", "keras_vit-lora", "keras_vit-probe", "keras_vit-openvino-int8")
# the engine; what XLA always compiles on JAX; a file that is the same from either
ON_TENSORFLOW = tuple(library for library in ALL_OURS if library not in (OURS, *SERVED))
ONLY = {library: "forward" for library in ALL_OURS if library not in (OURS, "keras_vit-cores")}
ONLY |= dict.fromkeys(("keras_vit-recompute", "keras_vit-lora", "keras_vit-probe"), "train")
ON_TORCH = {
    "timm": "torch_peers.py:timm",
    "timm-compiled": "torch_peers.py:timm_compiled",
    "transformers": "torch_peers.py:transformers",
    "transformers-compiled": "torch_peers.py:transformers_compiled",
}
MATMUL = "matmul"


@dataclass(frozen=True)
class Contestant:
    """One row of a table.

    Args:
        library: whose: of `ON_KERAS` or `ON_TORCH`, `matmul`, or `FILE.py:FUNCTION`.
        model: name of a row of the table; empty for a matmul.
        task: `forward` or `train`.
        dtype: `float32`, `bfloat16` or `mixed_bfloat16`.
        batch: images of a call.
        image_size: side in pixels.
        depth: encoder blocks; None for the row's own.
        device: `cpu` or `gpu`.
        backend: that Keras runs on, or library that multiplies; None elsewhere.
    """

    library: str
    model: str
    task: str
    dtype: str
    batch: int
    image_size: int
    depth: int | None
    device: str
    backend: str | None = None

    @property
    def name(self) -> str:
        """In the table."""
        return f"{shown(self.library)} {self.dtype}" + (f", {self.backend}" if self.backend else "")

    def command(self) -> list[str]:
        """That starts its process."""
        place = {**ON_KERAS, **ON_TORCH, MATMUL: "matmul.py:prepare"}.get(self.library)
        place = str(HERE / place) if place else str(Path(self.library).absolute())
        row = _described(find_variant(self.model)[0], self.depth) if self.model else None
        return [sys.executable, "-P", str(HERE / "worker.py"), place, json.dumps({**asdict(self), "row": row})]

    def environment(self) -> dict[str, str]:
        """Of its process."""
        own = {"TF_CPP_MIN_LOG_LEVEL": "3", "KERAS_BACKEND": self.backend or "tensorflow"}
        if self.device == "cpu":
            own |= {"CUDA_VISIBLE_DEVICES": "-1", "JAX_PLATFORMS": "cpu"}
        # Each process takes the memory that it needs: by default the first would take all of a GPU's. It may be more
        # than three quarters of it, where JAX ends by default, and torch and TensorFlow do not.
        own |= {"XLA_PYTHON_CLIENT_PREALLOCATE": "false", "TF_FORCE_GPU_ALLOW_GROWTH": "true"}
        own |= {"XLA_PYTHON_CLIENT_MEM_FRACTION": "0.92"}
        return {**os.environ, **own}


@dataclass(frozen=True)
class Question:
    """Contestants that compute the same; the first is ours, which the others are compared with.

    Args:
        model: name of the row.
        task: `forward` or `train`.
        precision: `float32` or `bfloat16`, which the contestants compute in.
        batch: images of a call.
        image_size: side in pixels.
        depth: encoder blocks; None for the row's own.
        device: `cpu` or `gpu`.
        rounds: turns of each.
        contestants: that take turns.
    """

    model: str
    task: str
    precision: str
    batch: int
    image_size: int
    depth: int | None
    device: str
    rounds: int
    contestants: tuple[Contestant, ...]

    def described(self) -> dict:
        """What is asked, without whom."""
        return {field.name: getattr(self, field.name) for field in fields(self) if field.name != "contestants"}

    @property
    def title(self) -> str:
        """In words."""
        depth = f", depth {self.depth}" if self.depth else ""
        task = "forward" if self.task == "forward" else "train step"
        return f"{self.model}{depth}, {task}, {self.precision}, batch {self.batch}, {self.image_size} px"


def questions(settings: tuple[Settings, ...]) -> list[Question]:
    """All of them, each once, in the order of the settings; what several ask is asked of the contestants of all.

    Raises:
        ValueError: there are none.
    """
    found = {}  # what is asked -> of whom, as keys in order
    for s in settings:
        for model, task, kind in itertools.product(s.models, s.tasks, ("float32", "bfloat16")):
            dtypes = [dtype for dtype in s.dtypes if dtype.endswith(kind)]
            # Weights stored in bfloat16 would lose most updates: nobody trains them.
            dtypes = [dtype for dtype in dtypes if task == "forward" or dtype != "bfloat16"]
            row = find_variant(model)[0]
            for side, depth, batch in itertools.product(s.image_sizes, s.depths, s.batches) if dtypes else ():
                depth = None if depth == getattr(row, "depth", None) else depth
                where = row.name, task, kind, batch, side or row.image_size, depth, s.device, s.rounds
                found.setdefault(where, {}).update(dict.fromkeys(_contestants(s, dtypes, where)))
    if not found:
        raise ValueError("dtypes expected float32 or mixed_bfloat16 with the task train, received bfloat16 alone.")
    return [Question(*where, tuple(contestants)) for where, contestants in found.items()]


def _contestants(settings, dtypes, where) -> tuple[Contestant, ...]:
    model, task, _, batch, size, depth, device, _ = where
    found = []
    for library in (OURS, *settings.peers):
        if ONLY.get(library, task) != task:
            continue
        backends = settings.backends if library in ON_KERAS else (None,)
        if library in ON_TENSORFLOW:
            backends = tuple(backend for backend in backends if backend == "tensorflow")
        for backend in backends:
            found += [Contestant(library, model, task, dtype, batch, size, depth, device, backend) for dtype in dtypes]
    return tuple(found)


def multipliers(precision: str, device: str, backends: tuple[str, ...]) -> list[Contestant]:
    """Contestants that multiply matrices: each library that may be the fastest, JAX where it is asked for."""
    libraries = [name for name in matmul.LIBRARIES if name != "jax" or "jax" in backends]
    libraries = [name for name in libraries if name != "numpy" or (precision, device) == ("float32", "cpu")]
    return [Contestant(MATMUL, "", "forward", precision, 1, 0, None, device, name) for name in libraries]


# Fields in which plain ViTs differ.
SIZES = {"name", "width", "depth", "mlp_dim", "num_heads", "patch_size", "image_size", "stem", "class_token", "pooling",
         "layer_norm_epsilon", "paper_name", "timm_name", "parameters"}  # fmt: skip
FAMILIES = {"CLIP_ViT_": "clip", "DINOv2_": "dinov2", "DINOv3_": "dinov3"}  # of which peers exist


def _described(row, depth) -> dict:
    """A row's sizes for the peers' processes, which import nothing of this package."""
    if isinstance(row, ConvNet):
        kind = "bit" if isinstance(row, BiTVariant) and not row.axial else "other"
        return {"kind": kind, "units": list(row.units), "width_factor": row.width_factor, "timm_name": row.timm_name}
    changed = {f.name for f in fields(row) if f.name not in SIZES and getattr(row, f.name) != f.default}
    family = next((name for prefix, name in FAMILIES.items() if row.name.startswith(prefix)), "other")
    patch = row.patch_size if isinstance(row.patch_size, tuple) else (row.patch_size, row.patch_size)
    return {
        "kind": "hybrid" if row.stem else family if changed else "vit",
        "width": row.width,
        "depth": depth or row.depth,
        "mlp_dim": row.mlp_dim,
        "num_heads": row.num_heads,
        "patch_size": list(patch),
        "timm_name": row.timm_name,
        "registers": row.registers,
        "gated_mlp": row.gated_mlp,
        "qkv_biases": [letter in row.qkv_bias for letter in "qkv"] if row.qkv_bias != "none" else [False] * 3,
    }
