"""Load exports from disk. TFLite, ONNX and OpenVINO files need neither TensorFlow nor Keras."""

from keras_vit.exported.load import ExportedModel as ExportedModel
from keras_vit.exported.load import load_export as load_export
