"""The parts of a row that are dataclasses themselves: stems and rotary positions."""

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class ResNetStem:
    """The ResNet in front of a hybrid's patches (section 4.1).

    Args:
        units: number of units of each stage; () stands for the first convolution and pooling only.
        width_factor: multiplies the number of channels; the first convolution has 64 at a factor of 1.
        group_norm_epsilon: 1e-6 in the official code, 1e-5 in timm.
        weight_epsilon: epsilon of the weight standardisation; 1e-5 in the official code, 1e-8 in timm.
        weight_epsilon_on: where the epsilon is added, to the `std` (official) or to the `variance` (timm).
    """

    units: tuple[int, ...]
    width_factor: float = 1.0
    group_norm_epsilon: float = 1e-6
    weight_epsilon: float = 1e-5
    weight_epsilon_on: str = "std"

    @property
    def stride(self) -> int:
        """Side in pixels of one cell of the stem's feature map."""
        return 4 * 2 ** max(len(self.units) - 1, 0)


@dataclass(frozen=True)
class ConvStem:
    """Convolutions of squares that do not overlap, in front of a hybrid's patches (MobileCLIP, arXiv 2311.17049).

    A batch norm and GELU follow each.

    Args:
        widths: number of channels after each convolution.
        sizes: side of each convolution's squares, in pixels and then in cells.
    """

    widths: tuple[int, ...]
    sizes: tuple[int, ...] = (4, 2)

    @property
    def stride(self) -> int:
        """Side in pixels of one cell of the stem's feature map."""
        return math.prod(self.sizes)


@dataclass(frozen=True)
class Rope:
    """Rotary position embedding: pairs of features of queries and keys are rotated by the patch's coordinates.

    Tokens in front of the patches are not rotated. A pair of features turns by frequency times coordinate. The first
    half of the pairs turns with the first coordinate, the second half with the second.

    Args:
        temperature: base of the frequencies, `temperature ** (-i / n)` for pair i of n.
        learned: whether each head of each block has learned frequencies for both coordinates (RoPE-mixed of RoPE-ViT).
        coordinates: `cells` counts patches from zero. `centers` are the centers of the patches, scaled from -pi * 2 to
            pi * 2 across the image (DINOv3).
        reference_grid: (height, width) in patches of the grid in pre-training, to which `cells` are scaled (EVA-02);
            None leaves them unscaled.
        offset: added to the count of patches.
        order: `yx` if the row is the first coordinate, `xy` if the column is.
        pairs: `neighbours` pairs features 2 i and 2 i + 1; `halves` pairs features i and i + d / 2.
        shift: in training, a random value in [-shift, shift] is added to each coordinate, in cells or, of `centers`, in
            halves of the image; None for none. All images of a batch have the same, and each block its own. The next
            two likewise (DINOv3).
        jitter: in training, each coordinate is multiplied by a random factor in [1 / jitter, jitter].
        rescale: in training, both coordinates are multiplied by one random factor in [1 / rescale, rescale]; DINOv3 was
            trained with 2.
    """

    temperature: float = 10_000.0
    learned: bool = False
    coordinates: str = "cells"
    reference_grid: tuple[int, ...] | None = None
    offset: float = 0.0
    order: str = "yx"
    pairs: str = "neighbours"
    shift: float | None = None
    jitter: float | None = None
    rescale: float | None = None
