"""What a question takes: operations, and the memory that tells whose processes may be alive at once."""

import dataclasses
from dataclasses import dataclass

from benchmarks.harness.plan import ALL_OURS, ON_TORCH, Contestant, Question
from keras_vit.cost.budget import BYTES, training_bytes
from keras_vit.cost.operations import count
from keras_vit.cost.weightless import build_weightless
from keras_vit.models.variants import ConvNet, find_variant

BASE = 0.8e9  # bytes of a process that has imported a library
# Peaks of training over `BASE`, by `training_bytes`: about the most that was measured of each, in float32, batch 8, in
# benchmarks/results/bench-2026-11-22-114638.json: ours on TensorFlow 1.23 (L/16) and 1.31 (B/16), with convolutions
# 1.50 (R50+B/16) and 1.74 (BiT-R50x1); on torch 0.70 to 1.01; ours on JAX 1.27, keras-hub 1.54 to 1.73 (1.78 in
# mixed_bfloat16, benchmarks/script_results.md).
OURS_HOLDS, TORCH_HOLDS, OTHERS_HOLD = 1.4, 1.0, 1.8
# Likewise on an H200, in mixed_bfloat16, batch 256, at 224 and 384 pixels, where attention's weights are counted, and
# transformers compiled alone holds them: of B/16 ours on JAX 0.85 and 0.65, timm compiled 0.96 and 0.74, transformers
# 1.04 and 0.82, compiled 1.22 at 224 pixels.
ON_GPU_HOLDS = {"keras_vit": 0.9, "transformers": 1.1, "transformers-compiled": 1.5}
# Copies of float32 weights: as made, as given, in another type; where kernels of blocks are packed, and where those of
# convolutions are constants, too, by peaks on an Intel Xeon at batch 8 (B/16 1.7 GB, R50+B/16 2.4 and BiT-R50x1 2.6).
PLAIN, PACKED, WITH_STEM, ALL_CONSTANT = 3, 4, 6, 20


@dataclass(frozen=True)
class Size:
    """What a question takes.

    Args:
        flops: operations of one image, two a multiply-add; of training three times the forward ones.
        bytes: that a contestant may hold at most, as estimated: {contestant: bytes}.
    """

    flops: int
    bytes: dict[Contestant, float]


def size_of(question: Question) -> Size:
    """What a question takes, from the model's shapes.

    Raises:
        ValueError: the model cannot have this image size.
    """
    row = find_variant(question.model)[0]
    row = row if question.depth is None else dataclasses.replace(row, depth=question.depth)
    model = build_weightless(row, (question.image_size, question.image_size))
    cost = count(model)
    held = {}
    for contestant in question.contestants:
        if contestant.task == "train":
            needed = training_bytes(model, contestant.batch, "adamw", contestant.dtype)
            held[contestant] = BASE + _times_counted(contestant, row) * needed.total
        else:  # copies of the weights, and a few layers' activations
            alive = 4 / len(cost.layers) * cost.activations * contestant.batch * BYTES[contestant.dtype]
            held[contestant] = BASE + 4 * _copies(contestant, row) * cost.parameters + alive
        torch_compiles = contestant.library in ON_TORCH and contestant.library.endswith("-compiled")
        held[contestant] += BASE if torch_compiles else 0  # the compiler's processes
    times = 3 if question.task == "train" else 1
    return Size(times * cost.flops, held)


def _copies(contestant, row) -> int:
    """How many copies of the weights a forward pass holds."""
    if contestant.library == "keras_vit-frozen":
        return ALL_CONSTANT if isinstance(row, ConvNet) else PACKED if row.stem is None else WITH_STEM
    return PACKED if contestant.library == "keras_vit-saved_model-frozen" else PLAIN


def _times_counted(contestant, row) -> float:
    """How many times the counted bytes of training a contestant holds at most."""
    if contestant.device == "gpu":
        return ON_GPU_HOLDS.get(contestant.library, TORCH_HOLDS)
    if contestant.library in ON_TORCH:
        return TORCH_HOLDS
    ours = contestant.library in ALL_OURS and contestant.backend == "tensorflow"
    return OURS_HOLDS if ours and not isinstance(row, ConvNet) and row.stem is None else OTHERS_HOLD


def groups(needs: dict, room: float | None) -> list[list]:
    """Who may be alive at once: lists that each begin with the first one, or hold one that does not fit beside it.

    Args:
        needs: contestant -> bytes; the first is the one that all are compared with.
        room: bytes for all processes; None for no limit.
    """
    first, *others = needs
    found, now = [], [first]
    for other in others:
        if room is not None and needs[first] + needs[other] > room:
            found.append([other])
        elif room is not None and sum(needs[one] for one in now) + needs[other] > room:
            found.append(now)
            now = [first, other]
        else:
            now.append(other)
    return [now, *found] if len(now) > 1 or not any(first in group for group in found) else found
