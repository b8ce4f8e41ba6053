"""Classify image files with a Keras model or an export."""

from keras_vit.predict.predictor import load_predictor as load_predictor
from keras_vit.predict.predictor import predict as predict
from keras_vit.predict.predictor import predict_each as predict_each
