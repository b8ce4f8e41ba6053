"""Layer-wise learning rates."""

import re

import keras

BLOCK = re.compile(r"encoder_block_\d+|(stem_)?stage\d+_unit\d+")  # names of the layers that count as blocks


def layer_shares(model: keras.Model, decay: float) -> dict[str, float]:
    """Return the layer-wise factors of the rate: 1 after the last block, and one factor `decay` per block before it.

    Layers in front of the first block get one more factor `decay` than the first block (arXiv 2106.08254).
    """
    names = [layer.name for layer in model.layers]
    blocks = sum(bool(BLOCK.fullmatch(name)) for name in names)
    shares, passed = {}, 0
    for name in names:
        passed += bool(BLOCK.fullmatch(name))
        behind = passed == blocks and not BLOCK.fullmatch(name)
        shares[name] = 1.0 if behind else decay ** (blocks + 1 - passed)
    return shares
