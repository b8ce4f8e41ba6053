"""Looking inside a model, probing and counting it, and pictures. Needs no TensorFlow; drawing needs Matplotlib."""

from keras_vit.analysis.attention import Attention as Attention
from keras_vit.analysis.attention import attention_maps as attention_maps
from keras_vit.analysis.attention import capture as capture
from keras_vit.analysis.attention import class_attention as class_attention
from keras_vit.analysis.attention import rollout as rollout
from keras_vit.analysis.attention import rollout_maps as rollout_maps
from keras_vit.analysis.budget import device_days as device_days
from keras_vit.analysis.budget import training_bytes as training_bytes
from keras_vit.analysis.budget import training_exaflops as training_exaflops
from keras_vit.analysis.compute import count as count
from keras_vit.analysis.compute_plot import plot_compute as plot_compute
from keras_vit.analysis.curves import plot_training as plot_training
from keras_vit.analysis.curves import read_metrics as read_metrics
from keras_vit.analysis.plots import plot_attention as plot_attention
from keras_vit.analysis.plots import plot_predictions as plot_predictions
from keras_vit.analysis.published import published as published
from keras_vit.analysis.report import analyze as analyze
