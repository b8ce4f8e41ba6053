"""Programs that write generated files of the repository."""
