"""Plots of the analysis tools, drawn with Matplotlib."""
