"""Turn image files into model inputs: find, decode, orient, resize and scale them."""
