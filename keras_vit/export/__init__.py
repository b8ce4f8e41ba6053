"""A Keras model -> files for production, each compared with the model before it is let out."""

from keras_vit.export.formats import FORMATS as FORMATS
from keras_vit.export.origin import Origin as Origin
from keras_vit.export.origin import origin_of as origin_of
from keras_vit.export.report import ExportReport as ExportReport
from keras_vit.export.write import export as export
from keras_vit.exported.load import ExportedModel as ExportedModel
from keras_vit.exported.load import load_export as load_export
