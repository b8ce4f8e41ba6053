"""Benchmarks of keras_vit. `python -m benchmarks` compares it with its peers; the scripts each answer one question."""
