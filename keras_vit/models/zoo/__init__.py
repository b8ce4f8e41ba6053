"""One builder per row of the tables, one file a family. `tools/generate_zoo.py` writes these files."""
