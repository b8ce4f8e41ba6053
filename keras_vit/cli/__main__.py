"""Run `keras-vit` as `python -m keras_vit.cli`."""

import sys

from keras_vit.cli import main

sys.exit(main())
