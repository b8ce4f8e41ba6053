"""Image files -> their best classes, by a Keras model or by an export of one."""

from keras_vit.predict.predictor import load_predictor as load_predictor
from keras_vit.predict.predictor import predict as predict
from keras_vit.predict.predictor import predict_each as predict_each
