"""Plots of the analysis tools, drawn by Matplotlib."""
