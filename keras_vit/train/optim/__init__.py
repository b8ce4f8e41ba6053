"""Optimizers, learning-rate schedules, gradients and freezing."""
