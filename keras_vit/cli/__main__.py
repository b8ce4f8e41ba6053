"""`python -m keras_vit.cli` is `keras-vit`."""

import sys

from keras_vit.cli import main

sys.exit(main())
