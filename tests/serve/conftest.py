"""What the servers of these tests serve."""

import shutil

import pytest
from serving import tiny


@pytest.fixture(scope="module")
def exports(tmp_path_factory):
    """`photos`, RGB of 16 x 16 in two versions of different weights, and `grey`, grey of 8 x 16, without a manifest."""
    from keras_vit.export import export
    from keras_vit.export.saved_model import write_saved_model

    folder = tmp_path_factory.mktemp("saved_models")
    export(tiny(), folder / "photos", formats=("saved_model",))
    export(tiny(1), folder / "photos", formats=("saved_model",))
    write_saved_model(tiny(2, input_shape=(8, 16, 1), classes=3, labels=("x", "y", "z")), folder / "grey" / "1")
    yield folder
    shutil.rmtree(folder)
