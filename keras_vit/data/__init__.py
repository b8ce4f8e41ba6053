"""Read images and labels, and make batches."""

TARGETS = ("classes", "probabilities", "numbers")  # what the labels of a table are
SOURCES = ("digits", "folder", "arrays", "csv", "tfds:NAME", "vtab:TASK")
