"""Images and labels, from where they lie to batches."""

SOURCES = ("digits", "folder", "arrays", "tfds:NAME", "vtab:TASK")
