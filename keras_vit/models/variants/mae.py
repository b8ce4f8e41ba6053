"""Encoders of masked autoencoders (MAE, arXiv 2111.06377): plain Vision Transformers with the exact GELU.

The published files store the fixed sines and cosines of their positions as a weight, and MAE's fine-tuning trains it;
the rows therefore have learned positions. `positions="sincos2d_mae"` computes them, for training from scratch.
The plain rows have the same parameter counts.
"""

from dataclasses import replace

from keras_vit.models.variants import vit
from keras_vit.models.variants.rows import Variant

B16 = replace(vit.B16, name="MAE_B16", paper_name="MAE-B/16", timm_name=None, activation="gelu")
L16 = replace(vit.L16, name="MAE_L16", paper_name="MAE-L/16", timm_name=None, activation="gelu")
H14 = replace(vit.H14, name="MAE_H14", paper_name="MAE-H/14", timm_name=None, activation="gelu")

ROWS: tuple[Variant, ...] = (B16, L16, H14)
