"""Read images and labels, and make batches."""

SOURCES = ("digits", "folder", "arrays", "tfds:NAME", "vtab:TASK")
