"""The documentation site: generated pages, tables, and the sources that Sphinx builds."""
