"""One builder per row of the tables, one file a family. `generate_zoo.py` writes these files."""
