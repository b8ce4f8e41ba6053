"""Images and labels, from where they lie to batches."""
