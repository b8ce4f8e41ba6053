"""`python -m benchmarks` is `keras-vit bench`."""

import sys

from keras_vit.cli import main

sys.exit(main(["bench", *sys.argv[1:]]))
