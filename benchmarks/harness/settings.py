"""What is measured: the product of models, tasks, types, sizes and contestants; and named sets of such products."""

import dataclasses
import hashlib
import itertools
from dataclasses import dataclass
from pathlib import Path

from keras_vit.models.variants import ConvNet, find_variant

TASKS = ("forward", "train")
DTYPES = ("float32", "bfloat16", "mixed_bfloat16")
BACKENDS = ("tensorflow", "jax")
DEVICES = ("cpu", "gpu")
PEERS = ("keras-hub", "timm", "timm-compiled", "transformers")
SERVED = ("keras_vit-predict", "keras_vit-saved_model", "keras_vit-saved_model-frozen")
OTHERS = (
    "transformers-compiled",
    "keras_vit-recompute",
    "keras_vit-lora",
    "keras_vit-probe",
    "keras_vit-cores",
    "keras_vit-compiled",
    "keras_vit-xla",
    "keras_vit-frozen",
    "keras_vit-openvino",
    "keras_vit-openvino-int8",
    *SERVED,
)  # known, and asked for by name alone


@dataclass(frozen=True)
class Settings:
    """One product of what is measured.

    Args:
        models: names of rows of the table.
        tasks: of `TASKS`: a forward pass, an update of the weights.
        dtypes: of `DTYPES`: `bfloat16` stores the weights in it, and trains nothing; `mixed_bfloat16` computes in it.
        batches: images of a call.
        backends: of `BACKENDS`: that Keras's contestants run on.
        peers: of `PEERS` and `OTHERS`, or `FILE.py:FUNCTION` of your own (benchmarks/README.md).
        image_sizes: sides in pixels; None for the model's own.
        depths: numbers of encoder blocks; None for the model's own.
        rounds: turns of each contestant.
        device: of `DEVICES`.

    Raises:
        ValueError: a field is empty or holds what is not known.
    """

    models: tuple[str, ...] = ("ViT_B16",)
    tasks: tuple[str, ...] = TASKS
    dtypes: tuple[str, ...] = DTYPES
    batches: tuple[int, ...] = (8,)
    backends: tuple[str, ...] = BACKENDS
    peers: tuple[str, ...] = PEERS
    image_sizes: tuple[int | None, ...] = (None,)
    depths: tuple[int | None, ...] = (None,)
    rounds: int = 7
    device: str = "cpu"

    def __post_init__(self):
        for name, known in (("tasks", TASKS), ("dtypes", DTYPES), ("backends", BACKENDS)):
            wrong = [value for value in getattr(self, name) if value not in known]
            if wrong or not getattr(self, name):
                raise ValueError(f"{name} expected some of {', '.join(known)}, received "
                                 f"{repr(wrong[0]) if wrong else 'nothing'}.")  # fmt: skip
        for name in ("batches", "image_sizes", "depths", "rounds"):
            values = getattr(self, name) if name != "rounds" else (self.rounds,)
            free = name in ("image_sizes", "depths")
            wrong = [value for value in values if not (value is None and free or isinstance(value, int) and value > 0)]
            if wrong or not values:
                raise ValueError(f"{name} expected positive ints, received {repr(wrong[0]) if wrong else 'nothing'}.")
        if not self.models:
            raise ValueError("models expected names of list_models(), received nothing.")
        for model in self.models:
            if isinstance(find_variant(model)[0], ConvNet) and self.depths != (None,):
                raise ValueError(f"depths expected nothing with {model}, which has no encoder blocks.")
        for peer in self.peers:
            _check_peer(peer)
        for one, other in itertools.combinations(dict.fromkeys(self.peers), 2):
            if shown(one) == shown(other):
                raise ValueError(f"peers expected different names for the tables, received {one} and {other}, which "
                                 f"are both {shown(one)}.")  # fmt: skip
        if self.device not in DEVICES:
            raise ValueError(f"device expected one of {', '.join(DEVICES)}, received {self.device!r}.")


def shown(library: str) -> str:
    """A library's name in the tables; of a file, its own and the function's."""
    return Path(library).name.replace(".py:", ":")


