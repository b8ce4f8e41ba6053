"""Find, read and write published weights, in NumPy."""

from keras_vit.weights.catalogue import list_weights as list_weights
from keras_vit.weights.download import published_classes as published_classes
from keras_vit.weights.files import holds_weights as holds_weights
from keras_vit.weights.files import is_keras_model as is_keras_model
from keras_vit.weights.files import is_weights as is_weights
from keras_vit.weights.headers import classes_of as classes_of
from keras_vit.weights.headers import conventions_of as conventions_of
from keras_vit.weights.headers import require_classes as require_classes
from keras_vit.weights.load import load_file as load_file
from keras_vit.weights.load import load_weights as load_weights
from keras_vit.weights.report import Report as Report
from keras_vit.weights.write import save_weights as save_weights
