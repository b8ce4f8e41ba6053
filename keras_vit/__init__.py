"""Vision Transformers for Keras, numerically equal to the official code."""

import gc as _gc
import os as _os
import platform as _platform

if _platform.machine() in ("x86_64", "AMD64"):
    # TensorFlow has oneDNN's products behind this switch where the processor ends with AVX2: 1.1 to 1.5 times the speed
    # there (benchmarks/NOTES.md). It is read once, when TensorFlow is imported.
    _os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")

if _gc.isenabled():
    # An import makes half a million objects that stay: searching them for garbage is a sixth of its time.
    _gc.disable()
    try:
        import keras as _keras  # noqa: F401
    finally:
        _gc.enable()

from keras_vit import layers as layers
from keras_vit.image_spec import ImageSpec as ImageSpec
from keras_vit.image_spec import preprocessing_of as preprocessing_of
from keras_vit.models.builders import build as build
from keras_vit.models.builders import create_model as create_model
from keras_vit.models.features import feature_model as feature_model
from keras_vit.models.load import load_model as load_model
from keras_vit.models.pretrained import from_pretrained as from_pretrained
from keras_vit.models.variants import BiTVariant as BiTVariant
from keras_vit.models.variants import ResNetStem as ResNetStem
from keras_vit.models.variants import Variant as Variant
from keras_vit.models.variants import list_models as list_models
from keras_vit.models.zoo import AxialResNet_R50x1 as AxialResNet_R50x1
from keras_vit.models.zoo import AxialViT_B16 as AxialViT_B16
from keras_vit.models.zoo import AxialViT_B32 as AxialViT_B32
from keras_vit.models.zoo import BiT_R50x1 as BiT_R50x1
from keras_vit.models.zoo import BiT_R50x2 as BiT_R50x2
from keras_vit.models.zoo import BiT_R50x3 as BiT_R50x3
from keras_vit.models.zoo import BiT_R101x1 as BiT_R101x1
from keras_vit.models.zoo import BiT_R101x3 as BiT_R101x3
from keras_vit.models.zoo import BiT_R152x1 as BiT_R152x1
from keras_vit.models.zoo import BiT_R152x2 as BiT_R152x2
from keras_vit.models.zoo import BiT_R152x4 as BiT_R152x4
from keras_vit.models.zoo import BiT_R200x3 as BiT_R200x3
from keras_vit.models.zoo import R26_ViT_B32 as R26_ViT_B32
from keras_vit.models.zoo import R26_ViT_S32 as R26_ViT_S32
from keras_vit.models.zoo import R50_ViT_B16 as R50_ViT_B16
from keras_vit.models.zoo import R50_ViT_B32 as R50_ViT_B32
from keras_vit.models.zoo import R50_ViT_L16 as R50_ViT_L16
from keras_vit.models.zoo import R50_ViT_L32 as R50_ViT_L32
from keras_vit.models.zoo import R_ViT_Ti16 as R_ViT_Ti16
from keras_vit.models.zoo import ViT_B8 as ViT_B8
from keras_vit.models.zoo import ViT_B16 as ViT_B16
from keras_vit.models.zoo import ViT_B32 as ViT_B32
from keras_vit.models.zoo import ViT_G14 as ViT_G14
from keras_vit.models.zoo import ViT_g14 as ViT_g14
from keras_vit.models.zoo import ViT_H14 as ViT_H14
from keras_vit.models.zoo import ViT_H16 as ViT_H16
from keras_vit.models.zoo import ViT_L16 as ViT_L16
from keras_vit.models.zoo import ViT_L32 as ViT_L32
from keras_vit.models.zoo import ViT_S8 as ViT_S8
from keras_vit.models.zoo import ViT_S16 as ViT_S16
from keras_vit.models.zoo import ViT_S32 as ViT_S32
from keras_vit.models.zoo import ViT_Ti16 as ViT_Ti16
from keras_vit.preprocess import decode_predictions as decode_predictions
from keras_vit.preprocess import preprocess_input as preprocess_input
from keras_vit.weights import list_weights as list_weights
from keras_vit.weights import load_weights as load_weights
from keras_vit.weights import save_weights as save_weights
from keras_vit.xla.forward import compiled as compiled

__version__ = "0.1.0"
