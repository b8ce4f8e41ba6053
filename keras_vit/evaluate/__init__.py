"""Evaluate models on labelled images, and their features by few-shot heads, probes and suites of data sets."""

from keras_vit.evaluate.agreement import agreement as agreement
from keras_vit.evaluate.agreement import mcnemar as mcnemar
from keras_vit.evaluate.calibration import calibration as calibration
from keras_vit.evaluate.calibration import fit_temperature as fit_temperature
from keras_vit.evaluate.class_metrics import class_metrics as class_metrics
from keras_vit.evaluate.disk_cache import fingerprint as fingerprint
from keras_vit.evaluate.heads import fit_logistic as fit_logistic
from keras_vit.evaluate.heads import neighbour_scores as neighbour_scores
from keras_vit.evaluate.label_results import label_results as label_results
from keras_vit.evaluate.mistakes import likely_wrong_labels as likely_wrong_labels
from keras_vit.evaluate.paired import label_agreement as label_agreement
from keras_vit.evaluate.paired import paired_test as paired_test
from keras_vit.evaluate.paired import value_agreement as value_agreement
from keras_vit.evaluate.results import labelled_results as labelled_results
from keras_vit.evaluate.ridge import few_shot_accuracies as few_shot_accuracies
from keras_vit.evaluate.ridge import fit_ridges as fit_ridges
from keras_vit.evaluate.ridge import ridge_scores as ridge_scores
from keras_vit.evaluate.ridge import sample_per_class as sample_per_class
from keras_vit.evaluate.temperature import set_temperature as set_temperature
