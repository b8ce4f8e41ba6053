"""The table of names of BiT in every published layout. `weights/names.py` explains the signs."""

from keras_vit.weights.name_rows import Row, row_of_cells
from keras_vit.weights.transforms import CHANNELS, POINTWISE, SAME, TORCH_CONV, TORCH_POINTWISE, TRANSPOSED


def _bit_conv(ours: str, npz: str, big_vision: str, timm: str, hf: str) -> Row:
    return row_of_cells(
        f"{ours}/kernel",
        {
            "npz": (f"resnet/{npz}standardized_conv2d/kernel", SAME),
            "big_vision": (f"{big_vision}/kernel", SAME),
            "timm": (f"{timm}.weight", TORCH_CONV),
            "hf": (f"{hf}.weight", TORCH_CONV),
        },
    )


def _bit_norm(ours: str, npz: str, big_vision: str, timm: str, hf: str):
    return tuple(
        row_of_cells(
            f"{ours}/{mine}",
            {
                "npz": (f"resnet/{npz}group_norm/{mine}", SAME),
                "big_vision": (f"{big_vision}/{theirs}", CHANNELS),
                "timm": (f"{timm}.{word}", SAME),
                "hf": (f"{hf}.{word}", SAME),
            },
        )
        for mine, theirs, word in (("gamma", "scale", "weight"), ("beta", "bias", "bias"))
    )


_UNIT, _BIT_NPZ, _BIT_BV = "stage{s}_unit{u:02d}/", "block{s}/unit{u:02d}/", "block{s}/unit{u:02d}/"
_BIT_TIMM, _BIT_HF = "stages.{s0}.blocks.{u0}.", "bit.encoder.stages.{s0}.layers.{u0}."
# Variables of batch norms, and of EvoNorms.
_MORE = (("moving_mean", "running_mean"), ("moving_variance", "running_var"), ("slope", "v"))
_LETTERS = ((1, "a"), (2, "b"), (3, "c"))
BIT = (
    _bit_conv("root", "root_block/", "root_block/conv_root", "stem.conv", "bit.embedder.convolution"),
    *(
        _bit_conv(_UNIT + ours, _BIT_NPZ + npz, _BIT_BV + big_vision, _BIT_TIMM + torch, _BIT_HF + torch)
        for ours, npz, big_vision, torch in (
            *((f"conv{n}", f"{letter}/", f"conv{n}", f"conv{n}") for n, letter in _LETTERS),
            ("proj", "a/proj/", "conv_proj", "downsample.conv"),
        )
    ),
    *(
        row
        for n, letter in _LETTERS
        for row in _bit_norm(
            f"{_UNIT}norm{n}", f"{_BIT_NPZ}{letter}/", f"{_BIT_BV}gn{n}", f"{_BIT_TIMM}norm{n}", f"{_BIT_HF}norm{n}"
        )
    ),
    *(  # not in any published layout
        row_of_cells(f"{_UNIT}axial/{line}/{part}", {})
        for line in ("row", "column")
        for part in ("offsets", "qkv/kernel", "qkv/bias", "out/kernel", "out/bias")
    ),
    *_bit_norm("norm", "", "norm-pre-head", "norm", "bit.norm"),
    *(  # timm's other ResNets: three convolutions in the stem, batch norms and EvoNorms
        row_of_cells(f"{ours}/kernel", {"timm": (f"stem.conv{n}.weight", TORCH_CONV)})
        for ours, n in (("root", 1), ("root2", 2), ("root3", 3))
    ),
    *(
        row_of_cells(f"root_norm{n}/{ours}", {"timm": (f"stem.norm{n}.{theirs}", SAME)})
        for n in (1, 2)
        for ours, theirs in (("gamma", "weight"), ("beta", "bias"), *_MORE)
    ),
    *(
        row_of_cells(f"{layer}/{ours}", {"timm": (f"{torch}.{theirs}", SAME)})
        for layer, torch in (*((f"{_UNIT}norm{n}", f"{_BIT_TIMM}norm{n}") for n in (1, 2, 3)), ("norm", "norm"))
        for ours, theirs in _MORE
    ),
    row_of_cells(
        "head/kernel",
        {
            "npz": ("resnet/head/conv2d/kernel", POINTWISE),
            "big_vision": ("head/kernel", SAME),
            "timm": ("head.fc.weight", TORCH_POINTWISE),
            "hf": ("classifier.1.weight", TRANSPOSED),
        },
    ),
    row_of_cells(
        "head/bias",
        {
            "npz": ("resnet/head/conv2d/bias", SAME),
            "big_vision": ("head/bias", SAME),
            "timm": ("head.fc.bias", SAME),
            "hf": ("classifier.1.bias", SAME),
        },
    ),
)
