"""The tables of models, and the functional models that are built from their rows."""
