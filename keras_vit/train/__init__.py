"""Recipes, and the loop that runs them."""
