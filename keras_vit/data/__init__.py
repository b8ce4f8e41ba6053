"""Read images and labels, and make batches."""

SOURCES = ("digits", "folder", "arrays", "csv", "tfds:NAME", "vtab:TASK")
