"""Rows, and the functional models built from them."""
