"""Compare settings of a recipe: a sweep over fields, several seeds, and folds of the training data."""