def hashes_of_files(parts: tuple[Settings, ...]) -> dict[str, str]:
    """File -> the first of its hash, of all peers of one's own."""
    files = {peer.rpartition(":")[0] for part in parts for peer in part.peers if peer not in PEERS + OTHERS}
    return {file: hashlib.sha256(Path(file).read_bytes()).hexdigest()[:12] for file in sorted(files)}


def _check_peer(peer: str) -> None:
    file, colon, function = peer.rpartition(":")
    if peer not in PEERS + OTHERS and not (colon and function.isidentifier() and Path(file).is_file()):
        raise ValueError(f"peers expected some of {', '.join(PEERS + OTHERS)}, none, or FILE.py:FUNCTION, received "
                         f"{peer!r}.")  # fmt: skip


HALF = ("bfloat16", "mixed_bfloat16")
LARGER = ("ViT_L16", "R50_ViT_B16", "BiT_R50x1")
PRESETS = {
    # the goals of the project on a CPU; JAX in float32 alone, to save time
    "targets": (
        Settings(dtypes=("float32",), peers=(*PEERS, "keras_vit-compiled", "keras_vit-xla", "keras_vit-cores")),
        Settings(
            dtypes=HALF, batches=(8, 32), backends=("tensorflow",),
            peers=(*PEERS, "keras_vit-recompute", "keras_vit-compiled", "keras_vit-frozen", *SERVED),
        ),
        Settings(
            tasks=("forward",), dtypes=("bfloat16",), batches=(8, 32), backends=("tensorflow",),
            peers=("keras_vit-openvino", "keras_vit-openvino-int8"),
        ),
        Settings(
            models=("ViT_Ti16",), tasks=("forward",), dtypes=("float32",), batches=(1,),
            peers=(*PEERS, "keras_vit-xla", "keras_vit-openvino"),
        ),
        Settings(
            models=LARGER, backends=("tensorflow",),
            peers=(*PEERS, "keras_vit-compiled", "keras_vit-cores", "keras_vit-saved_model"),
        ),
        Settings(
            models=LARGER, tasks=("forward",), dtypes=("float32", "bfloat16"), backends=("tensorflow",),
            peers=("keras_vit-openvino",),
        ),
    ),
    # how the time grows with the image, the batch and the depth
    "growth": (
        Settings(dtypes=("mixed_bfloat16",), image_sizes=(224, 384, 512), backends=("tensorflow",)),
        Settings(dtypes=("mixed_bfloat16",), batches=(1, 8, 32), backends=("tensorflow",)),
        Settings(dtypes=("mixed_bfloat16",), depths=(6, 12, 24), backends=("tensorflow",)),
    ),
    "gpu": tuple(
        Settings(
            models=("ViT_B16", "ViT_L16"), tasks=(task,), dtypes=(dtype,), batches=(256,), backends=("jax",),
            image_sizes=(224, 384), peers=("timm", "timm-compiled", "transformers", "transformers-compiled"),
            device="gpu",
        )
        for task, dtype in (("forward", "bfloat16"), ("train", "mixed_bfloat16"))
    ),
    # in a minute
    "quick": (
        Settings(
            models=("ViT_Ti16",), tasks=("forward",), dtypes=("float32",), batches=(2,), backends=("tensorflow",),
            peers=("keras-hub", "timm", "transformers"), rounds=3,
        ),
    ),
}  # fmt: skip


def small(settings: Settings) -> Settings:
    """The same contestants where their device is not at hand: a small model, two images a call, on the CPU."""
    size = {"models": ("ViT_Ti16",), "batches": (2,), "image_sizes": (None,), "depths": (None,)}
    return dataclasses.replace(settings, **size, rounds=min(settings.rounds, 3), device="cpu")


def in_float32(parts: tuple[Settings, ...]) -> tuple[Settings, ...]:
    """The parts, each asked in float32 alone; what two of them ask alike by then is one question (`plan.questions`)."""
    return tuple(dataclasses.replace(part, dtypes=("float32",)) for part in parts)
