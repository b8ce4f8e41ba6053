"""Evaluate models: accuracy, few-shot heads, probes of frozen features, and suites of data sets."""

from keras_vit.evaluate.disk_cache import fingerprint as fingerprint
from keras_vit.evaluate.heads import fit_logistic as fit_logistic
from keras_vit.evaluate.heads import neighbour_scores as neighbour_scores
from keras_vit.evaluate.ridge import few_shot_accuracies as few_shot_accuracies
from keras_vit.evaluate.ridge import fit_ridges as fit_ridges
from keras_vit.evaluate.ridge import ridge_scores as ridge_scores
from keras_vit.evaluate.ridge import sample_per_class as sample_per_class
