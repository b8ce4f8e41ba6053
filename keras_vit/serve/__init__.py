"""Serve exports over HTTP, by TensorFlow Serving's REST API and the Open Inference Protocol."""

from keras_vit.serve.server import serve as serve
