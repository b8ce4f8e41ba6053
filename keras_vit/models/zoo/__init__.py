"""One builder per row of the tables, one file a family. `codegen/zoo.py` writes these files."""
