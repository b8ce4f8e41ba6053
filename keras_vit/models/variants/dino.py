"""DINO (arXiv 2104.14294): plain Vision Transformers with the exact GELU, as the published files of timm have it.

The plain rows have the same parameter counts.
"""

from dataclasses import replace

from keras_vit.models.variants import vit
from keras_vit.models.variants.rows import Variant

S16 = replace(vit.S16, name="DINO_S16", paper_name="DINO-S/16", timm_name=None, activation="gelu")
S8 = replace(vit.S8, name="DINO_S8", paper_name="DINO-S/8", timm_name=None, activation="gelu")
B16 = replace(vit.B16, name="DINO_B16", paper_name="DINO-B/16", timm_name=None, activation="gelu")
B8 = replace(vit.B8, name="DINO_B8", paper_name="DINO-B/8", timm_name=None, activation="gelu")

ROWS: tuple[Variant, ...] = (S16, S8, B16, B8)
