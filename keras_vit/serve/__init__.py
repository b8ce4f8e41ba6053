"""An export on disk -> answers over HTTP, in TensorFlow Serving's REST and the Open Inference Protocol."""

from keras_vit.serve.server import serve as serve
