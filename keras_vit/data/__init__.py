"""Read images and labels, and make batches."""

SOURCES = ("digits", "folder", "csv", "arrays", "tfds:NAME", "vtab:TASK")
