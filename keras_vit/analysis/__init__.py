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
from keras_vit.analysis.kept import fingerprint as fingerprint
from keras_vit.analysis.masked import plot_masked as plot_masked
from keras_vit.analysis.masked import predict_hidden as predict_hidden
from keras_vit.analysis.neighbours import fit_logistic as fit_logistic
from keras_vit.analysis.neighbours import neighbour_scores as neighbour_scores
from keras_vit.analysis.plots import plot_attention as plot_attention
from keras_vit.analysis.plots import plot_predictions as plot_predictions
from keras_vit.analysis.probe import few_of_each as few_of_each
from keras_vit.analysis.probe import few_shot_accuracies as few_shot_accuracies
from keras_vit.analysis.probe import fit_ridges as fit_ridges
from keras_vit.analysis.probe import ridge_scores as ridge_scores
from keras_vit.analysis.published import published as published
from keras_vit.analysis.report import analyze as analyze
