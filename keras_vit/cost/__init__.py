"""Count parameters, multiply-adds, memory and training time of models, on any Keras backend."""

from keras_vit.cost.budget import device_days as device_days
from keras_vit.cost.budget import largest_batch as largest_batch
from keras_vit.cost.budget import training_bytes as training_bytes
from keras_vit.cost.budget import training_exaflops as training_exaflops
from keras_vit.cost.operations import count as count
from keras_vit.cost.plot import plot_compute as plot_compute
from keras_vit.cost.published import published as published
from keras_vit.cost.scaling import Device as Device
from keras_vit.cost.scaling import predict_scaling as predict_scaling
from keras_vit.cost.scaling import smallest_batch as smallest_batch
